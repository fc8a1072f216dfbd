"""The style of a session's page, and its script: find, fold, hide.

The style uses the colors of ``page.BASIC_CSS`` and adds a few for code and changes. The script is
the only one that the page allows. Without it everything is readable and folds.
"""

from __future__ import annotations

from typing import Final

CSS: Final = """
:root { --k: #8250df; --s: #0a6640; --c: #6a737d; --n: #b35900; --f: #0550ae;
  --ins: #e6f6ea; --del: #fdecea; --hit: #ffe58f; --now: #ffb454; --agent: #8250df; }
@media (prefers-color-scheme: dark) {
  :root { --k: #c9a2ff; --s: #7ee2a8; --c: #8b949e; --n: #ffb77a; --f: #82bfff;
    --ins: #12301d; --del: #3b1a18; --hit: #6b5200; --now: #9a6b00; --agent: #c9a2ff; }
}
body { max-width: none; margin: 0; padding: 0; display: grid;
  grid-template: "head head" auto "bar bar" auto "nav main" 1fr
    / minmax(13rem, 19rem) minmax(0, 1fr); }
header { grid-area: head; padding: 1.6rem 2rem 1.1rem; }
header h1 { font-size: 1.55rem; overflow-wrap: anywhere; max-width: 60rem; }
dl.facts { display: flex; flex-wrap: wrap; gap: .35rem 1.6rem; margin: .7rem 0 0; }
dl.facts div { display: flex; gap: .45rem; min-width: 0; }
dl.facts dt { color: var(--faint); }
dl.facts dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.notice { margin: .8rem 0 0; padding: .45rem .8rem; border-left: 3px solid var(--warn);
  background: var(--raised); border-radius: 0 6px 6px 0; max-width: 60rem; font-size: .92rem; }
#bar { grid-area: bar; position: sticky; top: 0; z-index: 2; display: flex; flex-wrap: wrap;
  gap: .5rem; align-items: center; padding: .5rem 2rem; background: var(--paper);
  border-top: 1px solid var(--line); border-bottom: 1px solid var(--line); }
#bar[hidden] { display: none; }
#bar input[type=search] { flex: 1 1 12rem; max-width: 26rem; min-width: 0; padding: .35rem .7rem;
  border: 1px solid var(--line); border-radius: 6px; background: var(--raised); color: inherit;
  font: inherit; font-size: .95rem; }
#bar button, #bar label { padding: .3rem .65rem; border: 1px solid var(--line); border-radius: 6px;
  background: var(--raised); color: inherit; font: inherit; font-size: .88rem; cursor: pointer;
  white-space: nowrap; }
#bar output { color: var(--faint); font-size: .88rem; min-width: 5.5rem;
  font-variant-numeric: tabular-nums; }
#bar :focus-visible, summary:focus-visible {
  outline: 2px solid var(--accent); outline-offset: 1px; }
nav { grid-area: nav; position: sticky; top: 3.2rem; align-self: start;
  max-height: calc(100vh - 3.2rem); overflow-y: auto; padding: 1rem .5rem 2rem 1.4rem;
  font-size: .88rem; }
nav ol { list-style: none; margin: 0; padding: 0; }
nav a { display: grid; grid-template-columns: 2.1rem 1fr; gap: .3rem; padding: .28rem .5rem;
  border-radius: 6px; color: inherit; text-decoration: none; line-height: 1.35; }
nav a:hover { background: var(--raised); }
nav b { color: var(--faint); font-weight: 500; text-align: right;
  font-variant-numeric: tabular-nums; }
nav span { overflow: hidden; display: -webkit-box; -webkit-box-orient: vertical;
  -webkit-line-clamp: 2; overflow-wrap: anywhere; }
main { grid-area: main; padding: .4rem 2rem 5rem 1rem; min-width: 0; }
section.turn { content-visibility: auto; contain-intrinsic-size: auto 30rem; max-width: 60rem;
  padding: 1.1rem 0 .4rem; scroll-margin-top: 3.4rem; }
section.turn + section.turn { border-top: 1px solid var(--line); }
section h2 { margin: 0 0 .6rem; font-size: .88rem; font-weight: 500; color: var(--faint);
  display: flex; gap: .9rem; flex-wrap: wrap; font-variant-numeric: tabular-nums; }
section h2 a { color: inherit; text-decoration: none; font-weight: 700; }
.said { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--raised);
  border-left: 3px solid var(--accent); border-radius: 0 8px 8px 0; padding: .65rem 1rem;
  margin: .5rem 0; max-height: 32rem; overflow-y: auto; }
.said.caller { border-color: var(--agent); }
.said.command { font-family: var(--mono); font-size: .92em; }
.said.output, .said.note { border-color: var(--line); color: var(--faint); font-size: .88rem;
  max-height: 14rem; font-family: var(--mono); }
.said.interrupted, .mark.error, .answer.failed { color: var(--bad); }
.answer { overflow-wrap: anywhere; margin: .8rem 0; }
.answer h1, .answer h2, .answer h3, .answer h4 { display: block; color: inherit; font-weight: 650;
  font-size: 1.06rem; margin: 1.1rem 0 .3rem; }
.answer h1 { font-size: 1.2rem; } .answer h2 { font-size: 1.12rem; }
.answer ul, .answer ol { padding-left: 1.5rem; margin: .4rem 0; }
.answer :not(pre) > code { background: var(--raised); padding: .1em .35em; border-radius: 4px; }
.answer blockquote { margin: .5rem 0; padding-left: .9rem; border-left: 3px solid var(--line);
  color: var(--faint); }
.answer p { white-space: pre-line; }
.answer th, .answer td { min-width: 0; overflow-wrap: break-word; }
.plain { white-space: pre-wrap; overflow-wrap: anywhere; }
details { margin: .3rem 0; }
summary { cursor: pointer; list-style: none; display: flex; gap: .6rem; align-items: baseline;
  min-width: 0; padding: .22rem .6rem; border-radius: 6px; font-size: .9rem; }
summary::-webkit-details-marker { display: none; }
summary::before { content: "\\203a"; color: var(--faint); flex: none; width: .6rem;
  transition: transform .1s; }
details[open] > summary::before { transform: rotate(90deg); }
summary:hover, details[open] > summary { background: var(--raised); }
summary b { flex: none; font-weight: 600; }
summary code { flex: 0 1 auto; min-width: 0; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
summary .came { flex: 0 2 auto; margin-left: auto; color: var(--faint); overflow: hidden;
  text-overflow: ellipsis; white-space: nowrap; max-width: 45%; padding-left: 1rem; }
.thinking > summary .came, .summary > summary .came, .other > summary .came {
  margin-left: 0; max-width: none; padding-left: 0; font-style: normal; }
summary .plus { color: var(--good); } summary .minus { color: var(--bad); }
details.failed > summary .came { color: var(--bad); }
.inside { margin: .3rem 0 .9rem .9rem; padding-left: .8rem; border-left: 2px solid var(--line); }
.subagents { margin-left: 1.2rem; }
.subagent > .inside { border-color: var(--agent); }
.subagent > summary b { color: var(--agent); }
.inside pre { max-height: 30rem; overflow: auto; margin: .35rem 0; white-space: pre-wrap;
  overflow-wrap: anywhere; font-size: .84rem; line-height: 1.45; }
.inside pre.diff { white-space: pre; overflow-wrap: normal; }
.inside .path { font-family: var(--mono); font-size: .84rem; color: var(--faint);
  overflow-wrap: anywhere; }
.inside dl.given { display: grid; grid-template-columns: max-content minmax(0, 1fr);
  gap: .1rem .9rem; margin: .35rem 0; font-size: .86rem; }
.given dt { color: var(--faint); } .given dd { margin: 0; overflow-wrap: anywhere; }
.thinking > .inside, .summary > .inside { white-space: pre-wrap; overflow-wrap: anywhere;
  color: var(--faint); font-size: .93rem; }
.thinking > summary, .summary > summary, .other > summary {
  color: var(--faint); font-style: italic; }
.diff { padding: .5rem 0; } .diff ins, .diff del, .diff em { display: block; text-decoration: none;
  width: max-content; min-width: 100%; }
.diff ins { background: var(--ins); } .diff del { background: var(--del); }
.diff em { color: var(--faint); font-style: normal; }
pre.diff { padding-left: .8rem; }
.k { color: var(--k); } .s { color: var(--s); } .c { color: var(--c); } .n { color: var(--n); }
.f { color: var(--f); } .a { color: var(--good); } .d { color: var(--bad); }
i.k, i.s, i.n, i.f, i.a, i.d { font-style: normal; }
ul.todos { list-style: none; padding: 0; margin: .3rem 0; font-size: .9rem; }
ul.todos .done { color: var(--faint); text-decoration: line-through; }
.mark { display: flex; gap: .8rem; align-items: center; color: var(--warn); font-size: .88rem;
  margin: .9rem 0; }
.mark::before, .mark::after { content: ""; flex: 1; border-top: 1px dashed var(--line); }
img { max-width: 100%; max-height: 28rem; border: 1px solid var(--line); border-radius: 6px;
  display: block; margin: .5rem 0; }
::highlight(hit) { background: var(--hit); } ::highlight(now) { background: var(--now); }
body.without-tools .call, body.without-thinking .thinking { display: none; }
@media (max-width: 56rem) {
  body { grid-template: "head" auto "bar" auto "nav" auto "main" auto / minmax(0, 1fr); }
  header { padding: 1.1rem 1rem .8rem; } #bar { padding: .5rem 1rem; }
  main { padding: 0 1rem 4rem; }
  nav { position: static; max-height: 13rem; padding: .6rem 1rem;
    border-bottom: 1px solid var(--line); }
  summary .came { display: none; } .thinking > summary .came { display: block; }
  .inside { margin-left: 0; }
  section.turn { scroll-margin-top: 6.5rem; }
}
@media print {
  body { display: block; font-size: 10pt; } #bar, nav { display: none; }
  header, main { padding: 0; } section.turn { content-visibility: visible; max-width: none; }
  .said, .inside pre { max-height: none; overflow: visible; } .said, details { break-inside: auto; }
  a[href^="http"]::after { content: " (" attr(href) ")"; font-size: .85em; color: var(--faint); }
}
"""

SCRIPT: Final = """
(() => {
  "use strict";
  const one = (name) => document.getElementById(name);
  const bar = one("bar"), box = one("find"), told = one("told");
  const main = document.querySelector("main");
  const most = 2000;
  let hits = [], now = -1, waiting = 0;
  const marks = window.Highlight && CSS.highlights
    ? { all: new Highlight(), now: new Highlight() } : null;
  if (marks) { CSS.highlights.set("hit", marks.all); CSS.highlights.set("now", marks.now); }
  bar.hidden = false;

  const textOf = (section) => {
    const nodes = [], starts = [], walk = document.createTreeWalker(section, NodeFilter.SHOW_TEXT);
    let text = "";
    for (let node; (node = walk.nextNode());) {
      nodes.push(node); starts.push(text.length); text += node.data;
    }
    return { nodes, starts, text };
  };
  const pointIn = (found, offset) => {
    let low = 0, high = found.starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (found.starts[middle] <= offset) low = middle; else high = middle - 1;
    }
    const node = found.nodes[low];
    return [node, Math.min(offset - found.starts[low], node.data.length)];
  };
  const find = (from) => {
    const wanted = box.value.toLowerCase();
    hits = []; now = -1;
    if (marks) { marks.all.clear(); marks.now.clear(); }
    if (wanted.length < 2) { told.value = ""; return; }
    for (const section of main.children) {
      const found = textOf(section), text = found.text.toLowerCase();
      for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
        const range = document.createRange();
        range.setStart(...pointIn(found, at));
        range.setEnd(...pointIn(found, at + wanted.length));
        hits.push(range);
        if (marks) marks.all.add(range);
        if (hits.length >= most) break;
      }
      if (hits.length >= most) break;
    }
    const more = hits.length >= most ? "+" : "";
    told.value = hits.length ? `${hits.length}${more} found` : "not found";
    if (!hits.length) return;
    const follows = (hit) => from.compareDocumentPosition(hit.startContainer)
      & Node.DOCUMENT_POSITION_FOLLOWING;
    now = from ? Math.max(-1, hits.findIndex(follows) - 1) : -1;
    go(1);
  };
  const go = (step) => {
    if (!hits.length) return;
    now = (now + step + hits.length) % hits.length;
    const range = hits[now];
    let element = range.startContainer.parentElement;
    for (let each = element; each && each !== main; each = each.parentElement)
      if (each.tagName === "DETAILS") each.open = true;
    if (marks) { marks.now.clear(); marks.now.add(range); }
    element.scrollIntoView({ block: "center" });
    told.value = `${now + 1} of ${hits.length}${hits.length >= most ? "+" : ""}`;
  };
  box.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(find, 200, null);
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); go(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { box.value = ""; find(null); box.blur(); }
  });
  one("next").addEventListener("click", () => go(1));
  one("before").addEventListener("click", () => go(-1));
  for (const what of ["tools", "thinking"]) {
    const choice = one(what);
    if (choice) choice.addEventListener("change", () =>
      document.body.classList.toggle(`without-${what}`, !choice.checked));
  }
  one("fold").addEventListener("click", (event) => {
    const all = main.querySelectorAll("details"), open = event.target.dataset.open !== "yes";
    for (const each of all) each.open = open;
    event.target.dataset.open = open ? "yes" : "";
    event.target.textContent = open ? "Close all" : "Open all";
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || document.activeElement.tagName === "INPUT") return;
    event.preventDefault();
    box.focus();
  });
  if (box.value) find(one("here"));
})();
"""
