// Will it hold up? What can be known of the dropped images together, without labels.

import { check } from "./api.js";
import { bars, drawn, element, percent } from "./dom.js";

const FEWEST = 20;
const SHOWN_UNUSUAL = 6;
const OF_A_PART = 500; // bytes of its headers, at most

const button = document.getElementById("hold-ask");
const place = document.getElementById("hold");
const report = document.getElementById("hold-report");

function interval({ estimate, low, high }, words) {
  const at = (share) => 6 + 308 * share;
  const made = drawn("svg", { viewBox: "0 0 320 48", class: "chart", role: "img", "aria-label": words });
  made.append(
    drawn("line", { x1: at(0), x2: at(1), y1: 16, y2: 16, class: "rule" }),
    drawn("rect", { x: at(low), y: 8, width: Math.max(2, at(high) - at(low)), height: 16, rx: 4, class: "bin" }),
    drawn("circle", { cx: at(estimate), cy: 16, r: 6, class: "estimate" }),
  );
  for (const share of [0, 0.5, 1]) made.append(drawn("text", { x: at(share), y: 42, class: share ? (share < 1 ? "below" : "left") : "name" }, percent.format(share)));
  return made;
}

function unusual({ unusual: found, rows }, files) {
  const items = found.slice(0, SHOWN_UNUSUAL).map(({ image, label, off_manifold: score, style }) => {
    const file = files[rows[image]];
    const shown = element("img", { src: URL.createObjectURL(file), alt: `${file.name}, answered ${label}` });
    shown.onload = shown.onerror = () => URL.revokeObjectURL(shown.src);
    return element("li", {}, shown, element("span", { className: "caption", textContent: `${label}, score ${score.toFixed(2)}${style === null ? "" : `, style ${style.toFixed(1)}`}` }));
  });
  return element("section", {}, element("h4", { textContent: "The most unusual" }), element("ol", { className: "near" }, ...items));
}

function show(found, files) {
  const facts = element("dl", { className: "facts" });
  for (const [name, value] of Object.entries(found.facts)) facts.append(element("dt", { textContent: name }), element("dd", { textContent: value }));
  const classes = Object.entries(found.classes).map(([name, { expected }]) => [name, expected]).sort((a, b) => b[1] - a[1]);
  const left = files.length - found.rows.length;
  report.replaceChildren(
    element("p", { className: "said", textContent: found.headline.replaceAll(" %", "\u00a0%") }),
    ...(found.accuracy ? [interval(found.accuracy, found.headline), element("p", { className: "hint", textContent: found.how_wrong })] : []),
    element("h4", { textContent: "What to do next" }),
    element("ul", {}, ...found.next.map((sentence) => element("li", { textContent: sentence }))),
    element(
      "div",
      { className: "columns" },
      element("section", {}, element("h4", { textContent: "What is known" }), facts),
      element("section", {}, element("h4", { textContent: "Classes to expect" }), bars(classes, 1, percent.format)),
    ),
    unusual(found, files),
    ...[...found.unknown, ...(left ? [`${left} of the images could not be read and were left out.`] : [])].map((sentence) => element("p", { className: "hint", textContent: sentence })),
  );
}

/** As many of the files as one request may hold. */
function together(files, limits) {
  let bytes = 0;
  return files.slice(0, limits.images).filter((file) => (bytes += file.size + OF_A_PART) <= limits.body_bytes);
}

/** Offers the question for these files; none takes it back. */
export function offer(files, limits) {
  place.hidden = true;
  button.hidden = files.length < FEWEST;
  button.onclick = async () => {
    const asked = together(files, limits);
    const which = asked.length < files.length ? `the first ${asked.length} images` : `${asked.length} images`;
    place.hidden = false;
    report.replaceChildren(element("p", { className: "hint", textContent: `Comparing ${which} with the sources…` }));
    place.focus();
    try {
      show(await check(asked), asked);
    } catch (error) {
      report.replaceChildren(element("p", { className: "far", textContent: error.message }));
    }
  };
}
