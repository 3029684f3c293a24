// The labelled images: what is known of each, by row, and their pictures.

import { columnsOfAll, hasPictures, labelled, pictureAddress } from "./api.js";
import { element, percent } from "./dom.js";

const POLL_MS = 700;
const KEPT_PICTURES = 600;
const AT_ONCE = 6;

/** Waits for the survey, telling how far it is; the columns of all images by name. */
export async function columns(known, tell) {
  while (known.state === "working") {
    tell(known);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    known = await labelled();
  }
  if (known.state === "failed") throw new Error(`There is no map: ${known.error}`);
  const buffer = await columnsOfAll();
  const found = { count: known.images, classes: known.classes, domains: known.domains, areThumbnails: known.are_thumbnails };
  known.columns.forEach((name, i) => {
    found[name] = new Float32Array(buffer, 4 * i * known.images, known.images);
  });
  return found;
}

/** Whether the answer to a row is its label. */
export function isRight(points, row) {
  return points.label[row] === points.truth[row];
}

/** A row in words. */
export function inWords(points, row) {
  const said = points.classes[points.label[row]];
  const verdict = isRight(points, row) ? "answered right" : `answered ${said}`;
  const sure = percent.format(points.confidence[row]);
  return `${points.classes[points.truth[row]]}, ${points.domains[points.domain[row]].name}: ${verdict}, ${sure}`;
}

const addresses = new Map();
const waiting = [];
let working = 0;

async function work() {
  working += 1;
  while (waiting.length) {
    // What was asked for last is most likely still looked at.
    const [row, resolve, reject] = waiting.pop();
    await pictureAddress(row).then(resolve, reject);
  }
  working -= 1;
}

function address(row) {
  let promise = addresses.get(row);
  addresses.delete(row);
  promise ??= new Promise((resolve, reject) => waiting.push([row, resolve, reject]));
  addresses.set(row, promise);
  while (working < AT_ONCE && waiting.length) work();
  if (addresses.size > KEPT_PICTURES) {
    const [oldest, old] = addresses.entries().next().value;
    addresses.delete(oldest);
    old.then(URL.revokeObjectURL, () => {});
  }
  return promise;
}

const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    address(target.row).then(
      (found) => {
        target.src = found;
      },
      (error) => {
        target.alt = `${target.alt} (${error.message})`;
        target.classList.add("failed");
      },
    );
  }
}, { rootMargin: "200px" });

/** An image element of a row, loaded once it comes into view; its label where there are no pictures. */
export function picture(points, row) {
  if (!hasPictures) return element("span", { className: "pictureless", textContent: points.classes[points.truth[row]] });
  const made = document.createElement("img");
  made.alt = inWords(points, row);
  made.row = row;
  made.decoding = "async";
  seen.observe(made);
  return made;
}
