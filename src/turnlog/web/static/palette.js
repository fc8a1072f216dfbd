// Ctrl-K: find a session, a project, a page or what was said, while one types.
import { load } from "./swap.js";

const typingDelay = 80;
let dialog = null, asking = null;

function choose(links, step) {
  const now = links.findIndex((link) => link.ariaSelected === "true");
  const next = links[(now + step + links.length) % links.length];
  links[now]?.setAttribute("aria-selected", "false");
  next?.setAttribute("aria-selected", "true");
  next?.scrollIntoView({ block: "nearest" });
  dialog.querySelector("input").setAttribute("aria-activedescendant", next?.id ?? "");
}

async function ask(words, list) {
  asking?.abort();
  asking = new AbortController();
  try {
    const page = await load(`/palette?${new URLSearchParams({ q: words })}`, { signal: asking.signal });
    list.replaceChildren(...page.body.childNodes);
    choose([...list.querySelectorAll("a")], 1);
  } catch (error) {
    if (error.name !== "AbortError") throw error;
  }
}

function open() {
  if (dialog) return;
  dialog = document.createElement("dialog");
  dialog.id = "palette";
  dialog.setAttribute("aria-label", "Find");
  const box = document.createElement("input"), list = document.createElement("div");
  box.type = "search";
  box.placeholder = "Sessions, projects, pages, what was said";
  box.setAttribute("role", "combobox");
  box.setAttribute("aria-label", "Find");
  box.setAttribute("aria-expanded", "true");
  box.setAttribute("aria-controls", "found");
  list.id = "found";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Found");
  let waiting = 0;
  box.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => ask(box.value, list), typingDelay);
  });
  dialog.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); choose(links, step); }
    if (event.key === "Enter") { event.preventDefault(); list.querySelector("[aria-selected=true]")?.click(); }
  });
  dialog.addEventListener("click", (event) => {
    const button = event.target.closest("[data-press]")?.dataset.press;
    if (button) event.preventDefault();
    if (button || event.target === dialog) dialog.close();
    if (button) document.getElementById(button).click();
  });
  dialog.addEventListener("close", () => { dialog.remove(); dialog = null; });
  dialog.append(box, list);
  document.body.append(dialog);
  dialog.showModal();
  ask("", list);
}

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); open(); }
});
document.addEventListener("click", (event) => { if (event.target.closest?.("#find-all")) open(); });
