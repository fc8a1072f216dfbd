// Reading a session: turns are loaded as one scrolls, find and keys ask the server where to go, the
// page grows with its log, and going back leads to the same place with the same folds.
import { enhance, fill, load, morph, parse } from "./swap.js";
import { register } from "./keys.js";

const session = document.getElementById("session");
const byId = (id) => (id ? document.getElementById(id) : null);
const turns = () => byId("turns");
const partUrl = (part, params) => {
  const url = new URL(session.dataset.turns, location.href);
  url.pathname = url.pathname.replace(/turns$/, part);
  for (const [name, value] of Object.entries(params)) url.searchParams.set(name, value);
  return url;
};
const endUrl = () => partUrl("", { end: 1 }).href.replace("/?", "?") + "#end";
const topEdge = () => {
  const bar = byId("bar");
  return getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0;
};

// Windows: what comes before and after is loaded when one scrolls there.
async function loadWindow(place) {
  if (place.ariaBusy) return;
  place.ariaBusy = "true";
  const url = new URL(place.dataset.window, location.href);
  url.searchParams.set("side", place.id);
  let page;
  try { page = await load(url); } catch { /* Its link still works. */ }
  place.ariaBusy = null;
  if (!page?.querySelector("section.turn") || !place.isConnected) return;
  const height = document.documentElement.scrollHeight, isBefore = place.id === "before";
  place.replaceWith(...page.body.childNodes);
  if (isBefore) scrollBy({ top: document.documentElement.scrollHeight - height, behavior: "instant" });
  watch();
}
const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) loadWindow(target);
}, { rootMargin: "900px" });
function watch() {
  enhance(document);
  near.disconnect();
  for (const place of session.querySelectorAll("[data-window]")) near.observe(place);
  follow();
}

// Places: a block is opened and scrolled to; one that is not there is loaded with its surroundings.
let chosen = null;
async function open(element) {
  for (let each = element; each && each !== session; each = each.parentElement)
    if (each.tagName === "DETAILS") each.open = true;
  const own = element.querySelector(":scope > details");
  if (!own || own.open) return;
  const place = own.querySelector(":scope > [data-src]");
  if (place) await fill(place);
  own.open = true;
}
async function show(hash) {
  const element = byId(hash) ?? byId("here");
  if (!element) return null;
  chosen = element.id === "here" ? element.nextElementSibling : element;
  await open(chosen);
  element.scrollIntoView({ block: "start" });
  mark();
  return chosen;
}
async function jump(href, { remember = "pushState" } = {}) {
  const url = new URL(href, location.href), hash = url.hash.slice(1);
  if (!byId(hash) || hash === "here") {
    const page = await load(url), found = page.getElementById("turns");
    if (!found) { location.assign(url); return null; }
    if (remember) keep();
    turns().replaceWith(found);
    watch();
  } else if (remember) keep();
  if (remember) history[remember]({ reader: crypto.randomUUID() }, "", url);
  return show(hash);
}
const isPlain = (event) => !(event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
session.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || !isPlain(event)) return;
  const href = link.getAttribute("href"), url = new URL(href, location.href);
  if (url.pathname !== location.pathname || !url.hash) return;
  event.preventDefault();
  if (link.matches(".permalink")) copyText(url.href, link, "✓");
  jump(href);
});

// Back: the same place, the same folds.
const keyOf = (state) => `reader ${state?.reader ?? location.href}`;
function firstVisible() {
  const edge = topEdge() + 4;
  if (chosen?.isConnected) {
    const { top, bottom } = chosen.getBoundingClientRect();
    if (bottom > edge && top < innerHeight) return chosen;
  }
  return [...turns().querySelectorAll("[id^=r], section.turn")].find((each) =>
    each.getBoundingClientRect().bottom > edge && (each.tagName !== "SECTION" || each.getBoundingClientRect().top > edge - 40));
}
function keep() {
  const first = [...turns().querySelectorAll("[id^=r]")].find((each) => each.getBoundingClientRect().bottom > 0);
  const opened = [...turns().querySelectorAll("[id^=r] > details[open]")].map((each) => each.parentElement.id);
  const state = { id: first?.id, top: first?.getBoundingClientRect().top, opened };
  try { sessionStorage.setItem(keyOf(history.state), JSON.stringify(state)); } catch { /* Not allowed. */ }
}
async function restore() {
  let state = null;
  try { state = JSON.parse(sessionStorage.getItem(keyOf(history.state))); } catch { /* Not allowed. */ }
  if (!state?.id) return false;
  if (!byId(state.id)) {
    const url = new URL(location.pathname + location.search, location.href);
    url.searchParams.set("record", state.id);
    const found = (await load(url)).getElementById("turns");
    if (found) { turns().replaceWith(found); watch(); }
  }
  for (const each of turns().querySelectorAll("[id^=r] > details[open]")) each.open = state.opened.includes(each.parentElement.id);
  await Promise.all(state.opened.map((id) => byId(id) && open(byId(id))));
  const element = byId(state.id);
  if (!element) return false;
  const settle = () => scrollBy({ top: element.getBoundingClientRect().top - state.top, behavior: "instant" });
  settle();
  requestAnimationFrame(settle);
  return true;
}
history.scrollRestoration = "manual";
addEventListener("pagehide", keep);
addEventListener("popstate", async ({ state }) => {
  if (state?.ids) return;
  if (!(await restore())) jump(location.href, { remember: "" });
});

// Find: the server says where the words are; only the place that one goes to is loaded.
const form = byId("finding"), box = byId("find"), told = byId("told");
const marks = window.Highlight ? { hit: new Highlight(), now: new Highlight() } : null;
if (marks) for (const [name, highlight] of Object.entries(marks)) CSS.highlights.set(name, highlight);
let waiting = 0, asking = null, at = -1;
const links = () => [...byId("places").querySelectorAll("a[data-place]")];
async function ask() {
  const words = box.value.trim();
  at = -1;
  asking?.abort();
  asking = new AbortController();
  const url = new URL(form.dataset.places, location.href);
  url.searchParams.set("q", words);
  try {
    const page = await load(url, { signal: asking.signal });
    byId("places").replaceWith(page.getElementById("places"));
    byId("places").open = false;
    tell();
  } catch (error) { if (error.name !== "AbortError") throw error; }
}
function tell() {
  const count = links().length;
  byId("places").hidden = !count;
  told.value = at >= 0 ? `${at + 1} of ${count}` : box.value.trim() ? byId("places").querySelector("summary").textContent : "";
}
async function go(step) {
  clearTimeout(waiting);
  if (byId("places").dataset.words !== box.value.trim()) await ask();
  const all = links();
  if (!all.length) return;
  if (at < 0) { // Begin with the first place that is not above what one sees.
    const edge = topEdge();
    const below = all.findIndex((link) => (byId(link.dataset.place)?.getBoundingClientRect().top ?? -1) >= edge);
    at = below < 0 ? (step > 0 ? 0 : all.length - 1) : step > 0 ? below : (below + all.length - 1) % all.length;
  } else at = (at + step + all.length) % all.length;
  tell();
  const element = await jump(all[at].getAttribute("href"), { remember: "replaceState" });
  if (element) highlight(element, box.value.trim());
}
function highlight(element, words) {
  if (!marks) return;
  marks.hit.clear();
  marks.now.clear();
  const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), nodes = [];
  let text = "";
  for (let node; (node = walk.nextNode());) { nodes.push([text.length, node]); text += node.data; }
  const point = (offset) => {
    const [start, node] = nodes.findLast(([begin]) => begin <= offset);
    return [node, Math.min(offset - start, node.data.length)];
  };
  const lower = text.toLowerCase(), wanted = words.toLowerCase();
  let first = null;
  for (let found = lower.indexOf(wanted); found >= 0; found = lower.indexOf(wanted, found + wanted.length)) {
    const range = document.createRange();
    range.setStart(...point(found));
    range.setEnd(...point(found + wanted.length));
    const isSeen = range.getClientRects().length > 0;
    if (!first && isSeen) { first = range; marks.now.add(range); } else marks.hit.add(range);
  }
  first?.startContainer.parentElement.scrollIntoView({ block: "center" });
}
box.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, 200); });
form.addEventListener("submit", (event) => { event.preventDefault(); go(1); });
box.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.shiftKey) { event.preventDefault(); go(-1); }
  if (event.key === "Escape") { box.value = ""; ask(); box.blur(); }
});
byId("next").addEventListener("click", () => go(1));
byId("previous").addEventListener("click", () => go(-1));

// Keys: the server knows the next place of a kind, also where nothing is loaded yet.
let going = Promise.resolve(); // One step after the other, however fast one types.
const toNext = (kind, step) => () => {
  going = going.then(async () => {
    const page = await load(partUrl("next", { kind, step, from: firstVisible()?.id ?? "" }));
    const link = page.querySelector("a[data-place]");
    if (link) await jump(link.getAttribute("href"), { remember: "replaceState" });
  }).catch(() => {});
};
register(
  { "/": () => box.focus(), n: toNext("prompt", 1), p: toNext("prompt", -1), e: toNext("error", 1), E: toNext("error", -1), c: toNext("call", 1) },
  { "/": "Find in this session", n: "Next prompt", p: "Previous prompt", e: "Next error", E: "Previous error", c: "Next call" },
);

// Switches.
for (const name of ["tools", "thinking"])
  byId(name).addEventListener("change", ({ target }) => session.classList.toggle(`without-${name}`, !target.checked));
byId("fold").addEventListener("click", ({ target }) => {
  const isOpen = target.dataset.open !== "yes";
  for (const each of turns().querySelectorAll("[id^=r] > details")) each.open = isOpen;
  target.dataset.open = isOpen ? "yes" : "";
  target.textContent = isOpen ? "Close all" : "Open all";
});
const side = document.querySelector("#side > details");
if (matchMedia("(min-width: 80rem)").matches && localStorage.getItem("side") !== "closed")
  (window.requestIdleCallback ?? setTimeout)(() => {
    const first = firstVisible(), top = first?.getBoundingClientRect().top;
    side.open = true; // The turns get narrower, and what is above the first one taller.
    if (first && scrollY) scrollBy({ top: first.getBoundingClientRect().top - top, behavior: "instant" });
  });
side.querySelector("summary").addEventListener("click", () => localStorage.setItem("side", side.open ? "closed" : "open"));

// Copy: buttons for code and messages appear where the pointer or the focus is.
async function copyText(text, button, label) {
  await navigator.clipboard?.writeText(text).catch(() => {});
  const before = button.textContent;
  button.textContent = label;
  setTimeout(() => { button.textContent = before; }, 1200);
}
const button = document.createElement("button");
button.type = "button";
button.className = "copy";
button.textContent = "Copy";
button.addEventListener("click", (event) => {
  event.stopPropagation();
  const text = button.parentElement.cloneNode(true);
  for (const each of text.querySelectorAll(".copy, .permalink")) each.remove();
  copyText(text.textContent.trim(), button, "Copied");
});
const offer = ({ type, target }) => {
  if (type === "pointerover" && document.activeElement?.matches("pre:focus-visible, .copy:focus-visible")) return;
  const place = target.closest?.("pre, .said, .answer");
  if (place && button.parentElement !== place && session.contains(place)) place.append(button);
};
session.addEventListener("pointerover", offer);
session.addEventListener("focusin", offer);

// The outline and the rail say where one is.
let isMarking = false;
function mark() {
  isMarking = false;
  const edge = topEdge() + 40;
  const now = [...turns().querySelectorAll("section.turn")].find((each) => each.getBoundingClientRect().bottom > edge);
  const link = now && session.querySelector(`#outline a[data-turn="${now.id.split("-")[0]}"]`);
  const before = session.querySelector("#outline a[aria-current]");
  if (before !== link) {
    before?.removeAttribute("aria-current");
    link?.setAttribute("aria-current", "true");
    const nav = byId("outline");
    if (link && nav.scrollHeight > nav.clientHeight)
      nav.scrollTop += link.getBoundingClientRect().top - nav.getBoundingClientRect().top - nav.clientHeight / 2;
  }
  hidePill();
  const seen = session.querySelector("#rail .seen"), all = Number(session.dataset.windows) || 1;
  if (now && seen) seen.setAttribute("y", (Number(now.dataset.w ?? 0) / all) * 160);
}
addEventListener("scroll", () => { if (!isMarking) { isMarking = true; requestAnimationFrame(mark); } }, { passive: true });

// Live: the last window is asked for again when a log has grown.
let tag = `"${session.dataset.tag}"`, fresh = 0, isGrowing = false, isStale = false;
const pill = document.createElement("button");
pill.id = "new";
pill.type = "button";
pill.hidden = true;
pill.addEventListener("click", () => { fresh = 0; pill.hidden = true; jump(endUrl()); });
session.append(pill);
function hidePill() {
  if (!(byId("end")?.getBoundingClientRect().top < innerHeight)) return;
  pill.hidden = true;
  fresh = 0;
}
const toEnd = () => scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
function follow() { if (byId("follow").checked) toEnd(); }
byId("follow").addEventListener("change", async ({ target }) => {
  if (!target.checked) return;
  if (byId("after")) await jump(endUrl(), { remember: "" });
  toEnd();
});
async function grow() {
  isStale = true;
  if (isGrowing || document.hidden) return;
  isGrowing = true;
  while (isStale) {
    isStale = false;
    const shown = [...turns().querySelectorAll("section.turn[data-w]")], last = shown.at(-1)?.dataset.w ?? "0";
    const url = partUrl("turns", { window: last, side: "after" });
    let page = null;
    try {
      const answer = await fetch(url, { headers: { "If-None-Match": tag }, cache: "no-store" });
      if (answer.status === 304) continue;
      tag = answer.headers.get("etag") ?? "";
      page = parse(await answer.text());
    } catch { break; } // The server is gone: the page stays as it is.
    if (!page?.querySelector("section.turn")) continue;
    const now = [...turns().querySelectorAll("section.turn[data-w]")].at(-1)?.dataset.w ?? "0";
    if (now !== last) { isStale = true; continue; } // The next window came in the meantime.
    const hasAfter = page.getElementById("after");
    let added = 0, hasTurns = false;
    for (const section of [...page.body.children]) {
      const old = byId(section.id);
      if (section.id === "end" || section.id === "after") { old?.remove(); turns().append(section); continue; }
      added += [...section.querySelectorAll("[id^=r]")].filter((each) => !byId(each.id)).length;
      if (old) morph(old, section);
      else { turns().append(section); hasTurns = true; }
    }
    byId(hasAfter ? "end" : "after")?.remove();
    watch();
    if (hasTurns) refreshOutline();
    if (byId("follow").checked || !(added || hasAfter)) continue;
    fresh += added;
    pill.textContent = hasAfter ? "new ↓" : `${fresh} new ↓`; // How many are after this window is not known.
    pill.hidden = false;
    hidePill();
  }
  isGrowing = false;
}
async function refreshOutline() {
  const page = await load(endUrl());
  for (const id of ["outline", "rail"]) {
    const source = page.getElementById(id);
    if (source && !byId(id).contains(document.activeElement)) morph(byId(id), source);
  }
  session.dataset.windows = page.getElementById("session")?.dataset.windows ?? session.dataset.windows;
  mark();
}
document.addEventListener("turnlog:grown", grow);
document.addEventListener("visibilitychange", () => { if (!document.hidden && isStale) grow(); });

// What is above the turns gets taller when its last part is loaded; the turns stay where they are.
const above = byId("links");
let heightAbove = above.offsetHeight;
new ResizeObserver(() => {
  const grown = above.offsetHeight - heightAbove;
  heightAbove += grown;
  if (grown && above.getBoundingClientRect().bottom < 0) scrollBy({ top: grown, behavior: "instant" });
}).observe(above);

// Begin.
watch();
mark();
if (!history.state) history.replaceState({ reader: crypto.randomUUID() }, "");
byId("places").open = false;
const isBack = performance.getEntriesByType("navigation")[0]?.type === "back_forward";
if (!(isBack && await restore())) {
  if (box.value.trim()) {
    const here = byId("here");
    if (here) await show("here");
    tell();
    if (links().length) go(1);
  } else if (location.hash || byId("here")) await show(location.hash.slice(1));
}
