// Filters that the reader has given a name, kept in this browser. Without scripts, a bookmark does it.
const key = "turnlog.filters";
const all = () => JSON.parse(localStorage.getItem(key) ?? "{}");
const keep = (filters) => { localStorage.setItem(key, JSON.stringify(filters)); show(); };

function show() {
  const place = document.getElementById("saved");
  if (!place) return;
  const filters = all(), list = document.createElement("ul"), title = document.createElement("h2");
  title.textContent = "saved filters";
  for (const [name, query] of Object.entries(filters)) {
    const row = document.createElement("li"), link = document.createElement("a"), drop = document.createElement("button");
    link.textContent = name;
    link.href = `/?${new URLSearchParams(query)}`;
    link.dataset.swap = document.getElementById("filters").dataset.swap;
    drop.type = "button";
    drop.textContent = "×";
    drop.setAttribute("aria-label", `Forget the filter ${name}`);
    drop.addEventListener("click", () => { delete filters[name]; keep(filters); });
    row.append(link, drop);
    list.append(row);
  }
  place.replaceChildren(...(list.children.length ? [title, list] : []));
}

document.addEventListener("click", ({ target }) => {
  if (target.id !== "save") return;
  const chips = [...document.querySelectorAll(".chip")].map((chip) => chip.firstChild.textContent);
  keep({ ...all(), [chips.join(", ")]: location.search.slice(1) });
});
document.addEventListener("turnlog:swapped", show);
show();
