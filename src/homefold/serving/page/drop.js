// The view "Drop an image": files in, cards out, a few requests at a time.

import { explain, predict } from "./api.js";
import { card, fail, fill } from "./answers.js";
import { counted, element } from "./dom.js";
import { images, transferred } from "./files.js";
import { offer } from "./hold.js";
import { open as openTab } from "./tabs.js";
import { show as showWhy } from "./why.js";

const AT_ONCE = 8;

const zone = document.getElementById("drop-zone");
const list = document.getElementById("answers");
const status = document.getElementById("status");
const progress = document.getElementById("progress");
const clear = document.getElementById("clear");

const why = document.getElementById("why");
const image = document.getElementById("why-image");
const reasons = document.getElementById("why-reasons");

let limits;
let points = null;
let asked = 0;
let answered = [];
let waiting = [];
let working = 0;
let done = 0;
let total = 0;
let left = 0;
let stop = new AbortController();

function show() {
  progress.hidden = done === total;
  progress.value = total ? done / total : 0;
  const leftOut = left ? `; ${counted(left, "file")} left out: no image` : "";
  status.textContent = total ? `${done} of ${total} answered${leftOut}` : "";
  clear.hidden = total === 0;
  offer(done === total ? answered : [], limits);
}

function add({ found, others }) {
  if (found.length === 0) {
    status.textContent = "There is no image among these files.";
    return;
  }
  left += others;
  for (const file of found) {
    const made = card(file);
    list.append(made);
    waiting.push([file, made]);
    total += 1;
  }
  show();
  while (working < AT_ONCE && waiting.length) work();
}

async function work() {
  working += 1;
  const { signal } = stop;
  while (waiting.length && !signal.aborted) {
    const [file, made] = waiting.shift();
    try {
      if (file.size > limits.body_bytes) {
        throw new Error(`The file is larger than the ${Math.floor(limits.body_bytes / 2 ** 20)} MiB that the server takes.`);
      }
      const answer = await predict(file, signal);
      fill(made, answer, () => reason(file, made, true));
      answered.push(file);
      if (total === 1) reason(file, made, false);
    } catch (error) {
      if (signal.aborted) break;
      fail(made, error.message);
    }
    done += 1;
    show();
  }
  working -= 1;
}

async function reason(file, made, isAsked) {
  const turn = (asked += 1);
  for (const other of list.children) other.classList.toggle("chosen", other === made);
  document.getElementById("why-file").textContent = file.name;
  const shown = made.querySelector("img");
  image.hidden = !shown;
  if (shown) image.src = shown.src;
  reasons.replaceChildren(element("p", { className: "hint", textContent: "Looking for the reasons…" }));
  why.hidden = false;
  if (isAsked) why.focus();
  try {
    const found = await explain(file);
    if (turn === asked) await showWhy(reasons, found, points);
  } catch (error) {
    if (turn === asked) reasons.replaceChildren(element("p", { className: "far", textContent: error.message }));
  }
}

/** Takes the labelled images, once they are there. */
export function know(given) {
  points = given;
}

function empty() {
  asked += 1;
  why.hidden = true;
  stop.abort();
  stop = new AbortController();
  waiting = [];
  answered = [];
  for (const made of list.children) made.letGo();
  list.replaceChildren();
  done = total = left = 0;
  show();
}

/** Makes the view work, within the server's limits. */
export function start(given) {
  limits = given;
  for (const name of ["dragenter", "dragover"]) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      zone.classList.add("over");
    });
  }
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) zone.classList.remove("over");
  });
  document.addEventListener("drop", async (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    openTab("drop");
    add(await transferred(event.dataTransfer));
  });
  document.addEventListener("paste", async (event) => {
    const pasted = await transferred(event.clipboardData);
    if (!pasted.found.length) return;
    openTab("drop");
    add(pasted);
  });
  for (const id of ["files", "folder"]) {
    document.getElementById(id).addEventListener("change", (event) => {
      add(images(event.target.files));
      event.target.value = "";
    });
  }
  clear.addEventListener("click", empty);
}
