// The server's interface: the token, requests, and failures as sentences.

const KEPT_AS = "homefold-token";

/** What went wrong, in words for a person. */
export class Failure extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

/** Whether there is a server to ask; a page that was exported has none. */
export const isLive = true;
export const hasPictures = true;

/** Takes the token out of the address, where the server printed it, so that it is in no bookmark and no history. */
export function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    keepToken(given);
    history.replaceState(null, "", location.pathname + location.search);
  }
}

/** Keeps the token for as long as this tab is open. */
export function keepToken(token) {
  sessionStorage.setItem(KEPT_AS, token.trim());
}

/** Asks the server; throws a Failure with its sentence. A server that is busy is asked again when it says so. */
async function ask(path, options = {}, tries = 5) {
  const token = sessionStorage.getItem(KEPT_AS);
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The server cannot be reached. Is it still running?");
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  if (response.status === 503 && tries > 1) {
    await new Promise((resolve) => setTimeout(resolve, 1000 * Number(response.headers.get("Retry-After") ?? 1)));
    return ask(path, options, tries - 1);
  }
  throw new Failure(said.error ?? `The server answered with status ${response.status}.`, response.status);
}

/** What the model is. */
export async function model() {
  return (await ask("v1/model")).json();
}

/** How far the survey of the labelled images is, and what it is about. */
export async function labelled() {
  return (await ask("v1/explorer")).json();
}

/** Every column of all images, one after the other. */
export async function columnsOfAll() {
  return (await ask("v1/explorer/points")).arrayBuffer();
}

/** Off-manifold scores of held-out source images. */
export async function usualScores() {
  return (await (await ask("v1/explain/usual")).json()).scores;
}

/** Where the picture of a labelled image is. */
export async function pictureAddress(row) {
  return URL.createObjectURL(await (await ask(`v1/explorer/images/${row}`)).blob());
}

/** The answer to one image file. */
export async function predict(file, signal) {
  const headers = { "Content-Type": "application/octet-stream" };
  return (await ask("v1/predict?compare=true", { method: "POST", body: file, headers, signal })).json();
}

/** Why an image file gets its answer. */
export async function explain(file) {
  const headers = { "Content-Type": "application/octet-stream" };
  return (await ask("v1/explain", { method: "POST", body: file, headers })).json();
}

/** Why a labelled image gets its answer. */
export async function explainRow(row) {
  return (await ask(`v1/explorer/images/${row}/explain`)).json();
}

/** Whether the model will hold up on images without labels; `rows` in it are places among the files. */
export async function check(files) {
  const body = new FormData();
  for (const file of files) body.append("image", file);
  return (await ask("v1/check", { method: "POST", body })).json();
}
