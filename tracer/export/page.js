"use strict";
const svg = document.querySelector("svg");
const nodes = [...document.querySelectorAll(".node")];
const arrows = [...document.querySelectorAll("path.arrow")];
const lines = [...document.querySelectorAll(".line.used")];
const byKey = new Map(nodes.map((n) => [n.dataset.key, n]));
const into = new Map(), outOf = new Map();
for (const a of arrows) {
  for (const [map, key] of [[into, a.dataset.head], [outOf, a.dataset.tail]]) map.set(key, [...(map.get(key) || []), a]);
}

// Moving and zooming: the view box is the window onto the drawing.
const whole = svg.viewBox.baseVal;
const all = { x: whole.x, y: whole.y, width: whole.width, height: whole.height };
let view = { ...all };
function look(next) {
  view = next;
  svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
}
function window_at(scale) {
  const box = svg.getBoundingClientRect();
  return { width: box.width / scale, height: box.height / scale };
}
function fit(smallest) {
  const box = svg.getBoundingClientRect();
  const scale = Math.max(smallest, Math.min(1.15, box.width / all.width, box.height / all.height));
  const size = window_at(scale);
  look({ ...size, x: all.x + all.width / 2 - size.width / 2, y: size.height > all.height ? all.y + (all.height - size.height) / 2 : all.y });
}
function zoom(factor, px = 0.5, py = 0.5) {
  const width = Math.min(Math.max(view.width / factor, 120), 8 * Math.max(all.width, all.height));
  const height = (view.height * width) / view.width;
  look({ x: view.x + (view.width - width) * px, y: view.y + (view.height - height) * py, width, height });
}
svg.addEventListener("wheel", (event) => {
  event.preventDefault();
  const box = svg.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY / 400), (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
}, { passive: false });
let grip = null;
svg.addEventListener("pointerdown", (event) => { grip = { x: event.clientX, y: event.clientY, view, moved: false }; });
window.addEventListener("pointermove", (event) => {
  if (!grip) return;
  const dx = event.clientX - grip.x, dy = event.clientY - grip.y;
  if (Math.hypot(dx, dy) > 4) grip.moved = true;
  const scale = grip.view.width / svg.getBoundingClientRect().width;
  if (grip.moved) look({ ...grip.view, x: grip.view.x - dx * scale, y: grip.view.y - dy * scale });
});
window.addEventListener("pointerup", (event) => {
  const moved = grip && grip.moved;
  const inside = grip !== null;
  grip = null;
  if (inside && !moved && !event.target.closest(".node")) choose(null);
});
for (const button of document.querySelectorAll("[data-zoom]")) {
  button.addEventListener("click", () => (button.dataset.zoom === "fit" ? fit(0) : zoom(Number(button.dataset.zoom))));
}
function bring(node) {
  const box = node.getBBox();
  const x = box.x + box.width / 2, y = box.y + box.height / 2;
  const outside = box.x < view.x || box.y < view.y || box.x + box.width > view.x + view.width || box.y + box.height > view.y + view.height;
  if (outside) look({ ...view, x: x - view.width / 2, y: y - view.height / 2 });
}

// Choosing: a box with all it depends on and all that depends on it; a line with its boxes.
function reach(start, map, end) {
  const found = new Set(start), open = [...start], used = new Set();
  while (open.length) {
    for (const a of map.get(open.pop()) || []) {
      used.add(a);
      if (!found.has(a.dataset[end])) { found.add(a.dataset[end]); open.push(a.dataset[end]); }
    }
  }
  return [found, used];
}
function show(keys, edges) {
  svg.classList.toggle("some", keys !== null);
  for (const n of nodes) n.classList.toggle("shown", keys !== null && keys.has(n.dataset.key));
  for (const a of arrows) a.classList.toggle("shown", keys !== null && edges.has(a));
}
function light(chosen) {
  for (const line of lines) {
    const of = (n) => line.dataset.key ? n.dataset.key === line.dataset.key
      : n.dataset.file === line.dataset.file && n.dataset.line === line.dataset.line;
    line.classList.toggle("lit", chosen.some(of));
  }
  for (const n of nodes) n.classList.toggle("chosen", chosen.includes(n));
}
const hint = document.querySelector("#detail").innerHTML;
let current = null;
function choose(node) {
  current = node;
  for (const c of document.querySelectorAll(".chip")) c.setAttribute("aria-pressed", "false");
  light(node ? [node] : []);
  if (!node) { show(null); document.querySelector("#detail").innerHTML = hint; return; }
  const [up, before] = reach([node.dataset.key], into, "tail");
  const [down, after] = reach([node.dataset.key], outOf, "head");
  show(new Set([...up, ...down]), new Set([...before, ...after]));
  describe(node);
  bring(node);
  for (const line of document.querySelectorAll(".line.lit")) scroll_to(line);
}
function scroll_to(line) {
  const pane = line.closest("aside > section, pre");
  const a = line.getBoundingClientRect(), b = pane.getBoundingClientRect();
  if (a.top < b.top || a.bottom > b.bottom) pane.scrollTop += a.top - b.top - b.height / 2;
}
function element(tag, text, ...children) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}
function links(edges, end) {
  return edges.map((a) => {
    const target = byKey.get(a.dataset[end]);
    const value = a.querySelector("title").textContent, title = target.dataset.title;
    const button = element("button", end === "head" || value === title ? title : `${value} (${title})`);
    button.addEventListener("click", () => choose(target));
    return button;
  });
}
function describe(node) {
  const data = node.dataset;
  const rows = [["kind", [data.kind]]];
  if (data.type && data.kind !== "guard") rows.push(["type", [data.type]]);
  if (data.file) rows.push(["line", [`${data.file.split("/").pop()}:${data.line}`]], ["source", [data.source]]);
  rows.push(["reads", links(into.get(data.key) || [], "tail")], ["read by", links(outOf.get(data.key) || [], "head")]);
  const list = element("dl");
  for (const [name, parts] of rows) if (parts.length) list.append(element("dt", name), element("dd", "", ...parts));
  document.querySelector("#detail").replaceChildren(element("pre", data.text), list);
}
for (const node of nodes) {
  const near = [...(into.get(node.dataset.key) || []), ...(outOf.get(node.dataset.key) || [])];
  node.addEventListener("click", () => choose(node));
  node.addEventListener("pointerenter", () => near.forEach((a) => a.classList.add("near")));
  node.addEventListener("pointerleave", () => near.forEach((a) => a.classList.remove("near")));
}
for (const line of lines) {
  line.addEventListener("click", () => {
    if (line.dataset.key) return choose(byKey.get(line.dataset.key));
    const mine = nodes.filter((n) => n.dataset.file === line.dataset.file && n.dataset.line === line.dataset.line);
    choose(mine[0]);
    const keys = new Set(mine.map((n) => n.dataset.key));
    show(keys, new Set(arrows.filter((a) => keys.has(a.dataset.tail) && keys.has(a.dataset.head))));
    light(mine);
  });
}
for (const chip of document.querySelectorAll(".chip")) {
  chip.addEventListener("click", () => {
    const on = chip.getAttribute("aria-pressed") !== "true";
    choose(null);
    chip.setAttribute("aria-pressed", String(on));
    if (on) show(new Set(nodes.filter((n) => n.dataset.kind === chip.dataset.kind).map((n) => n.dataset.key)), new Set());
  });
}
window.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return choose(null);
  const focused = document.activeElement.closest ? document.activeElement.closest(".node") : null;
  if (event.key === "Enter" && focused) return choose(focused);
  const step = { ArrowUp: [into, "tail"], ArrowDown: [outOf, "head"] }[event.key];
  if (!step || !current) return;
  const next = (step[0].get(current.dataset.key) || [])[0];
  if (next) { event.preventDefault(); choose(byKey.get(next.dataset[step[1]])); }
});
fit(0.62);
if (byKey.has(location.hash.slice(1))) choose(byKey.get(location.hash.slice(1)));
