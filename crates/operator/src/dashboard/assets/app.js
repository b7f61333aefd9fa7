// The page: addresses, keys, colours, the connection.

import { Refused, follow, isSignedIn, read, setToken, takeToken } from "./api.js";
import { fill, h, tick } from "./dom.js";
import { ListView } from "./list.js";
import { ReleaseView } from "./release.js";

const main = document.getElementById("main");
const live = document.getElementById("live");
const keys = document.getElementById("keys");
const signOut = document.getElementById("sign-out");

let view = null;
/** Ends the stream of the view. */
let stream = null;
/** The topic of the stream, to keep it while only the shown part changes. */
let topic = null;
/** The address of the list that a release was opened from. */
let listAddress = "#/";

/** The address that is shown. */
let routed = null;

function go(address) {
  location.hash = address === "back" ? listAddress : address;
  route();
}

function route() {
  takeToken();
  routed = location.hash;
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const parameters = new URLSearchParams(query || "");
  const kind = path === "/release" ? ReleaseView : ListView;
  if (kind === ListView) listAddress = location.hash || "#/";
  const isSame = view instanceof kind && (kind === ListView || JSON.stringify(view.id) === JSON.stringify(new Id(parameters)));
  if (isSame) {
    view.show(parameters);
  } else {
    view?.end();
    view = new kind(main, parameters, go);
    if (document.activeElement === document.body) main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  connect();
}

function Id(parameters) {
  for (const name of ["kind", "namespace", "name"]) this[name] = parameters.get(name) || "";
}

function setLive(state, detail) {
  live.dataset.live = state;
  live.textContent = state;
  live.title = detail || "";
}

/** Follows what the view shows. */
function connect() {
  const wanted = JSON.stringify([view.path(), view.topic()]);
  if (wanted === topic && stream && !stream.signal.aborted) return;
  stream?.abort();
  topic = wanted;
  stream = new AbortController();
  const { signal } = stream;
  const shown = view;
  let polling = null;
  // All streams may be taken: then the page asks from time to time.
  const poll = async () => {
    try {
      const data = await read(shown.path(), shown.topic(), signal);
      if (live.dataset.live !== "live" && !signal.aborted) shown.event(shown.path() === "releases" ? "list" : "release", data);
    } catch (error) {
      if (error instanceof Refused && error.status === 404 && shown.path() === "release") shown.event("gone");
    }
  };
  signal.addEventListener("abort", () => clearInterval(polling));
  follow(shown.topic(), signal, {
    event: (name, data) => shown.event(name, data),
    refused: (error) => refused(error),
    state: (state, detail) => {
      setLive(state, detail);
      clearInterval(polling);
      polling = state === "live" ? null : setInterval(poll, 10000);
      if (state !== "live") poll();
    },
  });
  signOut.hidden = !isSignedIn();
}

function refused(error) {
  stream?.abort();
  topic = null;
  if (error.status === 400) {
    fill(main, h("p", { class: "notice" }, error.message, " ", h("a", { href: "#/" }, "All releases")));
    view = null;
    return;
  }
  setLive("signed out");
  view?.end();
  view = null;
  const input = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", "aria-label": "Token" });
  const send = (event) => {
    event.preventDefault();
    setToken(input.value.trim().replace(/^bearer\s+/i, ""));
    input.value = "";
    route();
  };
  fill(main, h("section", { class: "sheet sign-in" },
    h("h1", {}, error.status === 403 ? "This user may not read the dashboard" : "Sign in"),
    h("p", { class: "muted" }, error.message),
    h("form", { submit: send }, input, h("button", {}, "Sign in")),
    h("p", { class: "muted" }, "A token of a ServiceAccount comes from ", h("span", { class: "mono" }, "kubectl create token NAME"),
      ". It stays in this tab.")));
  input.focus();
}

signOut.addEventListener("click", () => {
  setToken(null);
  refused(new Refused(401, "You are signed out."));
  signOut.hidden = true;
});

// Colours.

const THEMES = ["auto", "light", "dark"];
const themeButton = document.getElementById("theme");

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  themeButton.textContent = theme;
  themeButton.setAttribute("aria-label", "Colours: " + theme);
  localStorage.setItem("chartwright-theme", theme);
}

function nextTheme() {
  setTheme(THEMES[(THEMES.indexOf(themeButton.textContent) + 1) % THEMES.length]);
}

const stored = localStorage.getItem("chartwright-theme");
setTheme(THEMES.includes(stored) ? stored : "auto");
themeButton.addEventListener("click", nextTheme);

// Keys.

function walk(step) {
  const stops = view?.stops() || [];
  if (stops.length === 0) return;
  const place = stops.indexOf(document.activeElement);
  const next = place < 0 ? (step > 0 ? 0 : stops.length - 1) : Math.min(stops.length - 1, Math.max(0, place + step));
  stops[next].focus();
  stops[next].scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
  const { target, key } = event;
  const isTyping = target instanceof HTMLInputElement || target instanceof HTMLSelectElement;
  if (isTyping) {
    if (key === "Escape") {
      target.blur();
    } else if (target.id === "search" && (key === "ArrowDown" || key === "Enter")) {
      event.preventDefault();
      walk(1);
    }
    return;
  }
  const isTab = target instanceof HTMLElement && target.getAttribute("role") === "tab";
  if (key === "j" || (key === "ArrowDown" && !isTab)) walk(1);
  else if (key === "k" || (key === "ArrowUp" && !isTab)) walk(-1);
  else if (key === "/") document.querySelector("main input[type=search]")?.focus();
  else if (key === "t") nextTheme();
  else if (key === "?") keys.showModal();
  else if (!view?.handle(key)) return;
  event.preventDefault();
});

document.getElementById("help").addEventListener("click", () => keys.showModal());
document.getElementById("skip").addEventListener("click", () => main.focus());

// A tab that is not looked at for a minute needs no stream.
let resting = null;
document.addEventListener("visibilitychange", () => {
  clearTimeout(resting);
  if (document.hidden) resting = setTimeout(() => { stream?.abort(); setLive("resting"); }, 60000);
  else if (view && stream?.signal.aborted) connect();
});

addEventListener("hashchange", () => {
  if (location.hash !== routed) route();
});
setInterval(tick, 10000);
route();
