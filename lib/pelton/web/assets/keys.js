// Escape closes what was unfolded last around the focus, which goes back to what unfolds it.
"use strict";
document.addEventListener("keydown", (event) => {
  const details = event.key === "Escape" && document.activeElement.closest("details[open]");
  if (!details) return;

  details.open = false;
  details.querySelector("summary").focus();
});
