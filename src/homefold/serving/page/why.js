// Why an image gets its answer: both answers, where it lies, how the search went, what it is like.

import { usualScores } from "./api.js";
import { chart } from "./chart.js";
import { colourings } from "./colours.js";
import { bars, drawn, element, percent } from "./dom.js";
import { picture } from "./gallery.js";
import { Scatter } from "./scatter.js";

const TOP = 5;
const GAUGE_END = 3;
const STYLE_END = 3;

let usual;

function answerBox(title, answer, isUsed) {
  const likely = Object.entries(answer.probabilities).sort((a, b) => b[1] - a[1]).slice(0, TOP);
  return element(
    "section",
    { className: isUsed ? "answer used" : "answer" },
    element("h4", {}, title, isUsed ? element("span", { className: "badge", textContent: "used" }) : ""),
    element("p", { className: "said", textContent: answer.label }),
    bars(likely, 1, percent.format),
  );
}

function gauge(score, scores) {
  const place = (value) => 6 + (Math.min(value, GAUGE_END) / GAUGE_END) * 308;
  const below = scores.filter((other) => other < score).length / Math.max(1, scores.length);
  const words =
    score > 1
      ? "Farther out than 95 % of held-out source images."
      : `Within what is usual: farther out than ${percent.format(below)} of held-out source images.`;
  const made = drawn("svg", { viewBox: "0 0 320 62", class: "chart", role: "img", "aria-label": `Off-manifold score ${score.toFixed(2)}. ${words}` });
  const bins = new Array(30).fill(0);
  for (const value of scores) bins[Math.min(29, Math.floor((value / GAUGE_END) * 30))] += 1;
  const most = Math.max(1, ...bins);
  bins.forEach((count, i) => {
    const height = (36 * count) / most;
    made.append(drawn("rect", { x: 6 + (i * 308) / 30, y: 42 - height, width: 308 / 30 - 1, height, class: "bin" }));
  });
  for (const value of [0, 1, 2, 3]) made.append(drawn("text", { x: place(value), y: 58, class: "below" }, value === 3 ? "3+" : String(value)));
  made.append(
    drawn("line", { x1: place(1), x2: place(1), y1: 6, y2: 44, class: "stop" }),
    drawn("line", { x1: 6, x2: 314, y1: 43, y2: 43, class: "rule" }),
    drawn("path", { d: `M ${place(score)} 43 l -6 -12 h 12 z`, class: "dot" }),
  );
  return element(
    "section",
    {},
    element("h4", { textContent: `Off-manifold score ${score.toFixed(2)}` }),
    made,
    element("p", { className: score > 1 ? "far" : "hint", textContent: `${words} The bars are held-out source images.` }),
  );
}

function curve({ steps, losses, stop }) {
  const stopped = steps.indexOf(stop);
  const high = Math.max(...losses);
  const low = Math.min(...losses);
  const words = `The loss falls from ${losses[0].toFixed(3)} to ${losses[stopped].toFixed(3)} in ${stop} steps.`;
  return element(
    "section",
    {},
    element("h4", { textContent: "The search" }),
    chart({
      label: words,
      points: steps.map((step, i) => [step, losses[i]]),
      xName: "step",
      yName: "1 − cosine",
      x: [0, Math.max(1, steps.at(-1))],
      y: [low - 0.05 * (high - low || 1), high + 0.05 * (high - low || 1)],
      writeY: (value) => value.toFixed(high - low < 0.05 ? 3 : 2),
      marked: [stop, losses[stopped], `taken: ${stop}`],
    }),
    element("p", { className: "hint", textContent: words }),
  );
}

function style({ distances, weight, as_it_is: asItIs }, isMoved) {
  const near = Object.entries(distances).sort((a, b) => a[1] - b[1]);
  const towards = near.length > 1 ? "the style of each source domain" : `the style of ${near[0][0]}`;
  const averaged = asItIs ? "; the features of all, and of the image as it is, are averaged" : "";
  const words = isMoved
    ? `Moved ${percent.format(weight)} of the way towards ${towards}${averaged}.`
    : "Familiar from the sources, so it was left as it is.";
  return element(
    "section",
    { className: "style" },
    element("h4", { textContent: "Its style" }),
    bars(near, Math.max(STYLE_END, near.at(-1)[1]), (value) => value.toFixed(1)),
    element("p", { className: "hint", textContent: `${words} The bars are distances from it; 1 is usual for a source image.` }),
  );
}

function neighbours(title, near, points) {
  const items = near.map(({ row, similarity }) =>
    element(
      "li",
      {},
      picture(points, row),
      element("span", { className: "caption", textContent: `${points.classes[points.truth[row]]}, ${points.domains[points.domain[row]].name}` }),
      element("span", { className: "caption", textContent: `cosine ${similarity.toFixed(2)}` }),
    ),
  );
  return element("section", {}, element("h4", { textContent: title }), element("ol", { className: "near" }, ...items));
}

function mapOf(why, points) {
  const host = element("div");
  const words = "The arrow leads from the image's feature to its projection, among the source images.";
  const made = element("section", {}, element("h4", { textContent: "On the map" }), host, element("p", { className: "hint", textContent: words }));
  const scatter = new Scatter(host, words, { still: true });
  const way = colourings(points).class;
  scatter.place(points.x, points.y);
  scatter.paint((row) => [...way.kinds[way.kindOf(row)].colour, points.domains[points.domain[row]].is_source ? 150 : 0]);
  scatter.point([why.place_before, why.place_after]);
  scatter.frameArrow();
  return made;
}

function usedWords({ projected, label }, why) {
  if (!projected) return "The answer without projection was used: the image's style is familiar from the sources.";
  return label === why.without_projection.label
    ? "The answer with projection was used; both say the same."
    : "The answer with projection was used, and it changed the label.";
}

/** Fills an element with why; `points` are the labelled images, or null. */
export async function show(place, why, points) {
  const { answer } = why;
  usual ??= await usualScores();
  const parts = [
    element("p", { className: "said", textContent: `${answer.label}, ${percent.format(answer.confidence)}` }),
    element("p", { textContent: usedWords(answer, why) }),
    element(
      "div",
      { className: "columns" },
      answerBox("Without projection", why.without_projection, !answer.projected),
      answerBox("With projection", why.with_projection, answer.projected),
    ),
  ];
  const figures = element("div", { className: "columns" }, gauge(answer.off_manifold, usual));
  if (why.curve) figures.append(curve(why.curve));
  if (why.style) figures.append(style(why.style, answer.projected));
  parts.push(figures);
  if (points && why.nearest_before) {
    parts.push(
      neighbours("Source images most like it", why.nearest_before, points),
      neighbours("Source images most like its projection", why.nearest_after, points),
      mapOf(why, points),
    );
  } else {
    parts.push(element("p", { className: "hint", textContent: "Start the server with --data to see its nearest source images and its place on the map, once that is made." }));
  }
  place.replaceChildren(...parts);
}
