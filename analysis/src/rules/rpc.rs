//! Service and method of a remote call, read out of the names that protocol generators give.

use super::bound::{Bound, RpcMatch, Side};
use super::model::{Derive, RpcRule};
use super::pattern::normal;
use super::stack::Hit;
use holdup_parsers::evidence::{FunctionName, Goroutine, Snapshot};

/// How far outward a stub is looked for: interceptors and wrappers stand between.
const WRAPPERS: usize = 4;

/// The best of several matching rules: a named pair before a derived one, then the innermost.
pub(crate) fn best<'r>(
    bound: &Bound<'r>,
    s: &Snapshot,
    g: &Goroutine,
    side: Side,
    hits: &[(usize, Hit)],
) -> Option<RpcMatch<'r>> {
    let rules = &bound.rules.rpc;
    let mut best: Option<(bool, RpcMatch<'r>)> = None;
    for &(at, hit) in hits {
        let Some(rule) = rules.get(at) else { continue };
        let Some((service, method, frame)) = name(bound, rule, s, g, hit) else {
            continue;
        };
        let derived = rule.derive.is_some();
        if best.as_ref().is_none_or(|(known, _)| *known && !derived) {
            best = Some((derived, RpcMatch { rule, side, service, method, frame }));
        }
    }
    best.map(|(_, found)| found)
}

fn name(bound: &Bound<'_>, rule: &RpcRule, s: &Snapshot, g: &Goroutine, hit: Hit) -> Option<(String, String, usize)> {
    let frames = s.frames_of(g);
    let function = |i: usize| frames.get(i).map(|f| s.function(f.site));
    // Invoke may call itself through interceptors: the stub stands outside the outermost of them.
    let outermost = |from: usize| {
        let wanted = rule.client.as_ref().and_then(|spec| spec.elements.last());
        let again = |i: &usize| {
            frames.get(*i).is_some_and(|f| {
                let func = s.site(f.site).func;
                wanted.is_some_and(|atoms| bound.has_any(func, atoms))
            })
        };
        (from..frames.len().min(from + 24)).rfind(again).unwrap_or(from)
    };
    match rule.derive {
        None => Some((rule.service.clone()?, rule.method.clone()?, hit.outer)),
        Some(Derive::StubClient) => {
            let last = outermost(hit.outer);
            for i in last + 1..=last + WRAPPERS {
                let Some(name) = function(i) else { break };
                if let Some((service, method)) = stub(name) {
                    return Some((service, method, i));
                }
            }
            let i = last + 1;
            let (service, method) = caller(function(i)?)?;
            Some((service, method, i))
        }
        Some(Derive::StreamClient) => {
            let last = outermost(hit.outer);
            let name = normal(function(last + 1)?);
            let parsed = FunctionName::parse(&name);
            // A unary call receives its answer through a stream too: its stub is found by Invoke.
            if parsed.receiver.is_none() && parsed.outer() == "invoke" {
                return None;
            }
            match parsed.receiver.and_then(|r| r.strip_suffix("Client")) {
                Some(service) if !service.is_empty() => Some((capital(service), String::new(), last + 1)),
                _ => {
                    let (service, method) = caller(function(last + 2)?)?;
                    Some((service, method, last + 2))
                }
            }
        }
        Some(Derive::HandlerServer) => {
            let name = normal(function(hit.outer)?);
            let (service, method) = handler(&name)?;
            Some((service, method, hit.outer))
        }
        Some(Derive::RegisterServer) => {
            let name = normal(function(hit.inner)?);
            let service = registered(&name)?;
            let inner = hit.inner.checked_sub(1)?;
            let method = normal(function(inner)?);
            Some((service, FunctionName::parse(&method).outer().to_string(), inner))
        }
        Some(Derive::CallerClient) => {
            for i in hit.outer + 1..frames.len().min(hit.outer + 16) {
                let name = function(i)?;
                let parsed = FunctionName::parse(name);
                let exported = parsed.outer().starts_with(|c: char| c.is_ascii_uppercase());
                if !parsed.is_standard_library() && exported {
                    let (service, method) = caller(name)?;
                    return Some((service, method, i));
                }
            }
            None
        }
    }
}

/// `v1.(*runtimeServiceClient).StopPodSandbox` → `RuntimeService`, `StopPodSandbox`.
fn stub(name: &str) -> Option<(String, String)> {
    let name = normal(name);
    let parsed = FunctionName::parse(&name);
    let service = parsed.receiver?.strip_suffix("Client")?;
    let exported = parsed.outer().starts_with(|c: char| c.is_ascii_uppercase());
    (!service.is_empty() && exported).then(|| (capital(without_ttrpc(service)), parsed.outer().to_string()))
}

/// `v1._RuntimeService_Version_Handler` → `RuntimeService`, `Version`.
fn handler(name: &str) -> Option<(String, String)> {
    let parsed = FunctionName::parse(name);
    let middle = parsed.outer().strip_prefix('_')?.strip_suffix("_Handler")?;
    let (service, method) = middle.rsplit_once('_')?;
    Some((service.to_string(), method.to_string()))
}

/// `task.RegisterTTRPCTaskService.func4` → `Task`.
fn registered(name: &str) -> Option<String> {
    let parsed = FunctionName::parse(name);
    let service = parsed.outer().strip_prefix("Register")?;
    let service = service.strip_suffix("Service").unwrap_or(service);
    Some(capital(without_ttrpc(service)))
}

/// Where nothing is generated, the caller's package is the service and its name the method.
fn caller(name: &str) -> Option<(String, String)> {
    let name = normal(name);
    let parsed = FunctionName::parse(&name);
    let package = parsed.package.rsplit('/').next().filter(|p| !p.is_empty())?;
    Some((package.to_string(), parsed.outer().to_string()))
}

fn without_ttrpc(service: &str) -> &str {
    let head = service.get(..5).filter(|head| head.eq_ignore_ascii_case("ttrpc"));
    head.map_or(service, |_| &service[5..])
}

fn capital(name: &str) -> String {
    let mut chars = name.chars();
    match chars.next() {
        Some(first) => first.to_ascii_uppercase().to_string() + chars.as_str(),
        None => String::new(),
    }
}

/// Lower case without the seam, since a stream's generated type joins service and method: `eventsSubscribeClient`.
pub(crate) fn key(service: &str, method: &str) -> String {
    let mut key = service.to_ascii_lowercase();
    key.push_str(&method.to_ascii_lowercase());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_give_service_and_method() {
        let pair = |s: &str, m: &str| Some((s.to_string(), m.to_string()));
        assert_eq!(
            stub("k8s.io/cri-api/pkg/apis/runtime/v1.(*runtimeServiceClient).Version"),
            pair("RuntimeService", "Version")
        );
        assert_eq!(stub("a/task/v2.(*ttrpctaskClient).Start"), pair("Task", "Start"));
        assert_eq!(stub("a/task/v3.(*tTRPCTaskClient).Start"), pair("Task", "Start"));
        assert_eq!(stub("a.(*Client).Start"), None);
        assert_eq!(stub("a.(*taskClient).start"), None);
        assert_eq!(handler("x/v1._RuntimeService_Version_Handler"), pair("RuntimeService", "Version"));
        assert_eq!(handler("x/v1._RuntimeService_Version_Handler.func1"), pair("RuntimeService", "Version"));
        assert_eq!(registered("a/task.RegisterTaskService.func4").as_deref(), Some("Task"));
        assert_eq!(registered("a/task.RegisterTTRPCTaskService.func4").as_deref(), Some("Task"));
        assert_eq!(key("RuntimeService", "GetContainerEvents"), key("RuntimeServiceGetContainerEvents", ""));
    }
}
