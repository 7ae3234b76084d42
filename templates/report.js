'use strict';
(() => {
const $ = id => document.getElementById(id);
const w = JSON.parse($('words').textContent);
const say = (word, values) => word.replace(/\{(\w+)\}/g, (m, name) => values[name] ?? m);
const count = n => n.toString().replace(/\B(?=(\d{3})+$)/g, ',');
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
};

// Colours, copying, folding
const root = document.documentElement;
const dark = () => root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
const turn = () => { root.dataset.theme = dark() ? 'light' : 'dark'; };
document.querySelector('.tools').hidden = false;
document.querySelector('.keys').hidden = false;
$('theme').addEventListener('click', turn);
$('copy').addEventListener('click', async () => {
  const text = JSON.parse($('markdown').textContent);
  try { await navigator.clipboard.writeText(text); } catch {
    // Pages opened from a file may not use the clipboard; the old way still works there.
    const area = make('textarea', {style: 'position:fixed;opacity:0'});
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  const button = $('copy');
  button.textContent = w.copied;
  setTimeout(() => { button.textContent = w.copy_markdown; }, 1500);
});
for (const button of document.querySelectorAll('.fold')) {
  button.hidden = false;
  button.addEventListener('click', () => {
    const items = [...button.closest('section').querySelectorAll('details.item')];
    const open = !items.some(item => item.open);
    for (const item of items) item.open = open;
    button.textContent = open ? button.dataset.fold : button.dataset.unfold;
  });
}
addEventListener('beforeprint', () => {
  for (const item of document.querySelectorAll('#why details, details.lock')) item.open = true;
});

// The packed list
const unpack = async () => {
  const packed = Uint8Array.from(atob($('table').textContent), c => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return JSON.parse(await new Response(stream).text());
};
const sums = deltas => { let sum = 0; return deltas.map(d => sum += d); };
const at = (list, i) => Array.isArray(list) ? list[i] : list;

class List {
  constructor(data) {
    this.data = data;
    this.word = i => i < 0 ? '' : data.words[i];
    this.snapshots = new Map(data.snapshots.map(s => [s[0], {process: s[1], input: s[2]}]));
    this.rows = [];
    this.byId = new Map();
    data.groups.forEach((group, g) => {
      group.ids = sums(group.ids);
      group.ln = sums(group.ln);
      if (!group.ids.length) this.rows.push({g, m: -1, age: -1});
      group.ids.forEach((id, m) => {
        const row = {g, m, id, age: at(group.min, m)};
        this.rows.push(row);
        this.byId.set(group.s + '-g' + id, row);
      });
    });
    this.rows.sort((a, b) => b.age - a.age || a.g - b.g || a.id - b.id);
    this.shown = this.rows;
  }
  column(texts, c) {
    texts.words ??= [];
    if (texts.words[c]) return texts.words[c];
    const column = texts.c[c];
    let words;
    if (typeof column === 'string') words = column.split(' ');
    else if (column[1] === 0) words = this.column(texts, column[0]);
    else words = this.column(texts, column[0]).map(word => '0x' + (BigInt(word) + BigInt(column[1])).toString(16));
    return texts.words[c] = words;
  }
  text(row) {
    const group = this.data.groups[row.g];
    const texts = this.data.texts[row.g];
    if (!texts || row.m < 0) return null;
    const header = 'goroutine ' + row.id + at(texts.h, row.m) + '\n';
    const odd = texts.o[row.m];
    if (odd !== undefined) return odd === null ? null : header + odd;
    let out = header + texts.t[0];
    for (let c = 0; c < texts.c.length; c++) out += this.column(texts, c)[row.m] + texts.t[c + 1];
    return out;
  }
  lock(row) { return at(this.data.groups[row.g].lk, row.m); }
  place(row) {
    const group = this.data.groups[row.g];
    const line = group.ln[row.m];
    return line ? this.snapshots.get(group.s).input + ':' + line : '';
  }
  filter({text, state, age, pack, lock, process}) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const hits = new Map();
    const inGroup = (g, word) => {
      const key = g + '\n' + word;
      if (!hits.has(key)) {
        const group = this.data.groups[g];
        const texts = this.data.texts[g];
        const head = [this.word(group.f), this.word(group.st), this.word(group.p), this.word(group.at), this.word(group.idle), this.snapshots.get(group.s).process];
        const hay = head.concat(texts ? texts.t : []).join('\n').toLowerCase();
        hits.set(key, hay.includes(word));
      }
      return hits.get(key);
    };
    const inMember = (row, word) => ('g' + row.id) === word || String(row.id) === word
      || (word.length > 3 && /\d/.test(word) && (this.text(row) ?? '').toLowerCase().includes(word));
    this.shown = this.rows.filter(row => {
      const group = this.data.groups[row.g];
      return (state < 0 || group.st === state) && (age <= 0 || row.age >= age) && (pack < 0 || group.p === pack)
        && (lock < 0 || this.lock(row) === lock) && (!process || group.s === process)
        && words.every(word => inGroup(row.g, word) || inMember(row, word));
    });
  }
}

const build = list => {
  const HEIGHT = 32;
  const box = $('list');
  const used = key => [...new Set(list.data.groups.map(group => group[key]))].map(i => [i, list.word(i)]).filter(o => o[1]).sort((a, b) => a[1] < b[1] ? -1 : 1);
  const select = (name, any, options) => make('select', {'aria-label': any, name}, make('option', {value: name === 'process' ? '' : -1}, any), ...options.map(([value, text]) => make('option', {value}, text)));
  const search = make('input', {type: 'search', placeholder: w.search, 'aria-label': w.search, id: 'search', spellcheck: 'false'});
  const state = select('state', w.any_state, used('st'));
  const pack = select('package', w.any_package, used('p'));
  const lock = select('lock', w.any_lock, Object.entries(list.data.locks).map(([i, l]) => [i, l[1]]));
  const process = select('process', w.any_process, [...list.snapshots].map(([id, s]) => [id, s.process + ' · ' + id]));
  const age = make('input', {type: 'number', min: 0, value: 0, 'aria-label': w.at_least});
  const unit = say(w.minutes, {n: ''}).trim();
  const shown = make('p', {class: 'hint', role: 'status'});
  const pad = make('div', {class: 'pad'});
  const rows = make('div', {class: 'rows', tabindex: 0, 'aria-label': w.everything}, pad);
  const panel = make('div', {'aria-live': 'polite'});
  box.append(make('div', {class: 'filters'}, search, process, state, pack, lock, make('label', {}, w.at_least, age, unit)), shown, panel, rows);
  let there = null;

  const draw = () => {
    const first = Math.max(0, Math.floor(rows.scrollTop / HEIGHT) - 8);
    const last = Math.min(list.shown.length, first + Math.ceil(rows.clientHeight / HEIGHT) + 16);
    pad.style.height = list.shown.length * HEIGHT + 'px';
    const fresh = [];
    for (let i = first; i < last; i++) {
      const row = list.shown[i];
      const group = list.data.groups[row.g];
      const name = row.m < 0 ? count(group.n) + ' ×' : 'g' + row.id;
      const line = make('a', {class: 'row' + (row === there ? ' there' : ''), href: row.m < 0 ? null : '#' + group.s + '-g' + row.id, style: 'top:' + i * HEIGHT + 'px'},
        make('span', {}, name), make('span', {class: 's'}, list.word(group.st)),
        make('span', {class: 'r'}, row.age < 0 ? '' : say(w.minutes, {n: count(row.age)})),
        make('span', {title: list.word(group.f)}, list.word(group.f) + ' ', make('span', {class: 'soft'}, list.word(group.at))),
        make('span', {class: 'pr soft'}, list.snapshots.get(group.s).process));
      fresh.push(line);
    }
    pad.replaceChildren(...fresh);
  };
  const refresh = () => {
    list.filter({text: search.value, state: +state.value, age: +age.value || 0, pack: +pack.value, lock: +lock.value, process: process.value});
    shown.textContent = list.shown.length ? say(w.shown, {n: count(list.shown.length), all: count(list.rows.length)}) : w.nothing_found;
    rows.scrollTop = 0;
    draw();
  };
  let waiting = 0;
  const later = () => { clearTimeout(waiting); waiting = setTimeout(refresh, 120); };
  for (const input of [search, age]) input.addEventListener('input', later);
  for (const input of [state, pack, lock, process]) input.addEventListener('change', refresh);
  rows.addEventListener('scroll', draw, {passive: true});
  addEventListener('resize', draw);
  refresh();

  const close = () => { panel.replaceChildren(); there = null; draw(); };
  const open = row => {
    there = row;
    const group = list.data.groups[row.g];
    const anchor = group.s + '-g' + row.id;
    const text = list.text(row) ?? 'goroutine ' + row.id + ' [' + list.word(group.st) + ']\n' + list.word(group.f) + ' ' + list.word(group.at) + '\n';
    const facts = [list.snapshots.get(group.s).process, list.place(row)].filter(Boolean).join(' · ');
    const held = list.data.locks[list.lock(row)];
    panel.replaceChildren(make('div', {class: 'panel', tabindex: -1},
      make('header', {}, make('b', {}, 'goroutine ' + row.id), make('span', {class: 'soft'}, facts),
        ...(held ? [make('a', {href: '#' + held[0]}, held[1])] : []),
        make('a', {href: '#' + anchor}, w.link), make('button', {type: 'button', onclick: close}, w.close)),
      make('pre', {class: 'stack'}, text)));
    panel.firstChild.scrollIntoView({block: 'nearest'});
    panel.firstChild.focus({preventScroll: true});
    draw();
  };
  return {open, close, search};
};

// Links lead to what stands in the page, else to the list
let page = null;
const reveal = element => {
  for (let outer = element; outer; outer = outer.parentElement) if (outer.tagName === 'DETAILS') outer.open = true;
  for (const old of document.querySelectorAll('.stack.there')) old.classList.remove('there');
  if (element.classList.contains('stack')) element.classList.add('there');
  element.scrollIntoView({block: 'start'});
};
const go = list => {
  const hash = decodeURIComponent(location.hash.slice(1));
  if (!hash) return;
  const element = $(hash);
  if (element) return reveal(element);
  const row = list && list.byId.get(hash);
  if (row && page) page.open(row);
};
addEventListener('hashchange', () => go(page && page.list));
document.addEventListener('click', event => {
  const link = event.target.closest && event.target.closest('a[href^="#"]');
  // A second click on the same link changes no hash.
  if (link && link.hash === location.hash) go(page && page.list);
  const ids = event.target.closest && event.target.closest('.ids');
  if (!ids || link) return;
  const caret = document.caretPositionFromPoint ? document.caretPositionFromPoint(event.clientX, event.clientY)
    : document.caretRangeFromPoint && document.caretRangeFromPoint(event.clientX, event.clientY);
  const node = caret && (caret.offsetNode || caret.startContainer);
  if (!node || node.nodeType !== 3) return;
  const offset = caret.offset ?? caret.startOffset;
  const before = /\d*$/.exec(node.data.slice(0, offset))[0];
  const after = /^\d*/.exec(node.data.slice(offset))[0];
  if (before + after) location.hash = ids.dataset.s + '-g' + before + after;
});

document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === 'Escape') { if (typing) event.target.blur(); else if (page) page.close(); return; }
  if (typing) return;
  if (event.key === '/' && page) { event.preventDefault(); page.search.focus(); page.search.scrollIntoView({block: 'center'}); }
  if (event.key === 't') turn();
  if (event.key === 'j' || event.key === 'k') {
    const sections = [...document.querySelectorAll('#answer, section')];
    const next = event.key === 'j' ? sections.find(s => s.getBoundingClientRect().top > 80) : sections.reverse().find(s => s.getBoundingClientRect().top < 20);
    if (next) next.scrollIntoView();
  }
});

(async () => {
  try {
    const list = new List(await unpack());
    page = {...build(list), list};
    go(list);
  } catch (error) {
    $('list').append(make('p', {class: 'note'}, w.cannot_unpack));
    go(null);
  }
})();
})();
