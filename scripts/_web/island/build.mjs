// SPDX-License-Identifier: Apache-2.0
// Builds the page's script: `main.js`, which each page loads, and chunks that it loads when needed.
//
//     node build.mjs [folder]      (default: ../pages/static/island)
//
// What was in the folder before is removed. Each file is minified ES2022 without eval, so that the
// page's Content-Security-Policy can forbid everything but files of its own.

import { readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "..", "pages", "static", "island");

rmSync(out, { recursive: true, force: true });
await build({
  absWorkingDir: here,
  entryPoints: { main: "src/main.ts" },
  outdir: out,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none",
  chunkNames: "chunk-[hash]",
  logLevel: "warning",
});

for (const name of readdirSync(out).sort()) {
  const bytes = readFileSync(join(out, name));
  console.log(`${name}: ${bytes.length} bytes, ${gzipSync(bytes).length} compressed`);
}
