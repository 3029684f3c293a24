// Small line charts.

import { drawn } from "./dom.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [320, 180, 44, 30, 20, 18];

function ticks(low, high) {
  const rough = (high - low) / 4 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-6; value += step) found.push(value);
  return found;
}

/**
 * A line through points `[x, y]`, with the ends of both axes, their names, and how a value is written. What is marked
 * is `[x, y, words]`.
 */
export function chart({ label, points, xName, yName, x, y, writeX = String, writeY = String, marked = null }) {
  const atX = (value) => LEFT + ((value - x[0]) / (x[1] - x[0] || 1)) * (WIDTH - LEFT - RIGHT);
  const atY = (value) => HEIGHT - BOTTOM - ((value - y[0]) / (y[1] - y[0] || 1)) * (HEIGHT - BOTTOM - TOP);
  const made = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": label });
  for (const value of ticks(...y)) {
    const line = { x1: LEFT, x2: WIDTH - RIGHT, y1: atY(value), y2: atY(value), class: "rule" };
    made.append(drawn("line", line), drawn("text", { x: LEFT - 5, y: atY(value) + 4, class: "left" }, writeY(value)));
  }
  for (const value of ticks(...x)) made.append(drawn("text", { x: atX(value), y: HEIGHT - BOTTOM + 14, class: "below" }, writeX(value)));
  made.append(
    drawn("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 3, class: "below" }, xName),
    drawn("text", { x: LEFT, y: TOP - 9, class: "name" }, yName),
    drawn("polyline", { points: points.map(([a, b]) => `${atX(a).toFixed(1)},${atY(b).toFixed(1)}`).join(" "), class: "line" }),
  );
  if (marked) {
    const [a, b, words] = marked;
    const isLate = atX(a) > WIDTH / 2;
    made.append(
      drawn("line", { x1: atX(a), x2: atX(a), y1: TOP, y2: HEIGHT - BOTTOM, class: "stop" }),
      drawn("circle", { cx: atX(a), cy: atY(b), r: 4, class: "dot" }),
      // Where the line is high the words stand low.
      drawn("text", { x: atX(a) + (isLate ? -7 : 7), y: atY(b) < HEIGHT / 2 ? HEIGHT - BOTTOM - 8 : TOP + 14, class: isLate ? "left" : "name" }, words),
    );
  }
  return made;
}
