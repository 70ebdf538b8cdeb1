#!/usr/bin/env node
// The command `forgerun`: runs the binary of the package for this platform, which npm installs along.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";

const platform = `${process.platform}-${process.arch}`;
let binary = process.env.FORGERUN_BIN;
if (!binary) {
  try {
    binary = createRequire(import.meta.url).resolve(`@forgerun/${platform}/bin/forgerun`);
  } catch {
    console.error(`forgerun: there is no @forgerun/${platform} here. Install without --omit=optional, or name a binary in FORGERUN_BIN.`);
    process.exit(1);
  }
}

const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
// A terminal sends SIGINT to both; what is sent to this process alone is passed on, so that the binary decides how it ends.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`forgerun: could not start ${binary}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
