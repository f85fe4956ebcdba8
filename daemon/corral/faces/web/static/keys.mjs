// Single keys, the same as on the terminal screen. A key presses a button or follows a link that the page has; it can nothing beyond
// that, so an action that ends work asks on a page of its own, as it does when it is clicked. Without this script nothing is missing.

const OFF = "corral.keys.off"; // in this browser's storage
const PAGES = "12345";
const MOVES = { j: 1, k: -1 };

const help = document.getElementById("keys");
const main = document.getElementById("main");
let chosen = ""; // what the current row is about: rows move and are exchanged, this stays
let acted = false; // until the next page is here, a second key would act on what is no longer there

const isOff = () => localStorage.getItem(OFF) !== null;
const rows = () => [...main.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
const current = () => rows().find((row) => row.dataset.row === chosen);

function choose(row) {
  chosen = row?.dataset.row ?? "";
  mark();
}

function mark() {
  for (const row of main.querySelectorAll("[data-row]")) row.classList.toggle("current", row.dataset.row === chosen && !isOff());
}

// -- the keys

function move(by) {
  const all = rows();
  if (all.length === 0) return false;
  const at = all.indexOf(current());
  const row = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
  choose(row);
  row.querySelector("a")?.focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
  return true;
}

function target(key) {
  for (const part of [current(), main.querySelector(".title, .ask"), main]) {
    const found = part?.querySelector(`[data-key="${CSS.escape(key)}"]`);
    const isOfRow = part === main && found?.closest("[data-row]");
    if (found && !isOfRow) return found; // of a row only if it is the current one
  }
  return null;
}

function act(key) {
  const found = target(key);
  if (found === null) return false;
  if (found.matches("textarea, select, section")) {
    found.scrollIntoView({ block: "start" });
    (found.querySelector("[tabindex]") ?? found).focus({ preventScroll: true });
  } else {
    acted = true;
    found.click();
  }
  return true;
}

function go(key) {
  const link = document.querySelectorAll("nav[aria-label='Pages'] a")[PAGES.indexOf(key)];
  link?.click();
  return true;
}

function pressed(event) {
  const { key } = event;
  if (key in MOVES) return move(MOVES[key]);
  if (key === "Enter") return document.activeElement === document.body && open(current());
  if (event.repeat || acted) return false;
  return PAGES.includes(key) ? go(key) : act(key);
}

function open(row) {
  const link = row?.querySelector("a[data-open], a");
  link?.click();
  return Boolean(link);
}

function isTyping({ target: where }) {
  return where instanceof Element && where.closest("input, textarea, select, [contenteditable]") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
  if (event.key === "Escape" && isTyping(event)) document.activeElement.blur();
  if (isTyping(event) || help.open) return;
  if (event.key === "?" && !isOff()) {
    help.showModal();
    event.preventDefault();
  } else if (!isOff() && pressed(event)) {
    event.preventDefault();
  }
});

// -- the list of keys, and the way to turn them off: they are in the way of who speaks to the computer

const shows = document.getElementById("show-keys");
const turns = document.getElementById("turn-keys");

function settle() {
  turns.textContent = isOff() ? "Turn keys on" : "Turn keys off";
  document.body.classList.toggle("has-keys", !isOff());
  mark();
}

shows.hidden = false;
shows.addEventListener("click", () => help.showModal());
turns.addEventListener("click", () => {
  if (isOff()) localStorage.removeItem(OFF);
  else localStorage.setItem(OFF, "yes");
  settle();
});
addEventListener("pageshow", () => { acted = false; });
main.addEventListener("focusin", (event) => {
  const row = event.target.closest("[data-row]");
  if (row) choose(row);
});
new MutationObserver(mark).observe(main, { childList: true, subtree: true });
choose(main.querySelector("#needs [data-row]")); // the most urgent one, as on the screen
settle();
