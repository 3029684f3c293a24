// The view "The model": what it is, what it was measured at, every setting.

import { element, percent, whole } from "./dom.js";

const place = document.getElementById("about-body");

function table(caption, head, rows) {
  const cells = (row) => row.map((value, i) => element(i ? "td" : "th", i ? {} : { scope: "row" }, value));
  return element(
    "div",
    { className: "scroll" },
    element(
      "table",
      {},
      element("caption", { textContent: caption }),
      element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col", textContent: name })))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells(row)))),
    ),
  );
}

function written(value) {
  if (value === null) return "none";
  if (typeof value === "number") return String(Number(value.toPrecision(6)));
  if (!Array.isArray(value)) return String(value);
  if (typeof value[0] === "object") return `${value.length} entries; homefold info --json shows them`;
  return value.map(written).join(", ") || "none";
}

function flat(values, before = "") {
  return Object.entries(values).flatMap(([name, value]) =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? flat(value, `${before}${name}.`)
      : [[before + name, written(value)]],
  );
}

function heldOut({ held_out: found, classifier }) {
  if (!found) {
    const known = classifier?.held_out_accuracy;
    return element("p", { textContent: known === undefined ? "Nothing was measured." : `${percent.format(known)} of held-out source images are right, without projection.` });
  }
  return table(`On ${whole.format(found.images)} held-out source images`, ["answers", "right"], [
    ["with projection", percent.format(found.with_projection)],
    ["without projection", percent.format(found.without_projection)],
    [`yardstick: logistic regression on the ${found.yardstick_sees}`, percent.format(found.yardstick)],
    ["always the most frequent class", percent.format(found.chance)],
  ]);
}

function folded(name, ...content) {
  return element("details", {}, element("summary", { textContent: name }), ...content);
}

/** Shows the facts of `/v1/model` and of `/v1/explorer`. */
export function start(facts, gallery) {
  const hasImages = gallery.state !== "none";
  const classes = hasImages
    ? gallery.classes.map((name, i) => [name, whole.format(gallery.class_images[i]), facts.classes.includes(name) ? "" : "unknown to the model"])
    : facts.classes.map((name) => [name]);
  const domains = hasImages
    ? gallery.domains.map(({ name, images, is_source: isSource }) => [name, whole.format(images), isSource ? "trained on" : "not trained on"])
    : facts.source_domains.map((name) => [name]);
  const counts = hasImages ? [gallery.are_thumbnails ? "thumbnails" : "images in --data", ""] : [];
  place.replaceChildren(
    element("p", { className: "hint", textContent: `Images are brought to ${facts.image_size} px. It computes on ${facts.device}.` }),
    element(
      "div",
      { className: "columns" },
      heldOut(facts.measured),
      table("Domains", ["domain", ...counts], domains),
      table("Classes", ["class", ...counts], classes),
    ),
    ...(facts.card ? [folded("Model card", element("pre", { textContent: facts.card }))] : []),
    folded("Settings", table("Every setting", ["setting", "value"], flat(facts.settings))),
    folded("All that was measured", table("Stage by stage", ["figure", "value"], flat(facts.measured))),
    folded("Versions", table("What it runs on", ["package", "version"], flat(facts.versions))),
  );
}
