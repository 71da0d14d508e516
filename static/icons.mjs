// Collects the lucide icons that the project names into one SVG sprite.
//
// An icon is used by {% icon "play" %} in a template, icon("play") in a script, or a line `icon = "play"` in Python.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";

const SOURCES = ["templates", "static/js", "interviews", "grading"];
const USE = /\bicon\s*(?:\(|=|\s)\s*["']([a-z0-9-]+)["']/g;

function* sourceFiles(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const full = path.join(folder, entry.name);
    // The bank's files are questions, and full of words that name no icon.
    if (entry.isDirectory() && entry.name !== "bank" && entry.name !== "__pycache__") yield* sourceFiles(full);
    else if (/\.(html|js|py)$/.test(entry.name)) yield full;
  }
}

/** Maps the name of every icon in use to the first file that uses it. */
export function iconsInUse(project) {
  const names = new Map();
  for (const source of SOURCES.map((folder) => path.join(project, folder)).filter(existsSync)) {
    for (const file of sourceFiles(source)) {
      for (const [, name] of readFileSync(file, "utf8").matchAll(USE)) if (!names.has(name)) names.set(name, file);
    }
  }
  return names;
}

/** The sprite's text. Throws for a name that lucide does not have. */
export function buildSprite(project) {
  const symbols = [...iconsInUse(project)].sort().map(([name, file]) => {
    const source = path.join(project, "node_modules/lucide-static/icons", `${name}.svg`);
    if (!existsSync(source)) throw new Error(`${file}: lucide has no icon named "${name}"`);
    const body = readFileSync(source, "utf8").match(/<svg[^>]*>([\s\S]*)<\/svg>/)[1];
    return `<symbol id="${name}" viewBox="0 0 24 24">${body.replace(/\s+/g, " ").trim()}</symbol>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg">${symbols.join("")}</svg>\n`;
}
