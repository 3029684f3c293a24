// Starts the page: the token, the model's facts, then the views.

import { keepToken, model, takeToken } from "./api.js";
import { start } from "./drop.js";

const message = document.getElementById("message");
const form = document.getElementById("token-form");

function tell(sentence) {
  message.textContent = sentence;
  message.hidden = !sentence;
}

function describe(facts) {
  document.title = `${facts.name} · homefold`;
  document.getElementById("model-name").textContent = facts.name;
  const domains = facts.source_domains.join(", ");
  document.getElementById("model-facts").textContent =
    `${facts.classes.length} classes, learned from ${domains}; ${facts.image_size} px, on ${facts.device}`;
}

let hasStarted = false;

async function open() {
  if (hasStarted) return;
  try {
    const facts = await model();
    hasStarted = true;
    tell("");
    form.hidden = true;
    describe(facts);
    start(facts.limits);
    document.getElementById("drop-view").hidden = false;
  } catch (error) {
    document.getElementById("model-facts").textContent = "";
    form.hidden = error.status !== 401;
    tell(error.message);
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(document.getElementById("token").value);
  open();
});

// The address may be pasted into a tab that is open already.
addEventListener("hashchange", () => {
  takeToken();
  open();
});

takeToken();
open();
