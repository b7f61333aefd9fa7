// All releases: search, filters, pages.

import { age, announce, fill, h, kindOf, mark, stateWord } from "./dom.js";

const STATES = ["stalled", "failing", "deleting", "progressing", "unknown", "suspended", "ready"];
const COLUMNS = [
  ["state", "State", "of-state"], ["name", "Name", "name"], ["namespace", "Namespace", ""], ["kind", "Kind", ""], ["chart", "Chart", ""],
  [null, "Rev.", "number revision"], ["age", "Age", "number"], [null, "Why", "why"],
];
const FILTERS = ["q", "kind", "namespace", "state", "order", "offset"];

export function releaseHash(row, view) {
  const parameters = { kind: kindOf(row), namespace: row.namespace, name: row.name };
  if (view) parameters.view = view;
  return "#/release?" + new URLSearchParams(parameters);
}

/** The view of the list. `go(parameters)` changes the address, which renders again. */
export class ListView {
  constructor(main, parameters, go) {
    this.go = go;
    this.rows = new Map();
    this.query = {};
    this.search = h("input", { type: "search", id: "search", placeholder: "Search name, chart, reason, message", "aria-label": "Search releases",
      autocomplete: "off", spellcheck: "false", input: () => this.typed() });
    this.kinds = this.select("kind", "All kinds");
    this.namespaces = this.select("namespace", "All namespaces");
    this.notices = h("div", {});
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "States" });
    this.body = h("tbody", {});
    this.heads = COLUMNS.map(([order, title, kind]) => h("th", { scope: "col", class: kind },
      order ? h("button", { type: "button", click: () => this.change({ order }) }, title) : title));
    this.empty = h("div", { class: "empty" }, "Loading");
    this.foot = h("div", { class: "foot" });
    fill(main,
      h("h1", { class: "unseen" }, "Releases"),
      h("div", { class: "tools", role: "search" }, this.search, this.kinds, this.namespaces),
      this.chips, this.notices,
      h("div", { class: "sheet" },
        h("table", { class: "list" }, h("caption", { class: "unseen" }, "Releases"), h("thead", {}, h("tr", {}, this.heads)), this.body),
        this.empty),
      h("nav", { "aria-label": "Pages" }, this.foot));
    this.show(parameters);
  }

  select(name, all) {
    return h("select", { "aria-label": all, "data-all": all, change: (event) => this.change({ [name]: event.target.value }) },
      h("option", { value: "" }, all));
  }

  /** Takes the parameters of the address. */
  show(parameters) {
    this.query = {};
    for (const name of FILTERS) if (parameters.get(name)) this.query[name] = parameters.get(name);
    if (document.activeElement !== this.search) this.search.value = this.query.q || "";
    const order = this.query.order || "state";
    COLUMNS.forEach(([name], index) => {
      if (name === order) this.heads[index].setAttribute("aria-sort", name === "age" ? "descending" : "ascending");
      else this.heads[index].removeAttribute("aria-sort");
    });
  }

  topic() {
    return this.query;
  }

  path() {
    return "releases";
  }

  change(parameters) {
    const next = { ...this.query, ...parameters };
    if (!("offset" in parameters)) delete next.offset;
    this.go("#/?" + new URLSearchParams(Object.entries(next).filter(([, value]) => value !== "" && value !== 0)));
  }

  typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.change({ q: this.search.value.trim() }), 150);
  }

  end() {
    clearTimeout(this.timer);
  }

  event(name, page) {
    if (name !== "list") return;
    this.page = page;
    document.title = "Releases - Chartwright";
    document.getElementById("heading").textContent = page.heading;
    fill(this.notices, page.problems.map((problem) => h("p", { class: "notice" }, "Not listed: ", problem)),
      page.isFull && h("p", { class: "notice" }, "There are more releases than this page keeps. Filters do not find the others."));
    this.options(this.kinds, page.kinds, this.query.kind);
    this.options(this.namespaces, page.namespaces, this.query.namespace);
    this.showChips(page);
    this.showRows(page);
    this.showFoot(page);
  }

  options(select, counts, chosen) {
    const wanted = JSON.stringify([counts, chosen]);
    if (select.dataset.shown === wanted || document.activeElement === select) return;
    select.dataset.shown = wanted;
    const names = Object.keys(counts);
    if (chosen && !names.includes(chosen)) names.push(chosen);
    fill(select, h("option", { value: "" }, select.dataset.all),
      names.map((name) => h("option", { value: name, selected: name === chosen }, `${name} (${counts[name] || 0})`)));
  }

  showChips(page) {
    const chosen = (this.query.state || "").split(",").filter(Boolean);
    const toggle = (state) => {
      const next = chosen.includes(state) ? chosen.filter((one) => one !== state) : [...chosen, state];
      this.change({ state: next.join(",") });
    };
    const focused = this.chips.contains(document.activeElement) ? document.activeElement.dataset.state : null;
    fill(this.chips, STATES.filter((state) => page.states[state] || chosen.includes(state)).map((state) =>
      h("button", { type: "button", "data-state": state, "aria-pressed": String(chosen.includes(state)), click: () => toggle(state) },
        mark(state), state, h("span", { class: "count" }, page.states[state] || 0))));
    if (focused) this.chips.querySelector(`[data-state="${focused}"]`)?.focus();
  }

  showRows(page) {
    const before = this.rows;
    this.rows = new Map();
    const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
    const lines = page.items.map((row) => {
      const key = releaseHash(row);
      const text = JSON.stringify(row);
      const known = before.get(key);
      if (known && known.text === text) {
        this.rows.set(key, known);
        return known.line;
      }
      if (known && known.row.state !== row.state) announce(`${row.name} is ${row.state}`);
      const line = this.line(row, key);
      this.rows.set(key, { text, line, row });
      return line;
    });
    const key = focused?.getAttribute("href");
    this.body.replaceChildren(...lines);
    if (key) (this.rows.get(key)?.line.querySelector("a") || this.body.querySelector("a"))?.focus();
    this.empty.hidden = page.items.length > 0;
    fill(this.empty, page.loading ? "Reading the releases" : page.total === 0 ? "There are no releases." : "No release matches.");
  }

  line(row, key) {
    return h("tr", {},
      h("td", { class: "of-state" }, stateWord(row.state)),
      h("td", { class: "name" }, h("a", { href: key }, row.name)),
      h("td", {}, row.namespace || "-"),
      h("td", { title: kindOf(row) }, row.kind),
      h("td", {}, [row.chart, row.version].filter(Boolean).join(" ") || "-"),
      h("td", { class: "number revision" }, row.revision),
      h("td", { class: "number" }, age(row.created)),
      h("td", { class: "why" }, row.state !== "ready" && [h("b", {}, row.reason), row.message && ": ", row.message]));
  }

  showFoot(page) {
    const last = Math.min(page.offset + page.items.length, page.matched);
    const range = page.matched === 0 ? "0" : `${page.items.length ? page.offset + 1 : 0}-${last}`;
    fill(this.foot,
      h("span", { id: "range" }, `${range} of ${page.matched}`, page.matched !== page.total && ` (${page.total} in all)`),
      h("span", { class: "space" }),
      h("button", { type: "button", id: "previous", disabled: page.offset === 0, click: () => this.turn(-1) }, "Previous"),
      h("button", { type: "button", id: "next", disabled: page.offset + page.limit >= page.matched, click: () => this.turn(1) }, "Next"));
  }

  turn(direction) {
    const page = this.page;
    if (!page) return;
    const offset = Math.max(0, page.offset + direction * page.limit);
    if (offset !== page.offset && offset < page.matched) this.change({ offset });
  }

  handle(key) {
    if (key === "n") this.turn(1);
    else if (key === "p") this.turn(-1);
    else if (key === "Escape" && Object.keys(this.query).length > 0) this.go("#/");
    else return false;
    return true;
  }

  /** What j and k walk through. */
  stops() {
    return [...this.body.querySelectorAll("a")];
  }
}
