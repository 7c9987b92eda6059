"use strict";

// Checks a solution in the page before it is sent. The server checks the same again.
(() => {
  const form = document.querySelector("form[data-upload]");
  const cap = Number(form.dataset.cap);
  const fileInput = form.elements.file;
  const textInput = form.elements.text;
  const drop = form.querySelector("[data-drop]");
  const list = form.querySelector("[data-checks]");
  const summary = form.querySelector("[data-summary]");
  const button = form.querySelector("button[type=submit]");

  const decode = (bytes) => {
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      return null;
    }
  };

  // Each check: what it says, whether it holds, and whether it only warns.
  const checkSource = (name, bytes) => {
    const text = decode(bytes);
    const checks = [
      { label: `${bytes.length.toLocaleString("en")} bytes, at most ${cap.toLocaleString("en")}`, passed: bytes.length <= cap },
      { label: "is not empty", passed: bytes.length > 0 },
      { label: "is UTF-8 text", passed: text !== null },
      { label: "has no NUL bytes", passed: !bytes.includes(0) },
    ];
    if (name !== null) {
      checks.unshift({ label: `${name} is the name of one .py file`, passed: /^\w[\w.-]*\.py$/.test(name) });
    }
    if (text) {
      checks.push(
        { label: "defines class ModelNew", passed: /^class\s+ModelNew\b/m.test(text), hint: true },
        { label: "uses @triton.jit", passed: /^\s*@(triton\.)?jit\b/m.test(text), hint: true },
      );
    }
    return checks;
  };

  const show = (checks) => {
    list.replaceChildren(
      ...checks.map((check) => {
        const item = document.createElement("li");
        item.dataset.state = check.passed ? "ok" : check.hint ? "hint" : "bad";
        const text = document.createElement("span");
        text.textContent = check.passed ? check.label : `${check.hint ? "does not seem to hold" : "does not hold"}: ${check.label}`;
        item.append(text);
        return item;
      }),
    );
    const refused = checks.filter((check) => !check.passed && !check.hint);
    button.disabled = refused.length > 0;
    summary.textContent = refused.length ? `${refused.length} checks do not hold.` : checks.length ? "Every check before upload holds." : "";
  };

  const check = async () => {
    const file = fileInput.files[0];
    if (file) {
      const bytes = new Uint8Array(await file.slice(0, cap + 1).arrayBuffer());
      const checks = checkSource(file.name, bytes);
      if (textInput.value.trim()) {
        checks.push({ label: "a file or its text, not both", passed: false });
      }
      show(checks);
    } else {
      show(textInput.value ? checkSource(null, new TextEncoder().encode(textInput.value)) : []);
    }
  };

  const acceptDrop = (event) => {
    event.preventDefault();
    drop.classList.remove("drop--over");
    if (event.dataTransfer.files.length === 1) {
      fileInput.files = event.dataTransfer.files;
      check();
    } else {
      show([{ label: "one file at a time", passed: false }]);
    }
  };

  for (const element of form.querySelectorAll("[data-script]")) {
    element.hidden = false;
  }
  fileInput.addEventListener("change", check);
  textInput.addEventListener("input", check);
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("drop--over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("drop--over"));
  drop.addEventListener("drop", acceptDrop);
  check();
})();
