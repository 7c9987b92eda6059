"use strict";
// Numbers the lines of a text area. Without script it is a text area.
(() => {
  for (const text of document.querySelectorAll("textarea[data-editor]")) {
    const frame = document.createElement("div");
    const lines = document.createElement("pre");
    frame.className = "editor";
    lines.className = "editor__lines";
    lines.setAttribute("aria-hidden", "true");
    text.wrap = "off";
    text.replaceWith(frame);
    frame.append(lines, text);
    let shown = 0;
    const scroll = () => {
      lines.scrollTop = text.scrollTop;
    };
    const number = () => {
      const count = text.value.split("\n").length;
      if (count !== shown) {
        // One more, as room for a scroll bar below the last line.
        lines.textContent = `${Array.from({ length: count }, (_, line) => line + 1).join("\n")}\n\n`;
        shown = count;
      }
      scroll();
    };
    text.addEventListener("input", number);
    text.addEventListener("scroll", scroll);
    number();
  }
})();
