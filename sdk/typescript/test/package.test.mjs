// The package as users get it: both kinds of modules, nothing of Node in the client, and a README that works.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Client, JobFailed } from "forgerun";
import { findBinary } from "forgerun/testing";

import { startServer } from "./support/server.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const server = await startServer();
const environment = (more) => ({ PATH: process.env.PATH, ...more });

test("every entry is there as an ES module and as CommonJS, with the same names", async () => {
  const require = createRequire(import.meta.url);
  const { exports } = require("forgerun/package.json");
  const entries = Object.keys(exports).filter((entry) => entry !== "./package.json");
  assert.equal(entries.length, 6);
  for (const entry of entries) {
    const name = `forgerun${entry.slice(1)}`;
    const names = (module) => Object.keys(module).filter((key) => key !== "default" && key !== "module.exports").sort();
    assert.deepEqual(names(require(name)), names(await import(name)), name);
    assert(names(require(name)).length > 0, name);
    for (const { types } of Object.values(exports[entry])) readFileSync(join(root, types));
  }
});

// All files that an entry leads to.
function reach(file, seen = new Set()) {
  if (seen.has(file)) return seen;
  seen.add(file);
  for (const [, target] of readFileSync(file, "utf8").matchAll(/from "(\.[^"]+)"/g)) reach(join(dirname(file), target), seen);
  return seen;
}

test("a bundle for browsers has nothing of Node in it", () => {
  for (const entry of ["index.js", "webhooks.js", "frameworks/next.js"]) {
    const files = [...reach(join(root, "dist/esm", entry))];
    for (const file of files) assert.doesNotMatch(readFileSync(file, "utf8"), /from "node:|require\(|Buffer\./, file);
  }
  const client = [...reach(join(root, "dist/esm/index.js"))];
  assert(client.length > 10 && !client.some((file) => /worker|testing|webhooks/.test(file.slice(root.length))));
});

test("the client works where there is no process", async () => {
  const code = `
    import { Client } from "forgerun";
    delete globalThis.process;
    const client = new Client({ url: ${JSON.stringify(server.url)} });
    const job = await client.submit("t");
    console.log((await job.status()).state);`;
  const { stdout } = await run(code);
  assert.equal(stdout.trim(), "QUEUED");
});

test("the package has no dependencies, and its lock file names no registry", () => {
  const { dependencies, devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  assert.equal(dependencies, undefined);
  assert(Object.values(devDependencies).every((version) => /^\d/.test(version)), "versions are exact");
  assert.doesNotMatch(readFileSync(join(root, "package-lock.json"), "utf8"), /https?:/);
});

// Runs a program in which the names of this package are known.
function run(code, env = {}) {
  const args = ["--input-type=module", "--eval", code];
  return promisify(execFile)(process.execPath, args, { cwd: root, env: environment(env), timeout: 60_000 });
}

const readme = readFileSync(join(root, "README.md"), "utf8");
const blocks = [...readme.matchAll(/<!-- (\S+)( not run: [^>]+)? -->\n```(?:js|ts)\n([\s\S]*?)```/g)];

test("every block of code in the README is named, and run or said not to be", () => {
  assert.equal(blocks.length, readme.match(/^```(?:js|ts)$/gm).length);
  assert(blocks.filter(([, , notRun]) => !notRun).length >= 6);
});

for (const [, name, notRun, code] of blocks.filter(([, , notRun]) => !notRun)) {
  test(`README: ${name}`, async () => {
    const env = { FORGERUN_URL: server.url, FORGERUN_BIN: findBinary() };
    const stops = code.includes("worker.run()") && !/^worker\.stop\(\)/m.test(code) ? STOP_WHEN_IDLE : "";
    const { stdout } = await run(`${stops}${code}`, env);
    const expected = [...code.matchAll(/console\.log\(.*\/\/ (.*)$/gm)].map(([, text]) => text);
    assert(expected.length > 0, "a block prints something, with the expected text behind it");
    assert.deepEqual(stdout.trim().split("\n"), expected);
  });
}

// A worker of the README stops once its first job is done.
const STOP_WHEN_IDLE = `
  import { Worker as Stopping } from "forgerun/worker";
  const { job } = Stopping.prototype;
  Stopping.prototype.job = function (type, handler) {
    return job.call(this, type, async (...given) => {
      try { return await handler(...given); } finally { setImmediate(() => this.stop()); }
    });
  };
`;

test("examples/worker.js does jobs, fails strange ones, outlives its server, and stops when asked", async () => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const dev = async () => {
    const child = spawn(findBinary(), ["dev", "--listen", `127.0.0.1:${port}`], { env: environment({}), stdio: ["ignore", "pipe", "ignore"] });
    await once(child.stdout, "data");
    return child;
  };
  const kill = async (child) => {
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  let running = await dev();
  const example = readFileSync(join(root, "../../examples/worker.js"), "utf8");
  assert(example.split("\n").length <= 15);
  // Run from here, as if the package was installed beside it.
  const worker = spawn(process.execPath, ["--input-type=commonjs", "--eval", example.replace(/^#!.*\n/, "")], {
    cwd: root,
    env: environment({ FORGERUN_URL: url }),
    stdio: "ignore",
  });
  try {
    const client = new Client({ url });
    assert.deepEqual(await (await client.submit("text.upper", "hello")).result(), { text: "HELLO" });
    await assert.rejects((await client.submit("text.nothing")).result(), (error) => error instanceof JobFailed && /text\.nothing/.test(error.message));
    await kill(running);
    running = await dev();
    assert.deepEqual(await (await client.submit("text.upper", "again")).result(), { text: "AGAIN" });
    await assert.rejects((await client.submit("text.upper", { no: "text" }, { maxRetries: 0 })).result(), JobFailed);
    const exited = once(worker, "exit");
    worker.kill("SIGTERM");
    assert.deepEqual(await exited, [0, null]);
  } finally {
    worker.kill("SIGKILL");
    await kill(running);
  }
});

async function freePort() {
  const listening = createServer().listen(0, "127.0.0.1");
  await once(listening, "listening");
  const { port } = listening.address();
  listening.close();
  await once(listening, "close");
  return port;
}

test("every test file is run", () => {
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  assert(scripts.test.includes("test/*.test.mjs"));
  assert(readdirSync(join(root, "test")).filter((name) => name.endsWith(".test.mjs")).length >= 8);
});
