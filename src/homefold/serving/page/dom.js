// Making elements, and writing numbers as people read them.

export const percent = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });
export const whole = new Intl.NumberFormat("en");

/** An element with properties and children. */
export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** An element of SVG with attributes and children. */
export function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A number of things: "1 image", "1,200 images". */
export function counted(count, what) {
  return `${whole.format(count)} ${what}${count === 1 ? "" : "s"}`;
}

/** Names with a bar and a figure each; `values` are `[name, value]`, and `write` says a value. */
export function bars(values, end, write) {
  const rows = values.map(([name, value]) => {
    const shown = write(value);
    const bar = element("meter", { max: end, value: Math.min(value, end), ariaLabel: `${name}: ${shown}` });
    return [element("dt", { textContent: name }), element("dd", {}, bar), element("dd", { className: "figure", textContent: shown })];
  });
  return element("dl", { className: "bars" }, ...rows.flat());
}
