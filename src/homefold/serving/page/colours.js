// Which colour a point has, and what the colours mean.

import { isRight } from "./gallery.js";

// Told apart by most people with a colour vision deficiency, on white and on black.
const PALETTE = [
  [0, 114, 178], [230, 159, 0], [0, 158, 115], [204, 121, 167], [213, 94, 0], [86, 180, 233], [148, 103, 189],
  [140, 130, 40], [227, 119, 194], [90, 110, 130], [23, 160, 150], [170, 70, 70],
];
const RIGHT = [60, 130, 200];
const WRONG = [222, 85, 30];
// From near to far; the stylesheet's ramp has the same stops.
const RAMP = [[68, 90, 170], [40, 160, 140], [240, 180, 40], [215, 60, 40]];
export const RAMP_END = 3;

/** A colour for each of a few things. */
export function ofKind(index) {
  return PALETTE[index % PALETTE.length];
}

function onRamp(score) {
  const place = Math.max(0, Math.min(1, score / RAMP_END)) * (RAMP.length - 1);
  const below = Math.min(RAMP.length - 2, Math.floor(place));
  return RAMP[below].map((from, i) => from + (place - below) * (RAMP[below + 1][i] - from));
}

/** Ways to colour: the kinds with their names, and the kind of a row; without kinds the colour of a row. */
export function colourings(points) {
  const named = (names, column) => ({
    kinds: names.map((name, i) => ({ name, colour: ofKind(i) })),
    kindOf: (row) => column[row],
  });
  return {
    class: named(points.classes, points.truth),
    domain: named(points.domains.map(({ name, is_source }) => (is_source ? name : `${name} (not trained on)`)), points.domain),
    right: {
      kinds: [{ name: "right", colour: RIGHT }, { name: "wrong", colour: WRONG }],
      kindOf: (row) => (isRight(points, row) ? 0 : 1),
    },
    off: { kinds: [], colourOf: (row) => onRamp(points.off_manifold[row]) },
  };
}
