// The server's interface: the token, requests, and failures as sentences.

const KEPT_AS = "homefold-token";

/** What went wrong, in words for a person. */
export class Failure extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

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
export async function ask(path, options = {}, tries = 5) {
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
