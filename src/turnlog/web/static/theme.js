// Not a module: it runs before the page is drawn, so the page does not flash in the other theme.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  let theme = "";
  try { theme = localStorage.getItem("theme") ?? ""; } catch { /* Not allowed: the system's. */ }
  if (theme) root.dataset.theme = theme;
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("#theme")) return;
    const now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* Until the next page. */ }
  });
})();
