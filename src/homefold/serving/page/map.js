// The view "Map": every labelled image as a point, those chosen as pictures.

import { explainRow } from "./api.js";
import { colourings } from "./colours.js";
import { counted, element, percent } from "./dom.js";
import { inWords, picture } from "./gallery.js";
import { Grid } from "./grid.js";
import { Scatter } from "./scatter.js";
import { show as showWhy } from "./why.js";

const ALPHA = 215;

const chosen = document.getElementById("map-chosen");
const colouring = document.getElementById("map-colour");
const domain = document.getElementById("map-domain");
const legend = document.getElementById("map-legend");
const ramp = document.getElementById("map-ramp");
const lasso = document.getElementById("map-lasso");
const why = document.getElementById("map-why");
const hint = document.getElementById("map-hint");

let points;
let scatter;
let grid;
let ways;
let selected = null;
const hidden = new Set();

function isWanted(row) {
  const origin = points.domains[points.domain[row]];
  return domain.value === "all" || (domain.value === "source" ? origin.is_source : domain.value === `${points.domain[row]}`);
}

function paint() {
  const way = ways[colouring.value];
  scatter.paint((row) => {
    const kind = way.kindOf?.(row);
    const colour = way.kinds.length ? way.kinds[kind].colour : way.colourOf(row);
    return [...colour, isWanted(row) && !hidden.has(kind) ? ALPHA : 0];
  });
}

function explainColours() {
  hidden.clear();
  const { kinds } = ways[colouring.value];
  ramp.hidden = kinds.length > 0;
  legend.replaceChildren(
    ...kinds.map(({ name, colour }, kind) => {
      const swatch = element("span", { className: "swatch" });
      swatch.style.background = `rgb(${colour})`;
      const box = element("input", { type: "checkbox", checked: true });
      box.addEventListener("change", () => {
        if (box.checked) hidden.delete(kind);
        else hidden.add(kind);
        refresh();
      });
      return element("label", { className: "kind" }, box, swatch, name);
    }),
  );
}

function refresh() {
  paint();
  const shown = [...Array(points.count).keys()].filter((row) => scatter.isShown(row));
  const rows = selected ? selected.filter((row) => scatter.isShown(row)) : shown;
  scatter.mark(selected && rows);
  grid.show(points, rows, selected ? "in the lasso" : "on the map");
  document.getElementById("map-clear").hidden = !selected;
}

function setLasso(on) {
  scatter.lassoing = on;
  lasso.setAttribute("aria-pressed", String(on));
  hint.textContent = on
    ? "Draw around points; what is inside is shown below."
    : "Drag to move, scroll to zoom, click a point. With the keyboard: arrows, + and −, 0 for all.";
}

/** Shows a row beside the map. */
export function choose(row) {
  scatter.choose(row);
  scatter.point(null);
  const facts = [
    ["Label", points.classes[points.truth[row]]],
    ["Domain", points.domains[points.domain[row]].name],
    ["Answer", `${points.classes[points.label[row]]}, ${percent.format(points.confidence[row])}`],
    ["Without projection", `${points.classes[points.plain_label[row]]}, ${percent.format(points.plain_confidence[row])}`],
    ["Off-manifold score", points.off_manifold[row].toFixed(2)],
    ["Row", String(row)],
  ];
  const list = element("dl", { className: "facts" });
  for (const [name, value] of facts) list.append(element("dt", { textContent: name }), element("dd", { textContent: value }));
  const words = element("p", { className: "unseen", textContent: inWords(points, row) });
  words.setAttribute("role", "status");
  const button = element("button", { type: "button", textContent: "Why this answer?", onclick: () => reason(row) });
  chosen.replaceChildren(words, picture(points, row), list, button);
  why.hidden = true;
}

async function reason(row) {
  why.hidden = false;
  why.replaceChildren(element("p", { className: "hint", textContent: "Looking for the reasons…" }));
  why.focus();
  try {
    const found = await explainRow(row);
    if (scatter.current !== row) return;
    scatter.point([found.place_before, found.place_after]);
    await showWhy(why, found, points);
  } catch (error) {
    why.replaceChildren(element("p", { className: "far", textContent: error.message }));
  }
}

/** Makes the view work with these images. */
export function start(given) {
  points = given;
  ways = colourings(points);
  scatter = new Scatter(document.getElementById("map"), `Map of ${counted(points.count, "image")}; arrow keys go from point to point.`);
  grid = new Grid(
    document.getElementById("map-grid"),
    document.getElementById("map-more"),
    document.getElementById("map-status"),
    choose,
  );
  points.domains.forEach(({ name }, i) => domain.append(element("option", { value: String(i), textContent: name })));
  scatter.place(points.x, points.y);
  scatter.onpick = choose;
  scatter.onlasso = (rows) => {
    selected = rows;
    setLasso(false);
    refresh();
  };
  scatter.onhover = (row) => {
    scatter.over.title = row < 0 ? "" : inWords(points, row);
    scatter.over.classList.toggle("on-point", row >= 0);
  };
  colouring.addEventListener("change", () => {
    explainColours();
    refresh();
  });
  domain.addEventListener("change", refresh);
  lasso.addEventListener("click", () => setLasso(!scatter.lassoing));
  document.getElementById("map-fit").addEventListener("click", () => scatter.fit());
  document.getElementById("map-in").addEventListener("click", () => scatter.zoom(1.5));
  document.getElementById("map-out").addEventListener("click", () => scatter.zoom(1 / 1.5));
  document.getElementById("map-clear").addEventListener("click", () => {
    selected = null;
    refresh();
  });
  document.getElementById("map-kept").hidden = !points.areThumbnails;
  explainColours();
  setLasso(false);
  refresh();
}
