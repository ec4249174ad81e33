"use strict";
// The page's view of the model: nodes, the tree of modules, and lines with their nodes.

const $ = (id) => document.getElementById(id);
const raw = JSON.parse($("data").textContent);
const text = (index) => raw.strings[index] ?? "";

const files = raw.files.map(([label, path, source, note, place], index) => ({ index, label, path, source, note, place }));
const frames = raw.frames.map(([file, fn, line, column, endLine, endColumn, kind], index) => ({
  index, file, fn: text(fn), line, column, endLine, endColumn, user: kind === 0, jax: kind === 2,
}));
const origins = raw.origins.map(([site, scope, rule, stack]) => ({
  site: frames[site], scope: text(scope), rule: text(rule),
  stack: raw.stacks[stack].map((frame) => frames[frame]),
}));

const nodes = raw.nodes.map(([name, op, scope, owner, inputs, outputs, from, attributes, median, ns], index) => ({
  index,
  name: text(name),
  op: text(op),
  scope: text(scope),
  owner,
  inputs: inputs.map(([node, value, type]) => ({ node, value: text(value), type: text(type) })),
  outputs: outputs.map(([value, type]) => ({ value: text(value), type: text(type) })),
  origins: from.map((origin) => origins[origin]),
  attributes: text(attributes),
  median: median ?? 0,
  mean: (ns ?? 0) / (raw.profile?.runs ?? 1),
  change: null,
  readers: [],
}));
for (const node of nodes) {
  const known = new Set(node.inputs.map((input) => input.node).filter((other) => other >= 0));
  for (const other of known) nodes[other].readers.push(node.index);
}

// The user's files, and lines of libraries whose text is on the page.
const ownFiles = new Set(frames.filter((frame) => frame.user).map((frame) => frame.file));
for (const { site } of origins) if (site) ownFiles.add(site.file);
const isOfLibrary = (frame) => !frame.user && !frame.jax && !ownFiles.has(frame.file) && files[frame.file].source !== null;

// Lines: the nodes that a line computes itself, and those computed in the functions it calls.
const lines = new Map();
const key = (file, line) => file * 1e7 + line;
function lineEntry(file, line) {
  const at = key(file, line);
  if (!lines.has(at)) lines.set(at, { file, line, own: new Set(), via: new Set(), median: 0, mean: 0, error: null, fn: "" });
  return lines.get(at);
}
for (const node of nodes) {
  for (const { site, stack } of node.origins) {
    if (site) {
      const last = Math.min(site.endLine, site.line + 40);
      for (let line = site.line; line <= last; line++) {
        const entry = lineEntry(site.file, line);
        entry.own.add(node.index);
        entry.fn ||= site.fn;
      }
    }
    // The innermost line of a library computes the node; the others call it.
    let inner = site?.user ? stack.find((frame) => isOfLibrary(frame)) : null;
    if (stack.indexOf(inner) > stack.indexOf(site)) inner = null;
    if (inner) {
      const entry = lineEntry(inner.file, inner.line);
      entry.own.add(node.index);
      entry.fn ||= inner.fn;
    }
    for (const frame of stack) {
      if (!(frame.user || isOfLibrary(frame)) || frame === site || frame === inner) continue;
      const entry = lineEntry(frame.file, frame.line);
      entry.via.add(node.index);
      entry.fn ||= frame.fn;
    }
  }
}
for (const [file, line, median, ns] of raw.profile?.lines ?? []) {
  Object.assign(lineEntry(file, line), { median, mean: ns / raw.profile.runs });
}
// Times of libraries are part of those of the user's lines.
for (const [path, median, ns] of raw.profile?.library ?? []) {
  const inner = path.find(([file]) => !ownFiles.has(file) && files[file].source !== null);
  if (!inner) continue;
  const entry = lineEntry(...inner);
  entry.median += median;
  entry.mean += ns / raw.profile.runs;
}
for (const [row, kind, details] of raw.against?.marks ?? []) nodes[row].change = { kind, details };

// The tree: modules by path, and nodes inside other nodes under their owner.
function branch(label, parent, base) {
  return { label, parent, base, items: [], modules: new Map(), count: 0, median: 0, mean: 0, changes: 0, open: false, node: null };
}
const root = branch("", null, "");
const owners = new Map();
function moduleOf(top, scope) {
  let rest = scope;
  if (top.base && (rest === top.base || rest.startsWith(top.base + "/"))) rest = rest.slice(top.base.length + 1);
  let at = top;
  for (const part of rest.split("/").filter(Boolean)) {
    if (!at.modules.has(part)) {
      const inner = branch(part, at, "");
      at.modules.set(part, inner);
      at.items.push(inner);
    }
    at = at.modules.get(part);
  }
  return at;
}
for (const node of nodes) {
  let top = root;
  if (node.owner >= 0) {
    if (!owners.has(node.owner)) {
      const owner = nodes[node.owner];
      const inner = branch(owner.op, owner.parent, owner.scope);
      inner.node = owner;
      owner.body = inner;
      owners.set(node.owner, inner);
    }
    top = owners.get(node.owner);
  }
  node.parent = moduleOf(top, node.scope);
  node.parent.items.push(node);
  for (let at = node.parent; at; at = at.parent) {
    at.count++;
    at.median += node.median;
    at.mean += node.mean;
    if (node.change) at.changes++;
  }
}
root.open = true;

const many = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
function duration(ns) {
  const us = ns / 1000;
  if (us >= 1e6) return (us / 1e6).toFixed(2) + " s";
  if (us >= 1e3) return (us / 1e3).toFixed(us >= 1e5 ? 0 : 2) + " ms";
  return us.toFixed(us >= 100 ? 0 : 1) + " µs";
}

// The text to search, one lower-case string per node, built on first use.
let haystack = null;
function searchable() {
  haystack ??= nodes.map((node) => {
    const places = node.origins.map((o) => o.site && `${files[o.site.file].label}:${o.site.line} ${o.site.fn} ${o.rule}`);
    // The results of other nodes belong to those nodes.
    const values = [...node.inputs.filter((input) => input.node < 0), ...node.outputs].map((value) => value.value);
    const types = node.outputs.map((output) => output.type);
    return [node.name, node.op, node.scope, ...types, ...places, ...values].join("\n").toLowerCase();
  });
  return haystack;
}

function element(tag, className, content) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (content !== undefined) made.textContent = content;
  return made;
}
function button(className, content, action) {
  const made = element("button", className, content);
  made.type = "button";
  if (action) made.addEventListener("click", action);
  return made;
}

// Ignores pointer events without movement: the list may scroll, or the layout change, under a resting pointer.
let pointer = [-1, -1];
function isMoved(event) {
  const moved = event.clientX !== pointer[0] || event.clientY !== pointer[1];
  pointer = [event.clientX, event.clientY];
  return moved;
}

/** One of several tabs: the arrow keys move between them, and only the chosen one is in the tab order. */
function setUpTabs(list, choose) {
  list.addEventListener("keydown", (event) => {
    const tabs = [...list.querySelectorAll('[role="tab"]')].filter((tab) => !tab.hidden);
    const at = tabs.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    const tab = tabs[(to + tabs.length) % tabs.length];
    choose(tab);
    tab.focus();
    event.preventDefault();
  });
  list.addEventListener("click", (event) => {
    const tab = event.target.closest('[role="tab"]');
    if (tab) choose(tab);
  });
}
function markTab(list, chosen) {
  for (const tab of list.querySelectorAll('[role="tab"]')) {
    tab.setAttribute("aria-selected", tab === chosen);
    tab.tabIndex = tab === chosen ? 0 : -1;
  }
  chosen?.scrollIntoView?.({ block: "nearest", inline: "nearest" });
}
