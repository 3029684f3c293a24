// The view "Check a domain": how right the answers are in a labelled domain, and where they are not.

import { chart } from "./chart.js";
import { counted, element, percent } from "./dom.js";
import { inWords, isRight, picture } from "./gallery.js";
import { Grid } from "./grid.js";

const LEAST_SHARE = 0.05;

const domain = document.getElementById("check-domain");
const criterion = document.getElementById("check-criterion");
const slider = document.getElementById("check-share");
const kinds = document.getElementById("check-kinds");
const matrix = document.getElementById("check-matrix");
const chosen = document.getElementById("check-chosen");

let points;
let grid;
let rows = [];
let ranked = [];

const plainRight = (row) => points.plain_label[row] === points.truth[row];
const KINDS = [
  ["all", "All", () => true, "in this domain"],
  ["wrong", "Wrong", (row) => !isRight(points, row), "answered wrong"],
  ["corrected", "Corrected", (row) => isRight(points, row) && !plainRight(row), "right with projection alone"],
  ["spoiled", "Spoiled", (row) => !isRight(points, row) && plainRight(row), "right without projection alone"],
];

function share(test) {
  return rows.filter(test).length / Math.max(1, rows.length);
}

function press(pressed) {
  for (const button of [...kinds.children, ...matrix.querySelectorAll("button")]) {
    button.setAttribute("aria-pressed", String(button === pressed));
  }
}

function filter(button, found, what) {
  press(button);
  grid.show(points, found, what);
}

function showKinds() {
  kinds.replaceChildren(
    ...KINDS.map(([, name, test, what]) => {
      const found = rows.filter(test);
      const button = element("button", { type: "button", textContent: `${name} (${found.length})` });
      button.addEventListener("click", () => filter(button, found, what));
      return button;
    }),
  );
}

function cell(truth, said, of, found) {
  const part = of ? found.length / of : 0;
  const words = `${points.classes[truth]} answered ${points.classes[said]}: ${counted(found.length, "image")}`;
  const button = element("button", { type: "button", textContent: found.length || "", ariaLabel: words, title: words, disabled: !found.length });
  const colour = truth === said ? "var(--accent)" : "var(--far)";
  button.style.background = found.length ? `color-mix(in srgb, ${colour} ${Math.round(12 + 48 * part)}%, var(--paper))` : "";
  button.addEventListener("click", () => filter(button, found, `are ${points.classes[truth]} and were answered ${points.classes[said]}`));
  return element("td", {}, button);
}

function showMatrix() {
  const truths = [...new Set(rows.map((row) => points.truth[row]))].sort((a, b) => a - b);
  const answers = [...new Set(rows.flatMap((row) => [points.truth[row], points.label[row]]))].sort((a, b) => a - b);
  const byCell = Map.groupBy ? Map.groupBy(rows, (row) => `${points.truth[row]} ${points.label[row]}`) : null;
  const at = (truth, said) =>
    byCell ? byCell.get(`${truth} ${said}`) ?? [] : rows.filter((row) => points.truth[row] === truth && points.label[row] === said);
  const head = element("tr", {}, element("th", { scope: "col", textContent: "label ↓ answer →" }));
  for (const said of answers) head.append(element("th", { scope: "col", textContent: points.classes[said] }));
  const body = truths.map((truth) => {
    const of = rows.filter((row) => points.truth[row] === truth).length;
    return element("tr", {}, element("th", { scope: "row", textContent: points.classes[truth] }), ...answers.map((said) => cell(truth, said, of, at(truth, said))));
  });
  const caption = element("caption", { className: "hint", textContent: "Choose a cell to see its images." });
  matrix.replaceChildren(element("table", { className: "matrix" }, caption, element("thead", {}, head), element("tbody", {}, ...body)));
}

function rank() {
  const by = points[criterion.value];
  const sign = criterion.value === "off_manifold" ? 1 : -1;
  ranked = rows.toSorted((a, b) => sign * (by[a] - by[b]));
  showCurve();
}

function showCurve() {
  const curve = [];
  let right = 0;
  ranked.forEach((row, i) => {
    right += isRight(points, row);
    curve.push([(i + 1) / ranked.length, right / (i + 1)]);
  });
  const kept = Math.max(1, Math.round((Number(slider.value) / 100) * ranked.length));
  const [covered, accuracy] = curve[kept - 1];
  const limit = points[criterion.value][ranked[kept - 1]];
  const shown = curve.filter(([part], i) => part >= LEAST_SHARE && (i === kept - 1 || i % Math.ceil(curve.length / 300) === 0 || i === curve.length - 1));
  const low = Math.min(0.9, ...shown.map(([, value]) => value), accuracy);
  const rule = criterion.value === "off_manifold" ? `a score up to ${limit.toFixed(2)}` : `a confidence from ${percent.format(limit)}`;
  const words =
    `With ${rule}, ${percent.format(covered)} of the images are answered, and ${percent.format(accuracy)} of these right; ` +
    `of all images it is ${percent.format(curve.at(-1)[1])}.`;
  document.getElementById("check-words").textContent = words;
  slider.setAttribute("aria-valuetext", words);
  document.getElementById("check-curve").replaceChildren(
    chart({
      label: words,
      points: shown,
      xName: "share answered",
      yName: "share right",
      x: [0, 1],
      y: [Math.max(0, low - 0.03), 1],
      writeX: (value) => percent.format(value),
      writeY: (value) => percent.format(value),
      marked: [covered, accuracy, percent.format(accuracy)],
    }),
  );
}

function choose(row) {
  chosen.replaceChildren(picture(points, row), element("p", { textContent: inWords(points, row) }), element("p", {
    className: "hint",
    textContent: `Without projection: ${points.classes[points.plain_label[row]]}. Off-manifold score ${points.off_manifold[row].toFixed(2)}.`,
  }));
  chosen.hidden = false;
}

function show() {
  const index = Number(domain.value);
  const { name, is_source: isSource } = points.domains[index];
  rows = [...Array(points.count).keys()].filter((row) => points.domain[row] === index);
  const [right, plain] = [share((row) => isRight(points, row)), share(plainRight)];
  const gain = Math.round(1000 * (right - plain)) / 10;
  const figures = [
    [percent.format(right), "right"],
    [percent.format(plain), "right without projection"],
    [`${gain > 0 ? "+" : ""}${gain} points`, "by projection"],
    [counted(rows.length, "image"), `in ${name}`],
  ];
  document.getElementById("check-figures").replaceChildren(
    ...figures.map(([value, words]) => element("p", { className: "figure-box" }, element("strong", { textContent: value }), words)),
  );
  document.getElementById("check-note").textContent = isSource
    ? "The model learned from this domain, so these figures flatter it."
    : "The model never saw this domain.";
  chosen.hidden = true;
  showMatrix();
  showKinds();
  rank();
  kinds.children[right < 1 ? 1 : 0].click();
}

/** Makes the view work with these images. */
export function start(given) {
  points = given;
  grid = new Grid(
    document.getElementById("check-grid"),
    document.getElementById("check-more"),
    document.getElementById("check-status"),
    choose,
  );
  const order = points.domains.map((_, i) => i).sort((a, b) => points.domains[a].is_source - points.domains[b].is_source);
  for (const i of order) {
    const { name, is_source: isSource } = points.domains[i];
    domain.append(element("option", { value: String(i), textContent: isSource ? `${name} (trained on)` : name }));
  }
  domain.addEventListener("change", show);
  criterion.addEventListener("change", rank);
  slider.addEventListener("input", showCurve);
  document.getElementById("check-waiting").hidden = true;
  document.getElementById("check-body").hidden = false;
  show();
}
