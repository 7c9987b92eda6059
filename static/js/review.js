"use strict";

// Keys for the queue: j and k move between cases, u goes back to the queue. Everything is a link or a button without it.
(() => {
  document.documentElement.classList.add("has-script");
  const cases = [...document.querySelectorAll("[data-case]")];
  const back = document.querySelector("[data-back]");

  const isTyping = (target) => target.closest("input, select, textarea, summary, [contenteditable]") !== null;

  const move = (step) => {
    const place = cases.findIndex((link) => link === document.activeElement);
    const next = place === -1 ? (step > 0 ? 0 : cases.length - 1) : Math.min(Math.max(place + step, 0), cases.length - 1);
    cases[next].focus();
    cases[next].scrollIntoView({ block: "nearest" });
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (event.key === "j" && cases.length) move(1);
    else if (event.key === "k" && cases.length) move(-1);
    else if (event.key === "u" && back) back.click();
    else return;
    event.preventDefault();
  });
})();
