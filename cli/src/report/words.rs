//! Every word of the reports' frame, in every language. Sentences about an incident come from the analysis.
//!
//! A word that is missing in one language does not compile; a test looks for words left in the other language.

use crate::locale::Lang;

macro_rules! words {
    ($($name:ident: $en:literal, $zh:literal;)*) => {
        /// The words of one language. Those with `{…}` are filled by [`fill`].
        #[derive(Debug)]
        #[allow(missing_docs)]
        pub struct Words {
            $(pub $name: &'static str,)*
        }
        static EN: Words = Words { $($name: $en,)* };
        static ZH: Words = Words { $($name: $zh,)* };
        /// Name, English, Chinese of every word.
        pub static ALL: &[(&str, &str, &str)] = &[$((stringify!($name), $en, $zh),)*];
    };
}

words! {
    // Verdicts
    deadlock: "DEADLOCK", "死锁";
    hang: "HANG", "挂起";
    slow: "SLOW", "缓慢";
    crash: "CRASH", "崩溃";
    leak: "LEAK", "泄漏";
    healthy: "HEALTHY", "正常";
    inconclusive: "INCONCLUSIVE", "无法判定";
    // Trust
    proven: "proven", "已证实";
    strong: "strong", "很可信";
    likely: "likely", "较可信";
    guess: "guess", "猜测";
    trust: "trust", "可信度";
    trust_proven: "The memory or the runtime itself shows it, and nothing else fits.", "内存或运行时本身已表明，且没有其他解释。";
    trust_strong: "Independent evidence agrees and nothing contradicts it.", "多项独立证据一致，且无相反证据。";
    trust_likely: "One good reason, and no better candidate.", "有一个充分的理由，且没有更好的候选。";
    trust_guess: "Only the oldest-waiter rule or elimination speaks for it.", "仅依据等待最久规则或排除法。";
    // Amounts
    minutes: "{n} min", "{n} 分钟";
    under_a_minute: "< 1 min", "不足 1 分钟";
    at_least_minutes: "at least {n} minutes", "至少 {n} 分钟";
    at_least_minute: "at least 1 minute", "至少 1 分钟";
    hours: "{h} h {m} min", "{h} 小时 {m} 分";
    goroutines: "{n} goroutines", "{n} 个 goroutine";
    goroutine_one: "1 goroutine", "1 个 goroutine";
    processes: "{n} processes", "{n} 个进程";
    files: "{n} files", "{n} 个文件";
    file_one: "1 file", "1 个文件";
    snapshots: "{n} snapshots", "{n} 份快照";
    snapshot_one: "1 snapshot", "1 份快照";
    from_files: "{snapshots} from {files}", "{snapshots}，来自 {files}";
    cut_short: "{n} cut short", "{n} 份不完整";
    bytes: "{n} bytes", "{n} 字节";
    in_processes: "{goroutines} in {processes}", "{processes}中的 {goroutines}";
    behind_it: "behind it: {what}", "受其阻塞：{what}";
    more: "{n} more", "另有 {n} 个";
    // The chain
    waits_for: "waits for {what}", "等待 {what}";
    wait_for: "wait for {what}", "等待 {what}";
    holds_it: "holds it", "持有该锁";
    holds_it_in: "holds it, {what}", "持有该锁，{what}";
    holds_and_waits: "holds it, waits for {what}", "持有该锁，又等待 {what}";
    back_to: "back to {what}", "回到 {what}";
    stuck_in: "in {what}", "阻塞于 {what}";
    left_locked: "left locked: nobody can hold it", "未解锁：已无任何持有者";
    holder_not_here: "its holder is not in this evidence", "持有者不在这些证据中";
    holder_unknown: "holder unknown", "持有者未知";
    root: "root", "根源";
    symptom: "symptom", "症状";
    cycle: "cycle", "环路";
    g_count: "{n} g", "{n} g";
    why_holder: "Why goroutine {n} is the holder", "为何认定 goroutine {n} 是持有者";
    why_holder_of: "Why goroutine {n} holds {what}", "为何认定 goroutine {n} 持有 {what}";
    why: "Why", "依据";
    why_this: "Why this is said", "结论依据";
    // What to do
    do_now: "Do now", "立即处理";
    do_not: "Don't", "不要";
    would_settle: "Would settle it", "可进一步确认";
    prevent: "Later", "事后改进";
    known: "Known", "已知问题";
    fixed_in: "fix: {what}", "修复：{what}";
    risk: "risk: {what}", "风险：{what}";
    also_found: "Also found", "其他发现";
    about: "About", "涉及对象";
    missing: "Missing evidence", "缺少的证据";
    none_needed: "Nothing to do.", "无需处理。";
    looked_at: "What was looked at", "已检查的内容";
    judged_idle: "Idle by design", "设计上空闲";
    full_report: "full report: {what}", "完整报告：{what}";
    notices: "The dump says", "转储内容";
    incomplete: "cut short", "不完整";
    // Sections
    title: "holdup report", "holdup 报告";
    chain: "Chain", "等待链";
    chain_hint: "From the symptom to the root. Every box leads to its evidence.", "从症状到根源；点击方框查看证据。";
    evidence: "Evidence", "证据";
    for_it: "for", "支持";
    against_it: "against", "反对";
    timeline: "Timeline", "时间线";
    timeline_hint: "Ages are lower bounds: the runtime stamps a wait only at a garbage collection.", "时长为下限：运行时只在垃圾回收时记录等待起点。";
    locks: "Locks and what is waited for", "锁与等待对象";
    lock: "lock", "锁";
    holder: "holder", "持有者";
    candidates: "candidates", "候选";
    waiters: "waiters", "等待者";
    oldest: "oldest", "最久";
    address: "address", "地址";
    kind: "kind", "种类";
    groups: "Equal stacks", "相同堆栈";
    groups_hint: "Each stack once, the odd ones before the crowd; the standard library is dimmed.", "每种堆栈只列一次，少见的在前；标准库以浅色显示。";
    findings: "Other findings", "其他发现";
    idle: "Judged idle, and why", "判定为空闲及其原因";
    inputs: "Inputs", "输入文件";
    inputs_hint: "What each file was taken for, what was repaired, what is cut or missing.", "每个文件的识别结果、修复内容及缺失部分。";
    everything: "All goroutines", "全部 goroutine";
    everything_hint: "Every goroutine has a link of its own.", "每个 goroutine 都有自己的链接。";
    everything_no_script: "With script this list can be searched; without, the ids stand with their stacks above.", "启用脚本后可在此搜索；否则请在上方堆栈中查看编号。";
    contents: "Contents", "目录";
    // Table heads and labels
    process: "process", "进程";
    state: "state", "状态";
    states: "states", "状态";
    age: "age", "时长";
    file: "file", "文件";
    taken_for: "taken for", "识别为";
    peeled: "peeled off", "已剥离";
    size: "size", "大小";
    problems: "problems", "问题";
    no_problems: "no problems", "无问题";
    severity_note: "note", "提示";
    severity_warning: "warning", "警告";
    severity_error: "error", "错误";
    snapshot: "snapshot", "快照";
    taken_at: "taken at", "采集时间";
    reason: "reason", "原因";
    count: "count", "数量";
    stack: "stack", "堆栈";
    function: "function", "函数";
    created_by: "created by", "创建者";
    before_dump: "before the dump", "转储前";
    not_verbatim: "The verbatim text of {n} goroutines is left out to keep this file small; it stands in the files given.", "为控制文件大小，省略了 {n} 个 goroutine 的原文；请查看原始文件。";
    left_out_groups: "{n} further stacks are in the list of all goroutines.", "其余 {n} 种堆栈见“全部 goroutine”列表。";
    left_out_locks: "{n} further waits with few waiters are left out here; the JSON report has all.", "此处省略 {n} 个等待者很少的对象；JSON 报告包含全部。";
    left_out_nodes: "{n} further nodes are not drawn.", "另有 {n} 个节点未绘出。";
    ids: "ids", "编号";
    legend: "Legend", "图例";
    made_by: "made by holdup {what}", "由 holdup {what} 生成";
    // Script
    search: "Search stacks, ids, arguments", "搜索堆栈、编号、参数";
    any_state: "any state", "任意状态";
    any_package: "any package", "任意包";
    any_lock: "any lock", "任意锁";
    any_process: "any process", "任意进程";
    at_least: "at least", "至少";
    shown: "{n} of {all} shown", "显示 {n} / {all}";
    copy_markdown: "Copy as Markdown", "复制为 Markdown";
    copied: "Copied", "已复制";
    dark_light: "Dark or light", "深色/浅色";
    fold_all: "Fold all", "全部折叠";
    unfold_all: "Unfold all", "全部展开";
    close: "Close", "关闭";
    link: "Link", "链接";
    nothing_found: "Nothing matches.", "没有匹配项。";
    cannot_unpack: "This browser is too old to unpack the list; the ids stand with their stacks above.", "浏览器版本过旧，无法展开列表；请在上方堆栈中查看编号。";
    keys: "Keys: / search, j and k next and previous section, t dark or light, Esc close", "快捷键：/ 搜索，j、k 下一节、上一节，t 切换深浅色，Esc 关闭";
    skip: "Skip to the answer", "跳到结论";
    // Comparison
    moments: "Moments", "时间点";
    moment_one: "1 moment", "1 个时间点";
    moments_n: "{n} moments", "{n} 个时间点";
    moments_over: "{moments} over {time}", "{moments}，跨度 {time}";
    moments_about: "{moments} about {time} apart by the ages of what did not move", "{moments}，按未移动者的时长推算相距约 {time}";
    seconds: "{n} s", "{n} 秒";
    since_before: "since", "距上次";
    goroutines_head: "goroutines", "goroutine 数";
    alone: "alone", "单独判定";
    what_became: "What became of it", "后续变化";
    fate_stays: "has not moved", "未移动";
    fate_new: "new", "新出现";
    fate_seen_once: "seen once", "仅见一次";
    fate_moves: "moves", "在推进";
    fate_gone: "is over", "已结束";
    course_stuck: "stuck", "卡住";
    course_changes_hands: "changes hands", "持有者在更替";
    course_new: "new", "新出现";
    course_released: "free again", "已释放";
    course_unclear: "unclear", "不明";
    latest_chain: "Chain of the newest moment", "最新时间点的等待链";
    not_moved: "Not moved", "未移动";
    grows: "Growing", "增长";
    moves: "Moving", "在移动";
    goroutine_head: "goroutine", "goroutine 编号";
    stands_in: "stands in", "所在位置";
    from: "from", "从";
    to: "to", "到";
    came_back: "back at the same place, for a new wait", "回到原处，开始新的等待";
    holds_lock: "holds {what}", "持有 {what}";
    n_new: "{n} new", "新增 {n}";
    n_started: "{n} started", "新启动 {n} 个";
    n_ended: "{n} ended", "已结束 {n} 个";
    n_idle_standing: "{n} idle ones stand still as they should", "{n} 个空闲者静止属正常";
    stayed_of: "{n} of the first {all} are still there", "最初 {all} 个中仍有 {n} 个";
    picture_of_chain: "Who waits for whom, from the symptom at the top to the root at the bottom", "等待关系图：上为症状，下为根源";
}

impl Words {
    /// The words of a language.
    pub fn of(lang: Lang) -> &'static Words {
        match lang {
            Lang::En => &EN,
            Lang::Zh => &ZH,
        }
    }
}

/// Puts values into the `{name}`s of a word.
pub fn fill(word: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(word.len() + 16);
    let mut rest = word;
    while let Some(start) = rest.find('{') {
        let (before, tail) = rest.split_at(start);
        out.push_str(before);
        let Some(end) = tail.find('}') else { break };
        let name = &tail[1..end];
        // Values are not looked into again, so a name with braces stays what it is.
        out.push_str(values.iter().find(|(n, _)| *n == name).map_or(&tail[..=end], |(_, v)| v));
        rest = &tail[end + 1..];
    }
    out.push_str(rest);
    out
}

/// `1048` as `1,048`.
pub fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + 4);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(word: &str) -> Vec<&str> {
        let mut found: Vec<&str> = word.split('{').skip(1).filter_map(|part| part.split('}').next()).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn no_word_is_missing_or_half_translated() {
        // A unit that Chinese reports write in the same way.
        const SAME: &[&str] = &["g_count"];
        for (name, en, zh) in ALL {
            assert!(!en.is_empty() && !zh.is_empty(), "{name}");
            assert_eq!(places(en), places(zh), "{name} has other values in Chinese");
            assert!(en.is_ascii() || en.contains('…'), "{name}: {en}");
            assert!(SAME.contains(name) || zh.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c)), "{name}: {zh}");
        }
    }

    #[test]
    fn values_are_filled_once() {
        assert_eq!(fill("{a} and {b}", &[("a", "{b}"), ("b", "2")]), "{b} and 2");
        assert_eq!(fill("{a", &[]), "{a");
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!([0, 999, 1000, 1048576].map(number), ["0", "999", "1,000", "1,048,576"]);
    }
}
