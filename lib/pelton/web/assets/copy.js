// A button with data-copies copies the text of the element with that id. The text stays selected. Screen readers hear
// what became of it.
"use strict";
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copies]");
  if (!button) return;

  window.getSelection().selectAllChildren(document.getElementById(button.dataset.copies));
  button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
  document.getElementById("said").textContent = button.textContent;
});
