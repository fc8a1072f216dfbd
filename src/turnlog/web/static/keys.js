// Keys that work on every page, and the list of them (?). Pages add their own with `register`.
const actions = new Map(), words = new Map();
let before = "";

/** Add keys: `actions` has functions by key ("n", "g c"), `help` what each does. */
export function register(added, help = {}) {
  for (const [key, action] of Object.entries(added)) actions.set(key, action);
  for (const [key, text] of Object.entries(help)) words.set(key, text);
}

const isTyping = ({ target }) =>
  target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event) || document.querySelector("dialog[open]")) return;
  const action = actions.get(`${before} ${event.key}`) ?? actions.get(event.key);
  before = before ? "" : event.key;
  if (!action) return;
  before = "";
  event.preventDefault();
  action(event);
});

const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent);
function move(step) {
  const all = rows();
  if (!all.length) return;
  const now = all.findIndex((row) => row.classList.contains("chosen"));
  all[now]?.classList.remove("chosen");
  const row = all[Math.max(0, Math.min(all.length - 1, now < 0 ? 0 : now + step))];
  row.classList.add("chosen");
  row.scrollIntoView({ block: "nearest" });
  row.querySelector("a")?.focus({ preventScroll: true });
}
const go = (path) => () => location.assign(path);

function showHelp() {
  const dialog = document.createElement("dialog"), list = document.createElement("dl"), title = document.createElement("h2");
  title.textContent = "Keys";
  list.className = "keys";
  for (const [key, text] of words) {
    const name = document.createElement("dt"), said = document.createElement("dd");
    for (const each of key.split(" ")) {
      const cap = document.createElement("kbd");
      cap.textContent = each;
      name.append(cap, " ");
    }
    said.textContent = text;
    list.append(name, said);
  }
  dialog.append(title, list);
  dialog.setAttribute("aria-label", "Keys");
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

register(
  {
    j: () => move(1),
    k: () => move(-1),
    o: () => document.querySelector(".chosen a")?.click(),
    "/": () => document.querySelector("[data-find], #top input[type=search]")?.focus(),
    t: () => document.getElementById("theme")?.click(),
    "?": showHelp,
    "g s": go("/"),
    "g n": go("/now"),
    "g f": go("/files"),
    "g c": go("/costs"),
    "g i": go("/insights"),
    "g h": go("/health"),
  },
  {
    "Ctrl-K": "Find a session, a project or a page",
    "/": "Search",
    j: "Next row",
    k: "Previous row",
    o: "Open the row",
    "g s": "Sessions",
    "g n": "Now",
    "g f": "Files",
    "g c": "Costs",
    "g i": "Insights",
    "g h": "Health",
    t: "Light or dark",
    "?": "These keys",
  },
);
document.addEventListener("click", (event) => { if (event.target.closest?.("#keys")) showHelp(); });
