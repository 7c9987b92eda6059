"use strict";
// Writes the reader's own time beside each time in UTC, and counts the seconds of what is going on.
(() => {
  const started = new WeakMap();
  const addLocal = (place) => {
    const moment = new Date(place.dateTime);
    place.removeAttribute("data-local");
    if (moment.getTimezoneOffset() === 0) return;
    const local = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    place.append(` (${local} your time)`);
  };
  // By the server's count and a clock that nobody sets, so that a wrong clock here shows no wrong figure.
  const count = (place) => {
    if (!started.has(place)) started.set(place, performance.now());
    const seconds = Math.floor(Number(place.dataset.elapsed) + (performance.now() - started.get(place)) / 1000);
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
    const words = [hours && `${hours} h`, (hours || minutes) && `${minutes} min`, `${seconds % 60} s`];
    place.textContent = words.filter(Boolean).join(" ");
  };
  const update = () => {
    document.querySelectorAll("time[data-local]").forEach(addLocal);
    document.querySelectorAll("[data-elapsed]").forEach(count);
  };
  update();
  window.setInterval(update, 1000);
})();
