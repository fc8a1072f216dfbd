// Pages are complete without this module. It replaces parts of a page instead of reloading it:
//
//   <form data-swap="rows facets">   applies while one types: fetches its own URL, and replaces the
//   <a data-swap="rows" href="…">    elements with these ids by those in the answer
//   <tr data-src="/…">               is replaced by the answer when it scrolls into view, or when the
//                                    <details> around it opens
import { Idiomorph } from "./vendor/idiomorph.js";

const rules = { createHTML: (html) => html }; // The server escaped it.
const policy = window.trustedTypes ? trustedTypes.createPolicy("turnlog", rules) : rules;
const parser = new DOMParser();
const typingDelay = 150;

/** Return a page of this server as a document. */
export const parse = (html) => parser.parseFromString(policy.createHTML(html), "text/html");

/** Fetch a page of this server. */
export async function load(url, options = {}) {
  const answer = await fetch(url, { headers: { Accept: "text/html" }, ...options });
  return parse(await answer.text());
}

/** Change *target* into *source*, keeping what is typed, focused or unfolded. */
export function morph(target, source) {
  Idiomorph.morph(target, source, {
    morphStyle: "outerHTML",
    ignoreActiveValue: true,
    callbacks: {
      beforeNodeMorphed: (node) => !node.dataset || !("keep" in node.dataset), // A box that is checked.
      beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
    },
  });
  enhance(document);
}

let running = null;

/** Replace the elements with these *ids* by those at *url*. */
export async function visit(url, ids, remember) {
  running?.abort();
  running = new AbortController();
  let page;
  try {
    page = await load(url, { signal: running.signal });
  } catch (error) {
    if (error.name === "AbortError") return;
    location.assign(url);
    return;
  }
  for (const id of ids.split(" ")) {
    const target = document.getElementById(id), source = page.getElementById(id);
    if (target && source) morph(target, source);
    else if (target || source) { location.assign(url); return; }
  }
  document.title = page.title;
  if (remember) history[remember]({ ids }, "", url);
  document.dispatchEvent(new CustomEvent("turnlog:swapped"));
}

function addressOf(form) {
  const url = new URL(form.action);
  const fields = [...new FormData(form)].filter(([, value]) => value !== "");
  url.search = new URLSearchParams(fields);
  return url;
}

let waiting = 0;
document.addEventListener("input", ({ target }) => {
  const form = target.form;
  if (!form?.dataset.swap) return;
  clearTimeout(waiting);
  waiting = setTimeout(() => visit(addressOf(form), form.dataset.swap, "replaceState"), typingDelay);
});
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.swap) return;
  event.preventDefault();
  clearTimeout(waiting);
  visit(addressOf(form), form.dataset.swap, "pushState");
});
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-swap]");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (!history.state?.ids) history.replaceState({ ids: link.dataset.swap }, "");
  visit(link.getAttribute("href"), link.dataset.swap, "pushState");
});
addEventListener("popstate", ({ state }) => {
  if (state?.ids) visit(location.href, state.ids);
});

/** Replace *place* by what its data-src has; resolve when it is there. */
export async function fill(place) {
  const url = place.dataset.src;
  if (!url || place.ariaBusy) return;
  place.ariaBusy = "true";
  try {
    // A row is only parsed inside a table.
    const inside = place.tagName === "TR" ? ["<table><tbody>", "</tbody></table>", "tbody"] : ["", "", "body"];
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(answer.statusText);
    const found = parse(inside[0] + (await answer.text()) + inside[1]).querySelector(inside[2]);
    found.firstElementChild?.setAttribute("data-loaded", "");
    place.replaceWith(...found.childNodes);
    enhance(document);
    document.dispatchEvent(new CustomEvent("turnlog:filled"));
  } catch {
    place.ariaBusy = null; // Its link still works.
  }
}

const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) fill(target);
}, { rootMargin: "600px" });

/** Watch for places to fill, also in parts of the page that are new. */
export function enhance(root) {
  for (const place of root.querySelectorAll("[data-src]:not([data-watched])")) {
    place.dataset.watched = "";
    const folded = place.closest("details:not([open])");
    if (folded) folded.addEventListener("toggle", () => fill(place), { once: true });
    else seen.observe(place);
  }
}
enhance(document);
