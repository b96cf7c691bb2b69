// Builds the page into ../page, the same bytes from the same sources, and records which sources these were.
// With --check it builds elsewhere, and fails where ../page has other bytes.
import { createHash } from "node:crypto";
import { cp, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const committed = path.resolve(here, "../page");
const check = process.argv.includes("--check");
const target = check ? await mkdtemp(path.join(tmpdir(), "kai-page-")) : committed;
/** What the page is made of; services/tests/insight/test_page_files.py reads the same. */
const SOURCES = ["src", "build.mjs", "package.json", "package-lock.json", "tsconfig.json"];

async function filesOf(name) {
  const full = path.join(here, name);
  try {
    const inside = await readdir(full, { withFileTypes: true });
    const nested = await Promise.all(inside.map((each) => filesOf(`${name}/${each.name}`)));
    return nested.flat();
  } catch (error) {
    if (error.code === "ENOTDIR") return [name];
    throw error;
  }
}

/** A digest for each name and its bytes, in the order of the names. */
async function digest() {
  const names = (await Promise.all(SOURCES.map(filesOf))).flat().sort();
  const all = createHash("sha256");
  for (const name of names) {
    const one = createHash("sha256")
      .update(await readFile(path.join(here, name)))
      .digest("hex");
    all.update(`${name} ${one}\n`);
  }
  return all.digest("hex");
}

await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
await build({
  entryPoints: { app: path.join(here, "src/main.tsx") },
  absWorkingDir: here,
  outdir: target,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022", "chrome109", "firefox115", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
  banner: { js: "/* Made from services/kai_insight/web. Licences of what is in it: licences.txt */" },
});
for (const name of ["index.html", "icon.svg"])
  await cp(path.join(here, "src", name), path.join(target, name));
const licences = await Promise.all(
  ["preact", "uplot"].map(
    async (each) => `${each}\n\n${await readFile(path.join(here, "node_modules", each, "LICENSE"), "utf8")}`,
  ),
);
await writeFile(
  path.join(target, "licences.txt"),
  `${licences.map((each) => each.trim()).join("\n\n---\n\n")}\n`,
);
await writeFile(path.join(target, "sources.sha256"), `${await digest()}\n`);

async function bytesOf(folder) {
  const names = (await readdir(folder)).sort();
  return Promise.all(
    names.map(async (name) => `${name} ${(await readFile(path.join(folder, name))).toString("base64")}`),
  );
}

if (check) {
  const [built, kept] = await Promise.all([bytesOf(target), bytesOf(committed)]);
  await rm(target, { recursive: true });
  if (built.join() !== kept.join()) {
    process.stderr.write(
      "services/kai_insight/page is not what its sources give: run `make page` and commit it\n",
    );
    process.exitCode = 1;
  }
}
