// What the page asks for, out of the folder that it was exported to; it stands in for the api.js of the server's page.

const { model: facts, explorer, points, usual, pictures, together, why } = globalThis.homefold;

/** What went wrong, in words for a person. */
export class Failure extends Error {}

export const isLive = false;
export const hasPictures = pictures !== null;

export function takeToken() {}

/** What the model is. */
export async function model() {
  return facts;
}

/** What the labelled images are. */
export async function labelled() {
  return explorer;
}

/** Every column of all images, one after the other. */
export async function columnsOfAll() {
  return Uint8Array.from(atob(points), (letter) => letter.charCodeAt(0)).buffer;
}

/** Off-manifold scores of held-out source images. */
export async function usualScores() {
  return usual;
}

/** Where the picture of a labelled image is. */
export async function pictureAddress(row) {
  return `pictures/${Math.floor(row / together)}/${row}.${pictures}`;
}

const loading = new Map();

function loaded(address) {
  if (!loading.has(address)) {
    loading.set(
      address,
      new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = address;
        script.onload = resolve;
        script.onerror = () => reject(new Failure(`The file ${address} is missing beside this page.`));
        document.head.append(script);
      }),
    );
  }
  return loading.get(address);
}

/** Why a labelled image gets its answer. */
export async function explainRow(row) {
  const part = Math.floor(row / together);
  await loaded(`data/why-${part}.js`);
  return why[part][row % together];
}
