// Changes the title, the tags and the pin of a session: <form data-labels="ID">.
import { load, morph } from "./swap.js";

document.addEventListener("submit", async (event) => {
  const form = event.target, id = form.dataset.labels;
  if (!id) return;
  event.preventDefault();
  const fields = new FormData(form), told = form.querySelector("output");
  const tags = fields.get("tags").split(",").map((tag) => tag.trim()).filter(Boolean);
  const answer = await fetch(`/api/sessions/${encodeURIComponent(id)}/labels`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Turnlog": "1" },
    body: JSON.stringify({ title: fields.get("title"), tags, pinned: fields.has("pinned") }),
  });
  const done = await answer.json();
  told.value = answer.ok ? "Saved" : `${done.error}. ${done.hint}`;
  if (!answer.ok) return;
  const page = await load(location.href), parts = (form.dataset.swapAfter ?? "").split(" ");
  for (const part of parts) {
    const target = document.getElementById(part), source = page.getElementById(part);
    if (target && source) morph(target, source);
  }
});
