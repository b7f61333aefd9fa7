// The views of one release. Each gets what was read of the release, and returns elements.

import { age, fill, h, kindOf, mark, nameOf, short, stateWord } from "./dom.js";

/** The health of an object in words. Other words are phases of hooks. */
const HEALTH = { Current: "ok", InProgress: "in progress", Failed: "failed", Missing: "missing", Terminating: "terminating", Degraded: "degraded", Unknown: "not read" };
const keyOf = (id) => [kindOf(id), id.namespace, id.name].join("/");
const isHealthy = (node) => ["Current", "Succeeded"].includes(node.health) && (node.children || []).every(isHealthy);

/** Members by wave, with what they own. `open`: nodes that a person opened or closed. */
export function tree(release, open) {
  if (release.waves.length === 0 && release.hooks.length === 0) return h("p", { class: "empty" }, "Nothing is applied yet.");
  const several = release.waves.length > 1;
  const waves = release.waves.map((wave) => [
    several && h("h3", {}, `Wave ${wave.wave}`),
    h("ul", { class: "sheet tree" }, wave.members.map((member) => treeNode(member, release.namespace, open, ""))),
  ]);
  const hook = (run) => treeNode({ ...run, health: run.phase, title: run.event }, release.namespace, open, run.event);
  return [waves, release.hooks.length > 0 && [h("h3", {}, "Hooks"), h("ul", { class: "sheet tree" }, release.hooks.map(hook))]];
}

function treeNode(node, namespace, open, above) {
  const key = above + ">" + keyOf(node);
  const words = [
    mark(node.health),
    node.title && h("span", { class: "health" }, node.title),
    h("span", { class: "kind", title: kindOf(node) }, node.kind),
    h("span", { class: "name" }, nameOf(node, namespace)),
    h("span", { class: "health" }, HEALTH[node.health] || node.health),
    node.message && h("span", { class: "words" }, node.message),
  ];
  const children = node.children || [];
  if (children.length === 0) return h("li", { class: "node", tabindex: "-1", "data-node": key }, words);
  const isOpen = open.has(key) ? open.get(key) : !isHealthy(node);
  const more = node.more > 0 && h("li", { class: "node muted" }, `and ${node.more} more`);
  const details = h("details", { open: isOpen, toggle: (event) => event.target === details && open.set(key, details.open) },
    h("summary", { class: "node", "data-node": key }, words),
    h("ul", {}, children.map((child) => treeNode(child, namespace, open, key)), more));
  return h("li", {}, details);
}

/** Hooks, plans and revisions, the newest first. */
export function timeline(release) {
  const plans = release.plans.length > 0 && [
    h("h3", {}, "Plans"),
    table("Plans", ["Plan", "Schedule", "Next run", "Last run", ""], release.plans.map((plan) => [
      plan.name, [plan.schedule, plan.timeZone].filter(Boolean).join(" ") || "on request", plan.next ? age(plan.next) : "-",
      plan.phase ? stateWord(plan.phase) : "-", plan.message,
    ])),
  ];
  if (release.timeline.length === 0) return [plans, h("p", { class: "empty" }, "No hook and no plan has run, and nothing is applied yet.")];
  const took = (span) => (Date.parse(span.ended) || Date.now()) - Date.parse(span.started);
  const longest = Math.max(1, ...release.timeline.filter((span) => span.started && span.lane !== "revision").map(took));
  let day = null;
  const items = [];
  let list = null;
  for (const span of release.timeline) {
    const title = span.started ? new Date(span.started).toLocaleDateString(undefined, { dateStyle: "medium" }) : "Waiting";
    if (title !== day) {
      day = title;
      list = h("ol", { class: "sheet" });
      items.push(h("h3", {}, title), list);
    }
    const bar = span.started && span.lane !== "revision" && h("span", { class: "bar", "data-phase": span.phase });
    if (bar) bar.style.width = Math.max(2, (took(span) / longest) * 70) + "px";
    list.append(h("li", { class: "span" },
      h("span", { class: "muted" }, span.started ? new Date(span.started).toLocaleTimeString(undefined, { timeStyle: "medium", hourCycle: "h23" }) : "-"),
      stateWord(span.phase),
      h("span", { class: "what" }, h("span", { class: "muted" }, span.lane === "revision" ? "" : span.lane + " "), h("b", {}, span.title), " ", span.subject),
      h("span", { class: "took" }, bar && [bar, short(took(span) / 1000)]),
      span.message && h("span", { class: "words" }, span.message)));
  }
  return [plans, items];
}

/** Revisions, the newest first. */
export function history(release) {
  if (release.history.length === 0) return h("p", { class: "empty" }, "No revision is listed.");
  return table("Revisions", ["Revision", "State", "Applied", "Chart", "App version", "Generation", ""], release.history.map((row) => [
    row.revision, stateWord(row.status), row.deployed ? age(row.deployed) : "-", `${row.chart} ${row.version}`, row.appVersion || "-", row.generation,
    row.failed || (row.rollbackTo && `rollback to ${row.rollbackTo}`) || (row.kept && "kept: a rollback can run it") || "",
  ]));
}

export function drift(release) {
  if (release.drift.length === 0) return h("p", { class: "empty" }, "No drift is reported.");
  return table("Drift", ["Reason", "Since", "Members and field managers"], release.drift.map((row) => [row.reason, age(row.since), row.message]));
}

export function notes(release) {
  if (!release.notes) return h("p", { class: "empty" }, "The chart has no notes.");
  return h("div", { class: "sheet" }, h("pre", {}, release.notes));
}

/** Effective values. `state`: `{ rows, error, filter }`, which the caller fills. */
export function values(state) {
  if (state.error) return h("p", { class: "notice" }, state.error);
  if (!state.rows) return h("p", { class: "empty" }, "Reading the values");
  const body = h("tbody", {});
  const show = () => {
    const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = state.rows.filter((row) => {
      const text = (row.path + "\n" + row.origin + "\n" + (row.secret ? "" : JSON.stringify(row.value))).toLowerCase();
      return words.every((word) => text.includes(word));
    });
    fill(body, rows.map((row) => h("tr", {}, h("td", {}, row.path),
      h("td", {}, row.secret ? h("span", { class: "masked" }, "masked") : JSON.stringify(row.value)), h("td", {}, row.origin))));
  };
  show();
  return [
    h("div", { class: "tools" }, h("input", { type: "search", "aria-label": "Search values", placeholder: "Search path, value, source",
      value: state.filter, input: (event) => { state.filter = event.target.value; show(); } })),
    h("div", { class: "sheet" }, h("table", { class: "values" }, h("caption", { class: "unseen" }, "Effective values"),
      h("thead", {}, h("tr", {}, ["Path", "Value", "Source"].map((title) => h("th", { scope: "col" }, title)))), body)),
  ];
}

/** What the next reconcile would do. `state`: `{ found, error, reading }`. `again`: previews once more. */
export function changes(state, again) {
  if (state.reading) return h("p", { class: "empty" }, "Previewing the next reconcile");
  const button = h("div", { class: "tools" }, h("button", { type: "button", id: "again", click: again }, "Preview again"));
  if (state.error) return [button, h("p", { class: "notice" }, state.error)];
  if (!state.found) return button;
  const { summary, changes: objects, hooks, plans, held, refusals, notes: words } = state.found;
  const counts = ["created", "changed", "recreated", "pruned", "released", "held", "refused"].filter((word) => summary[word] > 0);
  const list = (title, items) => items.length > 0 && [h("h3", {}, title), h("ul", { class: "sheet tree" }, items.map((item) => h("li", { class: "node" }, item)))];
  const runs = (all) => all.flatMap((run) => run.objects.map((id) => [h("span", { class: "health" }, run.name), " ", titleOf(id)]));
  const isEmpty = counts.length === 0 && hooks.length === 0 && plans.length === 0;
  return [
    button,
    h("p", { id: "announced" }, isEmpty ? "The next reconcile would change nothing." : counts.map((word) => `${summary[word]} ${word}`).join(", ")),
    list("Refused", refusals.map((refusal) => [mark("Failed"), refusal.object && [titleOf(refusal.object), " "], h("span", { class: "words" }, `${refusal.reason}: ${refusal.message}`)])),
    list("Pods restart", summary.restarts.map(titleOf)),
    list("Hooks", runs(hooks)),
    list("Plans", runs(plans)),
    list("Held", held),
    list("Notes", words),
    objects.length > 0 && h("h3", {}, "Objects"),
    objects.map((object) => h("details", { class: "sheet", open: objects.length < 6 },
      h("summary", { class: "node", "data-node": keyOf(object) }, h("span", { class: "health" }, object.operation), titleOf(object),
        object.restarts && h("span", { class: "words" }, "pods restart")),
      object.diff ? h("pre", { class: "diff" }, object.diff.split("\n").map(diffLine)) : h("p", { class: "empty" }, "Only the operator's own labels and annotations change."))),
  ];
}

function titleOf(id) {
  return h("span", { class: "name" }, `${kindOf(id)} ${id.namespace ? id.namespace + "/" : ""}${id.name}`);
}

function diffLine(line) {
  const kind = { "+": "added", "-": "removed", "@": "muted" }[line[0]];
  return h("span", kind ? { class: kind } : {}, line + "\n");
}

function table(caption, titles, rows) {
  return h("div", { class: "sheet" }, h("table", {}, h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell)))))));
}
