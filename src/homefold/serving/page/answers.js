// The card of one image: what it looks like, what the model says, or why it says nothing.

import { bars, element, percent } from "./dom.js";

const SHOWN_CLASSES = 5;
const GAUGE_END = 3;

/** An empty card with the image, to be filled when its answer is there. */
export function card(file) {
  const address = URL.createObjectURL(file);
  const image = element("img", { src: address, alt: file.name });
  // Browsers show fewer kinds of images than the model reads.
  image.onerror = () => image.remove();
  const made = element("li", { className: "answer" }, image, element("p", { className: "file", textContent: file.name }));
  made.setAttribute("aria-busy", "true");
  made.letGo = () => URL.revokeObjectURL(address);
  return made;
}

/** Shows the answer in a card; `onwhy` when somebody asks for its reasons. */
export function fill(made, answer, onwhy) {
  const likely = Object.entries(answer.probabilities).sort((a, b) => b[1] - a[1]).slice(0, SHOWN_CLASSES);
  made.append(element("h3", { textContent: answer.label }), bars(likely, 1, percent.format), gauge(answer.off_manifold));
  if (answer.label_without_projection) made.append(without(answer));
  const button = element("button", { type: "button", className: "why", textContent: "Why?", onclick: onwhy });
  button.setAttribute("aria-label", `Why ${answer.label}?`);
  made.append(button);
  made.removeAttribute("aria-busy");
}

/** Shows in a card why there is no answer. */
export function fail(made, sentence) {
  made.classList.add("failed");
  made.append(element("p", { className: "far", textContent: sentence }));
  made.removeAttribute("aria-busy");
}

function gauge(score) {
  const far = score > 1;
  const words = far ? "farther out than 95 % of held-out source images" : "as near as the source images";
  const label = `Off-manifold score ${score.toFixed(2)}: ${words}`;
  return element("p", { className: far ? "far" : "" }, label, element("meter", { max: GAUGE_END, low: 1, high: 1, optimum: 0, value: Math.min(score, GAUGE_END), ariaLabel: label }));
}

function without(answer) {
  const same = answer.label_without_projection === answer.label;
  const used = answer.projected ? "" : " Its style is familiar, so it was left as it is.";
  const words = `${same ? "The same without projection." : `Without projection: ${answer.label_without_projection}.`}${used}`;
  return element("p", { className: "without", textContent: words });
}
