// Bundles static/js/*.js and static/css/*.css (each an entry) into static/dist, with source maps, and beside them a sprite
// of the icons that the project uses. Fonts and icons come from npm packages; nothing is loaded from elsewhere at run time.
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import path from "node:path";
import esbuild from "esbuild";
import { buildSprite } from "./icons.mjs";

const root = path.dirname(fileURLToPath(import.meta.url));
const project = path.dirname(root);
const entries = ["js", "css"].flatMap((folder) =>
  readdirSync(path.join(root, folder), { withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(js|css)$/.test(entry.name))
    .map((entry) => path.join(root, folder, entry.name)),
);

// What needs no bundling: the sprite and the images.
const copies = {
  name: "copies",
  setup(build) {
    build.onStart(() => {
      mkdirSync(build.initialOptions.outdir, { recursive: true });
      writeFileSync(path.join(build.initialOptions.outdir, "icons.svg"), buildSprite(project));
      cpSync(path.join(root, "images"), path.join(build.initialOptions.outdir, "images"), { recursive: true });
    });
  },
};

// What an earlier build left and this one did not write. Removed afterwards, so that a running server always finds its files.
function removeStale(written) {
  for (const folder of ["js", "css", "chunks", "assets"]) {
    const full = path.join(options.outdir, folder);
    if (!existsSync(full)) continue;
    for (const name of readdirSync(full)) {
      const file = path.join(full, name);
      if (!written.has(file)) rmSync(file, { recursive: true });
    }
  }
}

const options = {
  entryPoints: entries,
  outdir: path.join(root, "dist"),
  outbase: root,
  bundle: true,
  minify: true,
  sourcemap: true,
  format: "esm",
  splitting: true,
  target: ["es2022"],
  loader: { ".woff2": "file", ".woff": "file", ".svg": "text" },
  assetNames: "assets/[name]-[hash]",
  chunkNames: "chunks/[name]-[hash]",
  logLevel: "info",
  plugins: [copies],
};

if (process.argv.includes("--watch")) {
  const context = await esbuild.context({ ...options, minify: false });
  await context.watch();
} else {
  const { metafile } = await esbuild.build({ ...options, metafile: true });
  removeStale(new Set(Object.keys(metafile.outputs).map((output) => path.resolve(output))));
}
