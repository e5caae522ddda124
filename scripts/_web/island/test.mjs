// SPDX-License-Identifier: Apache-2.0
// Runs the island's tests under Node: each is bundled with the TypeScript that it imports.
//
//     node test.mjs FOLDER [FOLDER of the output]

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const tests = resolve(process.argv[2]);
const out = process.argv[3] ?? mkdtempSync(join(tmpdir(), "island-"));
const names = readdirSync(tests).filter((name) => name.endsWith(".test.mjs"));

await build({
  entryPoints: names.map((name) => join(tests, name)),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node18",
  alias: { "#island": join(here, "src") },
  nodePaths: [join(here, "node_modules")],
  loader: { ".json": "json" },
  logLevel: "warning",
});
const built = names.map((name) => join(out, basename(name)));
const done = spawnSync(process.execPath, ["--test", ...built], { stdio: "inherit" });
process.exit(done.status ?? 1);
