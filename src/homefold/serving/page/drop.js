// The view "Drop an image": files in, cards out, a few requests at a time.

import { predict } from "./api.js";
import { card, fail, fill } from "./answers.js";
import { images, transferred } from "./files.js";

const AT_ONCE = 8;

const zone = document.getElementById("drop-zone");
const list = document.getElementById("answers");
const status = document.getElementById("status");
const progress = document.getElementById("progress");
const clear = document.getElementById("clear");

let limits;
let waiting = [];
let working = 0;
let done = 0;
let total = 0;
let stop = new AbortController();

function show() {
  progress.hidden = done === total;
  progress.value = total ? done / total : 0;
  status.textContent = total ? `${done} of ${total} answered` : "";
  clear.hidden = total === 0;
}

function add(files) {
  if (files.length === 0) {
    status.textContent = "There is no image among these files.";
    return;
  }
  for (const file of files) {
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
      fill(made, await predict(file, signal));
    } catch (error) {
      if (signal.aborted) break;
      fail(made, error.message);
    }
    done += 1;
    show();
  }
  working -= 1;
}

function empty() {
  stop.abort();
  stop = new AbortController();
  waiting = [];
  for (const made of list.children) made.letGo();
  list.replaceChildren();
  done = total = 0;
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
    add(await transferred(event.dataTransfer));
  });
  document.addEventListener("paste", async (event) => {
    const files = await transferred(event.clipboardData);
    if (files.length) add(files);
  });
  for (const id of ["files", "folder"]) {
    document.getElementById(id).addEventListener("change", (event) => {
      add(images(event.target.files));
      event.target.value = "";
    });
  }
  clear.addEventListener("click", empty);
}
