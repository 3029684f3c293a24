// Starts the page: the token, the model's facts, then the views.

import { start as startAbout } from "./about.js";
import { isLive, keepToken, labelled, model, takeToken } from "./api.js";
import { start as startCheck } from "./check.js";
import { percent } from "./dom.js";
import { know, start as startDrop } from "./drop.js";
import { columns } from "./gallery.js";
import { start as startMap } from "./map.js";
import { open as openTab, start as startTabs, whenOpened } from "./tabs.js";

const message = document.getElementById("message");
const form = document.getElementById("token-form");
const mapProgress = document.getElementById("map-progress");
const mapDoing = document.getElementById("map-doing");

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

function tellProgress({ doing, share_done: share }) {
  mapProgress.value = share;
  mapDoing.textContent = share > 0 ? `${doing}: ${percent.format(share)}` : `${doing}…`;
}

async function survey(known) {
  try {
    const points = await columns(known, tellProgress);
    document.getElementById("map-waiting").hidden = true;
    document.getElementById("map-body").hidden = false;
    startMap(points);
    know(points);
    whenOpened("check", () => startCheck(points));
  } catch (error) {
    mapProgress.hidden = true;
    mapDoing.textContent = error.message;
    document.getElementById("check-waiting").textContent = error.message;
  }
}

let hasStarted = false;

async function open() {
  if (hasStarted) return;
  try {
    const facts = await model();
    const gallery = await labelled();
    hasStarted = true;
    tell("");
    form.hidden = true;
    describe(facts);
    if (isLive) startDrop(facts.limits);
    const hasImages = gallery.state !== "none";
    startAbout(facts, gallery);
    startTabs([...(hasImages ? [] : ["map", "check"]), ...(isLive ? [] : ["drop"])]);
    openTab(hasImages ? "map" : "drop");
    if (hasImages) survey(gallery);
  } catch (error) {
    document.getElementById("model-facts").textContent = "";
    const isAskedAgain = !form.hidden;
    form.hidden = error.status !== 401;
    tell(form.hidden ? error.message : isAskedAgain ? "That is not the server's token." : "This page needs the server's token.");
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
