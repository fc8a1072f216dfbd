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
