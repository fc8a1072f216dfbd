// Buttons that copy: data-copy has the text, data-copy-from the id of an element that has it,
// data-copy-url an address on this server.
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy], [data-copy-from], [data-copy-url]");
  if (!button) return;
  event.preventDefault();
  const { copy, copyFrom, copyUrl } = button.dataset;
  const text = copyUrl ? new URL(copyUrl, location.href).href
    : copyFrom ? document.getElementById(copyFrom).innerText : copy;
  await navigator.clipboard.writeText(text);
  const label = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = label; }, 1200);
});
