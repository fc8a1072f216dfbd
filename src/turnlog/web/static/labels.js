// Changes the title, the tags and the pin of a session: <form data-labels="ID" data-about="URL">.
// Only what was changed is sent; then the part of the page at data-about is loaded again.
import { load, morph } from "./swap.js";

document.addEventListener("submit", async (event) => {
  const form = event.target, { labels, about } = form.dataset;
  if (!labels) return;
  event.preventDefault();
  const { title, tags, pinned } = form.elements, told = form.querySelector("output"), changes = {};
  if (title.value !== title.defaultValue) changes.title = title.value;
  if (tags.value !== tags.defaultValue) changes.tags = tags.value.split(",").map((tag) => tag.trim()).filter(Boolean);
  if (pinned.checked !== pinned.defaultChecked) changes.pinned = pinned.checked;
  if (!Object.keys(changes).length) { told.value = "Nothing changed"; return; }
  const answer = await fetch(`/api/sessions/${encodeURIComponent(labels)}/labels`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Turnlog": "1" },
    body: JSON.stringify(changes),
  });
  const done = await answer.json();
  told.value = answer.ok ? "Saved" : `${done.error}. ${done.hint}`;
  if (!answer.ok) return;
  if (changes.title && done.title) document.querySelector("h1").textContent = done.title;
  const page = await load(about);
  morph(document.getElementById("about"), page.getElementById("about"));
});
