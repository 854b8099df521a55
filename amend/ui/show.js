// What the page is made of. Stored text only ever becomes text: nothing is parsed as HTML.

import { clean, plural, sentence, time, why } from "./text.js";

const SIGNS = { fresh: "●", stale: "▲", unknown: "◆", missing: "○" };

export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function verdict(name) {
  return element("span", { class: `verdict ${SIGNS[name] ? name : "unknown"}` },
    element("span", { class: "sign", "aria-hidden": "true" }, SIGNS[name] ?? "◆"),
    name === "missing" ? "gone" : clean(name));
}

const FILES_SHOWN = 3;

/** A row of the table; `isOpen` and `toggled` belong to its details. */
export function entryRow(entry, isOpen, toggled) {
  const causes = entry.causes.map((cause) => element("li", {}, sentence(cause)));
  causes.push(...entry.drift.map((spec) =>
    element("li", { class: "drift" }, `${clean(spec)}: changed elsewhere than in the cited lines`)));
  const against = causes.length ? element("ul", { class: "causes" }, ...causes) : null;
  const button = element("button", {
    type: "button", class: "key", "aria-expanded": String(isOpen), onclick: toggled,
  }, clean(entry.key));
  return element("tr", { role: "row", class: `entry ${entry.verdict} ${isOpen ? "open" : ""}` },
    element("td", { role: "cell" }, verdict(entry.verdict)),
    element("td", { role: "cell" }, button, element("span", { class: "of-kind" }, entry.kind)),
    element("td", { role: "cell" }, element("p", { class: "summary" }, summary(entry)), against,
      isOpen ? origin(entry) : null),
    element("td", { role: "cell", class: "files" }, files(entry, isOpen)));
}

const summary = (entry) => clean(entry.summary || describe(entry.document) || "no summary");

function describe(contract) {
  const endpoint = contract?.endpoint;
  return endpoint ? `${endpoint.method ?? ""} ${endpoint.path ?? ""}`.trim() : "";
}

function files(entry, isOpen) {
  const against = new Set(entry.causes.map((cause) => cause.source));
  // What speaks against the entry is shown first, since the rest may be left out.
  const all = [...new Set(entry.files)].sort((a, b) => against.has(b) - against.has(a));
  const shown = isOpen ? all : all.slice(0, FILES_SHOWN);
  const list = shown.map((spec) =>
    element("li", { class: against.has(spec) ? "against" : "" }, element("code", {}, clean(spec))));
  if (shown.length < all.length) {
    list.push(element("li", { class: "quiet" }, `and ${all.length - shown.length} more`));
  }
  return all.length ? element("ul", {}, ...list) : element("span", { class: "quiet" }, "nothing");
}

function origin(entry) {
  const facts = [
    ["recorded", `${time(entry.recorded_at)} in ${clean(entry.recorded_in)}`],
    ["versions", plural(entry.versions, "version")],
    ["stands", entry.in_file ? "in the repository’s files" : "in amend’s store alone"],
  ];
  return element("dl", { class: "facts" }, ...facts.flatMap(([name, said]) =>
    [element("dt", {}, name), element("dd", {}, said)]));
}

export function changeItem(change, isNew) {
  return element("li", { class: isNew ? "new" : "" },
    element("time", { datetime: change.at }, time(change.at)),
    verdict(change.verdict),
    element("span", { class: "what" }, element("b", {}, clean(change.key)),
      element("span", { class: "of-kind" }, change.kind)),
    element("span", { class: "why" }, why(change)));
}

/** Indexes as one nested list; `open(path)` shows a note, `judged(path)` is its verdict if known. */
export function memoryTree(indexes, open, judged) {
  const byDirectory = new Map(indexes.map((file) => [directoryOf(file.path), file]));
  const tops = [...byDirectory.keys()].filter((path) => !byDirectory.has(directoryOf(path)));
  return element("ul", { class: "tree" }, ...tops.map((path) =>
    element("li", {}, branch(path, path, "", byDirectory, open, judged, 0))));
}

const directoryOf = (path) => path.slice(0, Math.max(0, path.lastIndexOf("/")));

// No tree of ours is deeper; a list that contains itself would otherwise never end.
const DEPTH_MAX = 16;

function branch(path, name, text, byDirectory, open, judged, depth) {
  const file = byDirectory.get(path);
  const items = [];
  for (const line of (depth < DEPTH_MAX && file ? file.text : "").split("\n")) {
    const found = /^\s*(dir|file):\s*([^|]+?)\s*(?:\|\s*(.*))?$/.exec(line);
    if (!found) continue;
    const [, what, child, said] = found;
    const below = `${path}/${child.replace(/\/$/, "")}`;
    items.push(element("li", {}, what === "dir"
      ? branch(below, child, said, byDirectory, open, judged, depth + 1)
      : leaf(below, child, said, open, judged)));
  }
  return element("details", { open: depth < 2 },
    element("summary", {}, element("b", {}, clean(name)), " ", element("span", {}, clean(text ?? ""))),
    items.length ? element("ul", {}, ...items) : element("p", { class: "quiet" }, "nothing in it"));
}

function leaf(path, name, text, open, judged) {
  const known = judged(path);
  return element("div", { class: "leaf" },
    element("button", { type: "button", onclick: () => open(path) }, clean(name)),
    known ? verdict(known) : null,
    element("span", {}, clean(text ?? "")));
}
