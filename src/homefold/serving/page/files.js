// The image files in what was dropped, chosen or pasted, folders to the bottom.

const ENDINGS = /\.(jpe?g|png|webp|bmp|tiff?|gif)$/i;

function isImage(file) {
  return file.type.startsWith("image/") || ENDINGS.test(file.name);
}

/**
 * The images among files that were chosen, and how many others there are. A single other file is kept, so that the
 * server can say what is wrong.
 */
export function images(files) {
  const all = [...files].filter((file) => !file.name.startsWith("."));
  const found = all.length === 1 ? all : all.filter(isImage);
  return { found, others: all.length - found.length };
}

/** The same for what was dropped or pasted. */
export async function transferred(transfer) {
  // The entries are gone once this function has waited for anything.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (entries.length === 0) return images(transfer.files);
  return images((await Promise.all(entries.map(within))).flat());
}

async function within(entry) {
  if (entry.isFile) return [await new Promise((resolve, reject) => entry.file(resolve, reject))];
  const reader = entry.createReader();
  const found = [];
  // A reader gives its entries in portions, the last of them empty.
  for (;;) {
    const portion = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (portion.length === 0) break;
    for (const item of portion) found.push(...(await within(item)));
  }
  return found;
}
