// Compiles `src` twice: to ECMAScript modules in `dist/esm`, and to CommonJS in `dist/cjs`.
import { execFileSync } from "node:child_process";
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const dist = join(root, "dist");
const made = join(root, "dist.new");
rmSync(made, { recursive: true, force: true });
for (const [format, module] of [["esm", "esnext"], ["cjs", "commonjs"]]) {
  const out = join(made, format);
  mkdirSync(out, { recursive: true });
  // A package.json tells Node, and TypeScript, which kind of module the files are.
  writeFileSync(join(out, "package.json"), JSON.stringify({ type: format === "esm" ? "module" : "commonjs" }));
  execFileSync(process.execPath, [tsc, "-p", root, "--module", module, "--outDir", out], { stdio: "inherit" });
}
// Replaced at once, so that a program that runs meanwhile finds the one or the other.
rmSync(dist, { recursive: true, force: true });
renameSync(made, dist);
