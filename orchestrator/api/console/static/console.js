// Keeps a page up to date: parts that have changed come as server-sent events, by the ids of their elements.
// A lost connection is taken up again where it ended (the browser sends Last-Event-ID).
"use strict";

const shown = new Map(); // what was put, by id: a browser writes the same markup in other words

function put(id, html) {
  const element = document.getElementById(id);
  if (html === null) { element?.remove(); shown.delete(id); return; }
  if (!element || shown.get(id) === html) return;
  shown.set(id, html);
  const open = new Map([...element.querySelectorAll("details[id]")].map((each) => [each.id, each.open]));
  const focused = element.contains(document.activeElement) ? document.activeElement.id : "";
  element.innerHTML = html;
  for (const [name, is] of open) element.querySelector(`#${CSS.escape(name)}`)?.toggleAttribute("open", is);
  if (focused) document.getElementById(focused)?.focus();
}

// A page that shows its parts in another way (a list too long for the document) registers for them: `puts` take parts
// one by one, `then` is told when all of a message are there. Who is in another room than before (its server began
// anew, nobody was there for a while, or too much has gone from it) is told all that there is, in numbers of its own:
// `anew` hears of it first.
const muster = { puts: [], then: [], anew: [], room: "", put(parts, message) {
  const [room] = message.split("-");
  if (muster.room && room !== muster.room) for (const each of muster.anew) each(parts);
  muster.room = room;
  for (const [id, html] of Object.entries(parts)) {
    if (!muster.puts.some((take) => take(id, html))) put(id, html);
  }
  for (const each of muster.then) each();
} };

function follow(address) {
  const notice = document.getElementById("connection");
  let source = null, last = "", wait_ms = 0, over = false;

  function open() {
    const after = last ? `${address.includes("?") ? "&" : "?"}after=${encodeURIComponent(last)}` : "";
    source = new EventSource(address + after);
    source.onopen = () => { wait_ms = 0; notice.hidden = true; };
    source.onerror = () => {
      notice.hidden = false;
      if (source.readyState === EventSource.CLOSED) again();
    };
    source.onmessage = (event) => {
      last = event.lastEventId || last;
      muster.put(JSON.parse(event.data), event.lastEventId);
    };
    source.addEventListener("end", () => { close(); over = true; notice.hidden = true; });
  }

  function close() { source?.close(); source = null; }

  // A browser comes again by itself when a connection breaks, and gives up on an answer that is no stream: that of a
  // proxy whose server starts anew, or of a server without its Redis. These pass; who is signed out stays so.
  async function again() {
    close();
    wait_ms = Math.min(30000, 2 * wait_ms || 1000);
    await new Promise((done) => setTimeout(done, wait_ms * (0.5 + Math.random()))); // not all browsers at once
    if (source || over || document.hidden) return;
    const status = await fetch(address, { headers: { Accept: "text/event-stream" } })
      .then((answer) => { answer.body?.cancel(); return answer.status; }, () => 0);
    if (source || over || document.hidden) return;
    if (status === 200) { open(); return; }
    if (![401, 403, 404].includes(status)) { again(); return; }
    over = true;
    const reload = Object.assign(document.createElement("a"), { href: location.href, textContent: "Load the page again" });
    notice.replaceChildren("Not connected any more. ", reload);
  }

  // A browser has six connections to a server for all of its tabs: one that nobody sees leaves its own to the others.
  document.addEventListener("visibilitychange", () => {
    if (over) return;
    if (document.hidden) close(); else if (!source) open();
  });
  if (!document.hidden) open();
}

// What is pressed twice is sent once.
document.addEventListener("submit", (event) => {
  const form = event.target, now = Date.now();
  if (form.method !== "post") return;
  if (now - Number(form.dataset.sent ?? 0) < 2000) event.preventDefault(); else form.dataset.sent = now;
});

// Lengths of time that still grow, by the server's clock.
const clock = { ahead_ms: 0, now: () => Date.now() + clock.ahead_ms };

function duration(ms) {
  if (ms < 60000) return `${(Math.max(0, ms) / 1000).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000), minutes = Math.floor(seconds / 60), two = (n) => String(n).padStart(2, "0");
  return minutes < 60 ? `${minutes} m ${two(seconds % 60)} s` : `${Math.floor(minutes / 60)} h ${two(minutes % 60)} m`;
}

function tick() {
  for (const each of document.querySelectorAll("[data-since]")) {
    each.textContent = duration(clock.now() - Number(each.dataset.since));
  }
}

// What a task says: new blocks are put behind the others; who reads the end goes on reading it.
function tell(blocks, id, html) {
  if (!id.startsWith("block-")) return false;
  if (html !== null && !document.getElementById(id)) {
    const number = (each) => Number(each.id.slice(6)), element = document.createElement("div");
    element.id = id;
    const after = [...blocks.children].findLast((each) => number(each) < number(element));
    if (after) after.after(element); else blocks.prepend(element);
    while (blocks.children.length > 200) blocks.firstElementChild.remove(); // as many as the server keeps
  }
  const open = document.querySelector(`#${id} > details[open]`) !== null;
  const at_end = innerHeight + scrollY >= document.body.scrollHeight - 80;
  put(id, html);
  if (open) document.querySelector(`#${id} > details`)?.setAttribute("open", "");
  if (at_end) scrollTo(0, document.body.scrollHeight);
  return true;
}

// Only what a message tells of is left.
function keepOnly(blocks, parts) {
  for (const each of [...blocks.children]) if (!(each.id in parts)) put(each.id, null);
}

// The tree of a trace: all rows are known, those that can be seen are in the document.
class Tree {
  constructor(list) {
    this.list = list;
    this.box = list.parentElement; // what scrolls
    this.rows = new Map(); // number → html
    this.words = new Map(); // number → what is searched
    this.order = null; // null until the stream has told it: the server's first rows stand until then
    this.found = [];
    this.drawn = new Map(); // number → {html, element}
    this.search = document.getElementById("tree-q");
    this.first = list.querySelector(".row");
    this.box.addEventListener("scroll", () => this.soon());
    window.addEventListener("resize", () => this.soon());
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.search.form.addEventListener("submit", (event) => event.preventDefault());
    this.search.addEventListener("input", () => { this.box.scrollTop = 0; this.choose(); this.draw(); });
  }

  take(id, html) {
    if (id === "tree-order") { this.order = html.split(",").map(Number); return true; }
    if (!id.startsWith("tree-")) return false;
    const number = Number(id.slice(5));
    if (html === null) this.rows.delete(number); else this.rows.set(number, html);
    this.words.delete(number);
    return true;
  }

  then() {
    if (this.order === null) return;
    if (!this.box.classList.contains("virtual")) {
      this.height = this.first.getBoundingClientRect().height;
      this.box.classList.add("virtual");
      this.list.replaceChildren();
      document.getElementById("tree-pager").hidden = true;
      this.choose();
      this.draw();
      return;
    }
    this.choose();
    this.soon();
  }

  choose() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.found = (this.order ?? []).filter((number) => {
      if (!this.rows.has(number)) return false;
      if (!words.length) return true;
      const [text, id] = this.text(number);
      return words.every((word) => text.includes(word) || (word.length >= 6 && id.includes(word)));
    });
  }

  text(number) {
    let text = this.words.get(number);
    if (text === undefined) {
      const made = new DOMParser().parseFromString(this.rows.get(number), "text/html");
      text = [made.body.textContent.toLowerCase(), made.querySelector("a").getAttribute("href")];
      this.words.set(number, text);
    }
    return text;
  }

  soon() {
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => { this.waits = false; this.draw(); });
  }

  draw() {
    if (this.order === null) return;
    const { list, box, height, found } = this, spare = 8;
    const from = Math.max(0, Math.min(found.length, Math.floor(box.scrollTop / height)) - spare);
    const to = Math.min(found.length, Math.ceil((box.scrollTop + box.clientHeight) / height) + spare);
    const wanted = new Set(found.slice(from, to));
    for (const [number, { element }] of this.drawn) {
      if (wanted.has(number)) continue;
      if (element.contains(document.activeElement)) box.focus({ preventScroll: true });
      element.remove();
      this.drawn.delete(number);
    }
    let after = null;
    for (let place = from; place < to; place++) {
      const element = this.element(found[place], place);
      const next = after === null ? list.firstChild : after.nextSibling;
      if (element !== next) list.insertBefore(element, next);
      after = element;
    }
    list.style.paddingTop = `${from * height}px`;
    list.style.paddingBottom = `${(found.length - to) * height}px`;
    this.stretch();
    tick();
  }

  element(number, place) {
    const html = this.rows.get(number);
    let known = this.drawn.get(number);
    if (known?.html !== html) {
      const template = document.createElement("template");
      template.innerHTML = html.trim();
      const element = template.content.firstElementChild;
      if (known) {
        const focused = known.element.contains(document.activeElement);
        known.element.replaceWith(element);
        if (focused) element.querySelector("a").focus({ preventScroll: true });
      }
      known = { html, element };
      this.drawn.set(number, known);
    }
    known.element.setAttribute("aria-posinset", place + 1);
    known.element.setAttribute("aria-setsize", this.found.length);
    return known.element;
  }

  // every line is as wide as the trace is long
  stretch() {
    const span = Math.max(1, (this.over ?? clock.now()) - Number(this.list.dataset.begin));
    for (const line of this.list.querySelectorAll("svg.line")) line.setAttribute("viewBox", `0 0 ${span} 4`);
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || this.order === null || !this.found.length) return;
    event.preventDefault();
    const row = document.activeElement.closest?.(".row");
    const here = row ? Number(row.getAttribute("aria-posinset")) - 1 : step > 0 ? -1 : 0;
    const place = Math.max(0, Math.min(this.found.length - 1, here + step));
    const top = place * this.height, { box } = this;
    this.draw(); // its height may be of before the last change
    if (top < box.scrollTop) box.scrollTop = top;
    if (top + this.height > box.scrollTop + box.clientHeight) box.scrollTop = top + this.height - box.clientHeight;
    this.draw();
    this.drawn.get(this.found[place]).element.querySelector("a").focus({ preventScroll: true });
  }
}

document.addEventListener("DOMContentLoaded", () => {
  const { live, now } = document.body.dataset;
  if (now) clock.ahead_ms = Number(now) - Date.now();
  const list = document.getElementById("tree");
  if (list) {
    const tree = new Tree(list);
    muster.puts.push((id, html) => tree.take(id, html));
    muster.then.push(() => tree.then());
    setInterval(() => { if (!document.querySelector(".is-over")) tree.stretch(); }, 1000);
  }
  const blocks = document.getElementById("blocks");
  if (blocks) {
    muster.puts.push((id, html) => tell(blocks, id, html));
    muster.anew.push((parts) => keepOnly(blocks, parts));
  }
  setInterval(tick, 1000);
  if (live) follow(live);
});
