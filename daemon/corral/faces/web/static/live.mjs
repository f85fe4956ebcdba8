// Keeps a page up to date: one stream says that something changed, then the page fetches itself and its parts are exchanged.
// Without this script every page can be read as it was when it was loaded.

const GAP_MS = 700; // between two fetches of the page, however much changes
const REST = 8; // times as long as the last fetch took is the least pause after it: many browsers leave the daemon room
const AGAIN_MS = 2000; // until a stream that was lost is asked for again
const FULL_MS = 30_000; // the same, where too many pages are live
const MOST_OF_LOG = 400_000; // characters that the page keeps

const pulse = document.getElementById("pulse");
const trouble = document.getElementById("trouble");
const log = document.getElementById("log");
const address = new URL(document.body.dataset.stream, location.href);

let stream = null;
let fetchedAt = 0;
let gap = GAP_MS;
let timer = null;
let busy = false;
let wasLost = false;

function show(state, text) {
  pulse.className = `pulse ${state}`;
  pulse.textContent = text;
}

function say(text) {
  if (trouble.textContent !== text) trouble.textContent = text;
  trouble.hidden = text === "";
}

function upToDate() {
  say("");
  show("live", `live, as of ${new Date().toISOString().slice(11, 19)} UTC`);
}

// -- the parts of the page

function isInUse(part) {
  const active = document.activeElement;
  const writes = active && part.contains(active) && /^(INPUT|TEXTAREA|SELECT)$/.test(active.tagName);
  const selection = getSelection();
  return writes || (!selection.isCollapsed && part.contains(selection.anchorNode));
}

function rowOf(part, active) {
  const name = active?.closest("[data-row]")?.dataset.row;
  return name === undefined ? null : part.querySelector(`[data-row="${CSS.escape(name)}"]`);
}

function exchange(part, fresh) {
  const open = [...part.querySelectorAll("details")].map((one) => one.open);
  const active = part.contains(document.activeElement) ? document.activeElement : null;
  const [was, is] = [part, fresh].map((one) => rowOf(one, active) ?? one); // the focus stays with its row, wherever that moved
  const place = active ? [...was.querySelectorAll("a,button,summary")].indexOf(active) : -1;
  part.replaceWith(fresh);
  fresh.querySelectorAll("details").forEach((one, index) => { one.open = open[index] ?? false; });
  if (place >= 0 && (was === part) === (is === fresh)) is.querySelectorAll("a,button,summary")[place]?.focus({ preventScroll: true });
}

function takeOver(text) {
  const found = new DOMParser().parseFromString(text, "text/html");
  const next = new URL(found.body.dataset.stream, location.href);
  if (next.searchParams.get("log") !== address.searchParams.get("log")) {
    location.reload(); // another attempt began: its log begins too
    return;
  }
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = found.getElementById(part.id);
    if (!fresh || fresh.innerHTML === part.dataset.was || isInUse(part)) continue;
    if (fresh.textContent !== part.textContent) fresh.classList.add("changed");
    const was = fresh.innerHTML;
    exchange(part, document.adoptNode(fresh));
    document.getElementById(fresh.id).dataset.was = was;
  }
}

// -- when it changed

function changed() {
  if (timer !== null || document.hidden) return;
  timer = setTimeout(refresh, Math.max(0, fetchedAt + gap - Date.now()));
}

async function refresh() {
  timer = null;
  if (busy) return changed();
  busy = true;
  fetchedAt = Date.now();
  try {
    const answer = await fetch(location.href, { credentials: "same-origin" });
    if (answer.status === 403) return ended();
    if (answer.ok) {
      takeOver(await answer.text());
      upToDate();
    }
  } catch {
    lost(); // the stream tells when the daemon is back
  } finally {
    busy = false;
    gap = Math.max(GAP_MS, REST * (Date.now() - fetchedAt));
  }
}

// -- the log

function append(event) {
  const { text, offset } = JSON.parse(event.data);
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  log.append(text);
  if (log.textContent.length > MOST_OF_LOG) log.textContent = log.textContent.slice(-MOST_OF_LOG / 2);
  if (atEnd) log.scrollTop = log.scrollHeight;
  address.searchParams.set("offset", offset);
}

// -- the stream

function open() {
  if (stream !== null || document.hidden) return;
  stream = new EventSource(address);
  stream.onopen = () => {
    upToDate();
    if (wasLost) changed();
    wasLost = false;
  };
  stream.addEventListener("change", (event) => {
    if (event.lastEventId) address.searchParams.set("after", event.lastEventId);
    changed();
  });
  stream.addEventListener("ended", ended);
  if (log) stream.addEventListener("log", append);
  stream.onerror = interrupted;
}

function close() {
  stream?.close();
  stream = null;
}

function lost() {
  show("lost", "not live");
  say("The daemon does not answer. This page shows what was true when it did; it goes on by itself once the daemon is back.");
}

function ended() {
  close();
  show("lost", "ended");
  say("This browser's session has ended. To come in again, type in a terminal in the repository: corral web");
}

async function interrupted() {
  close(); // the next one begins where this one was, not where the page began
  wasLost = true;
  let pause = AGAIN_MS;
  try {
    const answer = await fetch("/live?probe=1", { credentials: "same-origin" });
    if (answer.status === 403) return ended();
    if (answer.status === 503) {
      show("lost", "not live");
      say(await answer.text());
      pause = FULL_MS;
    }
  } catch {
    lost();
  }
  setTimeout(open, pause);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    close(); // a browser has six connections for all pages of a host
  } else {
    open();
    changed();
  }
});

if (log) log.scrollTop = log.scrollHeight;
for (const part of document.querySelectorAll("[data-live]")) part.dataset.was = part.innerHTML;
open();
