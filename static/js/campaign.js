"use strict";
// Sends the files of a campaign one by one into its draft. What is there already is not sent again.
(() => {
  const form = document.querySelector("form[data-campaign]");
  const address = form.dataset.campaign;
  const cap = Number(form.dataset.cap);
  const secret = form.elements.csrfmiddlewaretoken.value;
  const drop = form.querySelector("[data-drop]");
  const box = form.querySelector("[data-progress]");
  const bar = box.querySelector("progress");
  const words = box.querySelector("[data-words]");
  const again = box.querySelector("[data-again]");
  const status = form.querySelector("[data-status]");
  const refusals = form.querySelector("[data-refusals]");
  const remembered = `refused ${address}`;
  const RETRIES = [1000, 2000, 4000, 8000];
  const LONGEST_WAIT_SECONDS = 90;
  let waiting = [];
  let refused = [];

  class Stop extends Error {}

  const say = (text) => {
    words.textContent = status.textContent = text;
  };
  const showRefusals = (list) => {
    refusals.hidden = list.length === 0;
    refusals.querySelector("ul").replaceChildren(
      ...list.slice(0, 20).map(({ name, reason }) => {
        const item = document.createElement("li");
        item.textContent = `${name}: ${reason}`;
        return item;
      }),
    );
  };
  const sleep = (milliseconds) => new Promise((resolve) => window.setTimeout(resolve, milliseconds));
  const ask = async (url, options) => {
    for (const pause of [...RETRIES, null]) {
      const answer = await fetch(url, { credentials: "same-origin", ...options }).catch(() => null);
      if (answer && answer.status < 500 && answer.status !== 429) return answer;
      const seconds = Number(answer?.headers.get("Retry-After") ?? 0);
      if (pause === null || seconds > LONGEST_WAIT_SECONDS) break;
      await sleep(Math.max(pause, seconds * 1000));
    }
    throw new Stop("The connection was lost.");
  };
  const describe = async (answer) => {
    if (answer.status === 401 || answer.status === 403) {
      return "You are signed out. Sign in again, come back to this draft and choose the same files: only what is missing is sent.";
    }
    const problem = await answer.json().catch(() => ({}));
    return problem.detail ?? `The server answered ${answer.status}.`;
  };
  // The same checks as on the server, which makes them again.
  const check = (bytes) => {
    if (bytes.length > cap) return [null, `The file has more than ${cap.toLocaleString("en")} bytes (256 KiB).`];
    if (bytes.includes(0)) return [null, "The file holds NUL bytes, so it is not Python source."];
    try {
      const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
      return text.trim() ? [text, ""] : [null, "The file is empty."];
    } catch {
      return [null, "The file is not UTF-8. Save it as UTF-8."];
    }
  };
  const digest = async (bytes) => {
    // Browsers have it only where the page came over a safe connection.
    if (!window.crypto?.subtle) return "";
    const sum = new Uint8Array(await window.crypto.subtle.digest("SHA-256", bytes));
    return Array.from(sum, (byte) => byte.toString(16).padStart(2, "0")).join("");
  };
  const list = async () => {
    const answer = await ask(address, {});
    if (!answer.ok) throw new Stop(await describe(answer));
    const preview = await answer.json();
    return new Map(preview.files.map((file) => [file.name, file.sha256]));
  };
  const send = async ({ name, file }, present) => {
    const bytes = new Uint8Array(await file.slice(0, cap + 1).arrayBuffer());
    const [source, reason] = check(bytes);
    if (source === null) {
      refused.push({ name, reason });
      return;
    }
    if (present.has(name) && present.get(name) === (await digest(bytes))) return;
    const headers = { "Content-Type": "application/json", "X-CSRFToken": secret };
    const answer = await ask(address, { method: "POST", headers, body: JSON.stringify({ name, source }) });
    if (answer.ok) return;
    const detail = await describe(answer);
    if (answer.status !== 400 && answer.status !== 413) throw new Stop(detail);
    refused.push({ name, reason: detail });
  };
  const sendAll = async () => {
    const total = waiting.length;
    let stopped = null;
    box.hidden = false;
    again.hidden = true;
    bar.max = total;
    bar.value = 0;
    say(`Sending ${total} files.`);
    const work = async (present) => {
      while (waiting.length && !stopped) {
        const next = waiting.shift();
        try {
          await send(next, present);
        } catch (error) {
          waiting.push(next);
          stopped = error;
          return;
        }
        bar.value += 1;
        words.textContent = `${bar.value} of ${total} files sent.`;
      }
    };
    try {
      const present = await list();
      await Promise.all([work(present), work(present), work(present)]);
    } catch (error) {
      stopped = error;
    }
    if (stopped) {
      const reason = stopped instanceof Stop ? stopped.message : "A file could not be read.";
      say(`${reason} ${waiting.length} of ${total} files were not sent; what arrived is kept in the draft.`);
      showRefusals(refused);
      again.hidden = false;
      return;
    }
    if (refused.length) window.sessionStorage.setItem(remembered, JSON.stringify(refused));
    window.location.assign(window.location.pathname);
  };
  const isPython = (name) => name.toLowerCase().endsWith(".py");
  const isArchive = (name) => /\.(zip|tar|gz|tgz|bz2|xz|7z|rar)$/i.test(name);
  const start = (entries) => {
    const archives = entries.filter(({ name }) => isArchive(name));
    refused = archives.map(({ name }) => ({ name, reason: "Archives are not taken. Unpack it, and choose the folder." }));
    showRefusals(refused);
    waiting = entries.filter(({ name }) => isPython(name));
    if (waiting.length) {
      sendAll();
    } else if (!archives.length) {
      box.hidden = false;
      say("There is no file that ends in .py among them.");
    }
  };
  const walk = async (entry, path, found) => {
    const name = path ? `${path}/${entry.name}` : entry.name;
    if (entry.isFile) {
      found.push({ name, file: await new Promise((resolve, reject) => entry.file(resolve, reject)) });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const batch = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (!batch.length) return;
      for (const child of batch) await walk(child, name, found);
    }
  };
  const acceptDrop = async (event) => {
    event.preventDefault();
    drop.classList.remove("drop--over");
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
    const found = entries.length ? [] : [...event.dataTransfer.files].map((file) => ({ name: file.name, file }));
    for (const entry of entries) await walk(entry, "", found);
    start(found);
  };

  for (const element of form.querySelectorAll("[data-script]")) element.hidden = false;
  form.querySelector("[data-without]").hidden = true;
  showRefusals(JSON.parse(window.sessionStorage.getItem(remembered) ?? "[]"));
  window.sessionStorage.removeItem(remembered);
  form.elements.files.addEventListener("change", (event) => {
    start([...event.target.files].map((file) => ({ name: file.name, file })));
  });
  form.querySelector("#id_folder").addEventListener("change", (event) => {
    start([...event.target.files].map((file) => ({ name: file.webkitRelativePath, file })));
  });
  again.addEventListener("click", sendAll);
  window.addEventListener("online", () => {
    if (!again.hidden) sendAll();
  });
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("drop--over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("drop--over"));
  drop.addEventListener("drop", acceptDrop);
})();
