// Gets the page again every 5 seconds and puts its content in place of the old one. It says so when that fails, because
// old numbers look like new ones. Without scripts, pages stand still.
"use strict";
(() => {
  const live = document.getElementById("live");
  const button = document.getElementById("pause");
  if (!live) return;

  let paused = false;
  // A page renews itself while an action runs.
  let ended = false;
  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Resume" : "Pause";
  });

  // What has the focus, as a way to find it again in the new content.
  const focusable = "a, button, summary, [tabindex]";
  const focused = () => {
    const element = document.activeElement;
    if (!live.contains(element)) return null;
    return [...live.querySelectorAll(focusable)].indexOf(element);
  };
  const busy = () => paused || document.hidden || !window.getSelection().isCollapsed ||
    live.querySelector("input:checked") !== null ||
    (live.contains(document.activeElement) && document.activeElement.matches("input, select, textarea"));

  // What actions did and do. Screen readers hear a line that changed.
  const outcomes = () => [...live.querySelectorAll(".outcome")].map((line) => line.textContent);
  let heard = outcomes();
  const say = () => {
    const lines = outcomes();
    const changed = lines.filter((line) => !heard.includes(line));
    if (changed.length > 0) document.getElementById("said").textContent = changed.join(" ");
    heard = lines;
  };

  // Says above the content why it is old; nothing: it is not.
  const lost = document.getElementById("lost");
  const tell = (text) => {
    if (lost.textContent !== text) lost.textContent = text;
    lost.hidden = text === "";
  };

  const refresh = async () => {
    if (busy()) return;
    const options = { credentials: "same-origin", signal: AbortSignal.timeout(30000) };
    const response = await fetch(window.location.href, options);
    if (busy()) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = response.ok && (page.getElementById("live") || page.getElementById("content"));
    if (!fresh) return tell(`This page shows an older state: it was not renewed (status ${response.status}). Reload it.`);

    tell("");
    document.getElementById("notices").replaceChildren(...page.getElementById("notices").childNodes);
    const index = focused();
    const scrolled = [...live.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
    const open = [...live.querySelectorAll("details[open]")].map((details) => details.id);
    live.replaceChildren(...fresh.childNodes);
    [...live.querySelectorAll(".scroll")].forEach((box, at) => { box.scrollLeft = scrolled[at] || 0; });
    open.forEach((id) => { const details = id && document.getElementById(id); if (details) details.open = true; });
    if (index !== null && index >= 0) {
      const next = live.querySelectorAll(focusable)[index];
      if (next) next.focus({ preventScroll: true });
    }
    const counts = page.querySelectorAll("nav .count");
    document.querySelectorAll("nav .count").forEach((count, at) => count.replaceChildren(...counts[at].childNodes));
    document.getElementById("updated").replaceChildren(...page.getElementById("updated").childNodes);
    say();
    ended = fresh.id === "content";
    button.hidden = ended;
  };
  const failed = () => tell("The dashboard does not answer. This page shows an older state, and tries again.");
  const again = () => refresh().catch(failed).finally(() => ended || setTimeout(again, 5000));
  setTimeout(again, 5000);
})();
