// A grid of pictures, a page at a time.

import { counted, element } from "./dom.js";
import { isRight, picture } from "./gallery.js";

const PAGE = 36;

/** Shows rows in a list element; `onpick(row)` when one is chosen. */
export class Grid {
  constructor(list, more, status, onpick) {
    Object.assign(this, { list, more, status, onpick, rows: [], shown: 0 });
    more.addEventListener("click", () => {
      const first = this.shown;
      this.extend();
      this.list.children[first]?.querySelector("button").focus();
    });
  }

  show(points, rows, what) {
    Object.assign(this, { points, rows, shown: 0 });
    this.list.replaceChildren();
    this.status.textContent = rows.length ? `${counted(rows.length, "image")} ${what}` : `No image ${what}.`;
    this.extend();
  }

  extend() {
    for (const row of this.rows.slice(this.shown, this.shown + PAGE)) this.list.append(this.cell(row));
    this.shown = Math.min(this.rows.length, this.shown + PAGE);
    this.more.hidden = this.shown >= this.rows.length;
  }

  cell(row) {
    const { points } = this;
    const right = isRight(points, row);
    const truth = points.classes[points.truth[row]];
    const said = right ? truth : `${truth} → ${points.classes[points.label[row]]}`;
    const caption = element("span", { className: right ? "caption" : "caption far", textContent: said });
    caption.setAttribute("aria-hidden", "true");
    const button = element("button", { type: "button", className: "cell" }, picture(points, row), caption);
    button.addEventListener("click", () => this.onpick(row));
    return element("li", {}, button);
  }
}
