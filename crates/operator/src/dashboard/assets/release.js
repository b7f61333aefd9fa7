// One release: what is wrong, and its views.

import { read } from "./api.js";
import { age, announce, fill, h, kindOf, mark, nameOf, stateWord } from "./dom.js";
import { releaseHash } from "./list.js";
import { changes, drift, history, notes, timeline, tree, values } from "./views.js";

/** Name, title and elements of each view. */
const VIEWS = [
  ["tree", "Tree", (view) => tree(view.release, view.open)],
  ["timeline", "Time line", (view) => timeline(view.release)],
  ["history", "History", (view) => history(view.release)],
  ["drift", "Drift", (view) => drift(view.release)],
  ["values", "Values", (view) => values(view.values)],
  ["changes", "Changes", (view) => changes(view.changes, () => view.readChanges())],
  ["notes", "Notes", (view) => notes(view.release)],
];

export class ReleaseView {
  constructor(main, parameters, go) {
    this.go = go;
    this.open = new Map();
    this.values = { rows: null, error: null, filter: "" };
    this.changes = { found: null, error: null, reading: false };
    this.stop = new AbortController();
    this.id = { kind: parameters.get("kind") || "", namespace: parameters.get("namespace") || "", name: parameters.get("name") || "" };
    this.head = h("div", {}, h("h1", {}, this.id.name));
    this.notices = h("div", {});
    this.causes = h("section", { class: "sheet causes", "aria-label": "What is wrong", hidden: true });
    this.tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Views" });
    this.panel = h("section", { role: "tabpanel", id: "panel", tabindex: "0" }, h("p", { class: "empty" }, "Reading the release"));
    fill(main,
      h("nav", { class: "crumbs", "aria-label": "Place" }, h("a", { href: "#/" }, "Releases"), " / ",
        this.id.namespace && [h("a", { href: "#/?" + new URLSearchParams({ namespace: this.id.namespace }) }, this.id.namespace), " / "],
        this.id.kind),
      this.head, this.notices, this.causes, this.tabs, this.panel);
    this.show(parameters);
  }

  /** Takes the parameters of the address. */
  show(parameters) {
    const wanted = parameters.get("view");
    this.view = VIEWS.some(([name]) => name === wanted) ? wanted : "tree";
    if (this.view === "values" && !this.values.rows) this.readValues();
    if (this.view === "changes" && !this.changes.found) this.readChanges();
    this.showTabs();
    if (this.release) this.showPanel();
  }

  topic() {
    return this.id;
  }

  path() {
    return "release";
  }

  end() {
    this.stop.abort();
  }

  event(name, data) {
    if (name === "gone") {
      this.release = null;
      announce(`${this.id.name} no longer exists`);
      fill(this.notices, h("p", { class: "notice", role: "status", id: "gone" }, "This release no longer exists. ", h("a", { href: "#/" }, "All releases")));
      this.causes.hidden = true;
      fill(this.head, h("h1", {}, this.id.name));
      fill(this.panel);
      return;
    }
    if (name === "problem") {
      fill(this.notices, h("p", { class: "notice" }, "Not read: ", data.error));
      return;
    }
    if (name !== "release") return;
    const before = this.release;
    this.release = data;
    if (before && before.state !== data.state) announce(`${data.name} is ${data.state}`);
    if (before && before.revision !== data.revision) this.values.rows = null;
    document.title = `${data.name} (${data.state}) - Chartwright`;
    fill(this.notices, (data.unread || []).map((unread) =>
      h("p", { class: "notice" }, "Not read: ", kindOf(unread), unread.namespace && ` in ${unread.namespace}`, ": ", unread.message)));
    this.showHead(data);
    this.showCauses(data);
    if (this.view === "values" && !this.values.rows) this.readValues();
    // Values and changes do not come with the event, and a person may be typing or reading there.
    if (!["values", "changes"].includes(this.view) || !before) this.showPanel();
  }

  showHead(data) {
    const fact = (title, value) => value && h("div", {}, h("dt", {}, title), h("dd", {}, value));
    fill(this.head,
      h("div", { class: "title" }, h("h1", {}, data.name), stateWord(data.state), data.state !== "ready" && data.reason.toLowerCase() !== data.state && h("span", { class: "muted" }, data.reason),
        data.since && h("span", { class: "muted" }, "for ", age(data.since))),
      h("dl", { class: "facts" },
        fact("Chart", [data.chart, data.version].filter(Boolean).join(" ")),
        fact("Revision", data.revision > 0 && String(data.revision)),
        fact("Age", data.created && age(data.created)),
        fact("Rollout", data.rollout && [data.rollout.state, " for ", age(data.rollout.since)]),
        fact("Next", [data.next.message, data.next.at && [" (", age(data.next.at), ")"]])));
  }

  showCauses(data) {
    this.causes.hidden = data.causes.length === 0;
    fill(this.causes, data.causes.map((cause) => {
      const name = (id) => id && `${id.kind} ${nameOf(id, data.namespace)}`;
      const about = [name(cause.member), name(cause.object)].filter(Boolean).join(", ");
      return h("div", { class: "cause" }, mark(data.state === "ready" ? "Degraded" : "Failed"),
        h("div", {}, about && h("div", { class: "about" }, about), h("div", { class: "words" }, withPlaces(cause.message))),
        (cause.origin || cause.since) && h("div", { class: "more" }, cause.origin && ["from ", h("span", { class: "place" }, cause.origin), " "],
          cause.since && ["for ", age(cause.since)]),
        (cause.commands || []).map((command) => h("div", { class: "more command" }, h("code", {}, command), copyButton(command))));
    }));
  }

  showTabs() {
    const focused = this.tabs.contains(document.activeElement);
    fill(this.tabs, VIEWS.map(([name, title]) => h("button", { type: "button", role: "tab", id: "tab-" + name, "aria-controls": "panel",
      "aria-selected": String(name === this.view), tabindex: name === this.view ? "0" : "-1", click: () => this.select(name),
      keydown: (event) => this.tabKey(event) }, title)));
    this.panel.setAttribute("aria-labelledby", "tab-" + this.view);
    if (focused) document.getElementById("tab-" + this.view).focus();
  }

  tabKey(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const place = VIEWS.findIndex(([name]) => name === this.view);
    this.select(VIEWS[(place + step + VIEWS.length) % VIEWS.length][0]);
  }

  select(name) {
    this.go(releaseHash(this.id, name === "tree" ? "" : name));
  }

  showPanel() {
    const focused = this.panel.contains(document.activeElement) ? document.activeElement.dataset.node : null;
    const [, , build] = VIEWS.find(([name]) => name === this.view);
    fill(this.panel, build(this));
    if (focused) [...this.panel.querySelectorAll("[data-node]")].find((node) => node.dataset.node === focused)?.focus();
  }

  async readValues() {
    if (this.reading) return;
    this.reading = true;
    this.values.error = null;
    try {
      this.values.rows = await read("values", this.id, this.stop.signal);
    } catch (error) {
      this.values.error = error.message;
    }
    this.reading = false;
    if (this.view === "values" && this.release && !this.stop.signal.aborted) this.showPanel();
  }

  /** Previews the next reconcile. It costs dry runs, so only a person starts it. */
  async readChanges() {
    if (this.changes.reading) return;
    this.changes = { found: null, error: null, reading: true };
    if (this.view === "changes" && this.release) this.showPanel();
    try {
      this.changes.found = await read("changes", this.id, this.stop.signal);
    } catch (error) {
      this.changes.error = error.message;
    }
    this.changes.reading = false;
    if (this.view === "changes" && this.release && !this.stop.signal.aborted) this.showPanel();
  }

  handle(key) {
    const number = Number(key);
    if (number >= 1 && number <= VIEWS.length) this.select(VIEWS[number - 1][0]);
    else if (key === "Escape") this.go("back");
    else return false;
    return true;
  }

  /** What j and k walk through. */
  stops() {
    const isShown = (node) => !node.parentElement.closest("details:not([open]) > ul");
    return [...this.panel.querySelectorAll("[data-node]")].filter(isShown);
  }
}

/** A message in which places such as `templates/a.yaml:3` stand out. */
function withPlaces(text) {
  return text.split(/((?:[\w.-]+\/)+[\w.-]+\.(?:ya?ml|tpl|txt|hbs|json)(?::\d+)+)/).map((part, index) =>
    index % 2 === 1 ? h("span", { class: "place" }, part) : part);
}

function copyButton(text) {
  if (!navigator.clipboard) return null;
  const button = h("button", { type: "button", "aria-label": "Copy: " + text, click: async () => {
    await navigator.clipboard.writeText(text);
    fill(button, "copied");
    setTimeout(() => fill(button, "copy"), 1500);
  } }, "copy");
  return button;
}
