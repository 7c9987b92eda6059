"use strict";
// Sends a form once, however often its button is clicked. The server makes sure of it too.
(() => {
  for (const form of document.querySelectorAll("form[data-once]")) {
    let sent = false;
    form.addEventListener("submit", (event) => {
      if (sent) event.preventDefault();
      sent = true;
    });
    // A page that the browser kept and shows again can be sent again.
    window.addEventListener("pageshow", () => {
      sent = false;
    });
  }
})();
