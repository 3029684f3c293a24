// The views, one at a time: arrow keys go from tab to tab, as in any program.

const list = document.getElementById("tabs");
const onOpen = new Map();
let now = "";

function tabs() {
  return [...list.children].filter((tab) => !tab.hidden);
}

/** Shows the view of a tab. */
export function open(name, focus = false) {
  for (const tab of list.children) {
    const isThis = tab.dataset.view === name;
    tab.setAttribute("aria-selected", String(isThis));
    tab.tabIndex = isThis ? 0 : -1;
    document.getElementById(`${tab.dataset.view}-view`).hidden = !isThis;
    if (isThis) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (isThis && focus) tab.focus();
  }
  now = name;
  begin();
}

function begin() {
  const starts = onOpen.get(now);
  onOpen.delete(now);
  starts?.();
}

/** Has a function called when a view is seen for the first time. */
export function whenOpened(name, starts) {
  onOpen.set(name, starts);
  if (name === now) begin();
}

/** Makes the tabs work; those named are left out. */
export function start(leftOut) {
  for (const tab of list.children) {
    tab.hidden = leftOut.includes(tab.dataset.view);
    tab.addEventListener("click", () => open(tab.dataset.view));
  }
  list.addEventListener("keydown", (event) => {
    const shown = tabs();
    const at = shown.findIndex((tab) => tab.getAttribute("aria-selected") === "true");
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: shown.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    open(shown.at(next % shown.length).dataset.view, true);
  });
  list.hidden = false;
}
