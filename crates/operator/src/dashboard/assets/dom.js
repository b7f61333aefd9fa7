// Builds elements. Text of the cluster only ever becomes a text node.

/** Makes an element. Attributes: functions are listeners, `false` and `null` are left out. Strings become text nodes. */
export function h(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(printable(String(child))));
  }
}

/** Shows characters that change the direction of the text or are invisible. */
function printable(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (found) =>
    "\\u" + found.charCodeAt(0).toString(16).padStart(4, "0"));
}

/** The kind of an object with its group, as addresses and filters have it. */
export const kindOf = (id) => (id.group ? `${id.kind}.${id.group}` : id.kind);

/** The name of an object, with its namespace if that is not `namespace`. */
export const nameOf = (id, namespace) => (id.namespace && id.namespace !== namespace ? `${id.namespace}/${id.name}` : id.name);

export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

const MARKS = {
  ready: "good", progressing: "moving", failing: "bad", stalled: "stopped", suspended: "paused", deleting: "leaving", unknown: "unknown",
  Current: "good", InProgress: "moving", Failed: "bad", Missing: "stopped", Degraded: "warn", Terminating: "leaving", Unknown: "unknown",
  Succeeded: "good", Running: "moving", Waiting: "paused", GivenUp: "stopped",
  deployed: "good", superseded: "leaving", pending: "moving", failed: "bad",
};

/** The shape of a state. The word beside it says the same. */
export function mark(state) {
  return h("span", { class: "mark", "data-mark": MARKS[state] || "unknown", "aria-hidden": "true" });
}

export function stateWord(state) {
  return h("span", { class: "state" }, mark(state), state);
}

/** Seconds in the short form of kubectl. */
export function short(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 120) return s + "s";
  if (s < 7200) return Math.floor(s / 60) + "m";
  if (s < 172800) return Math.floor(s / 3600) + "h";
  return Math.floor(s / 86400) + "d";
}

/** An age that `tick` keeps current. */
export function age(text) {
  const at = Date.parse(text);
  if (Number.isNaN(at)) return h("span", {}, "-");
  const element = h("time", { datetime: text, title: new Date(at).toLocaleString() });
  showAge(element);
  return element;
}

function showAge(element) {
  const seconds = (Date.now() - Date.parse(element.dateTime)) / 1000;
  element.textContent = seconds < 0 ? "in " + short(-seconds) : short(seconds);
}

export function tick() {
  document.querySelectorAll("time[datetime]").forEach(showAge);
}

export function announce(text) {
  document.getElementById("announcer").textContent = printable(text);
}
