// Keeps a page up to date: parts that have changed come as server-sent events, by the ids of their elements.
// A lost connection is taken up again where it ended (the browser sends Last-Event-ID).
"use strict";

const shown = new Map(); // what was put, by id: a browser writes the same markup in other words

function put(id, html) {
  const element = document.getElementById(id);
  if (html === null) { element?.remove(); return; }
  if (!element || shown.get(id) === html) return;
  shown.set(id, html);
  const open = new Set([...element.querySelectorAll("details[open][id]")].map((each) => each.id));
  const focused = element.contains(document.activeElement) ? document.activeElement.id : "";
  element.innerHTML = html;
  for (const each of open) element.querySelector(`#${CSS.escape(each)}`)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus();
}

// A page that shows its parts in another way (a list too long for the document) registers for them.
const muster = { puts: [], put(parts) {
  for (const [id, html] of Object.entries(parts)) {
    if (!muster.puts.some((take) => take(id, html))) put(id, html);
  }
} };

function follow(address) {
  const source = new EventSource(address);
  const notice = document.getElementById("connection");
  source.onopen = () => { notice.hidden = true; };
  source.onerror = () => { notice.hidden = false; };
  source.onmessage = (event) => muster.put(JSON.parse(event.data));
  source.addEventListener("end", () => { source.close(); notice.hidden = true; });
}

document.addEventListener("DOMContentLoaded", () => {
  if (document.body.dataset.live) follow(document.body.dataset.live);
});
