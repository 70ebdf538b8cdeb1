// `npm test`. The second test starts a real server: the program forgerun from FORGERUN_BIN or the PATH.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { DevServer, runInline } from "forgerun/testing";

import { writeGreeting } from "./greeting.js";
import { submitGreeting } from "./submit.js";

test("a greeting names the person", async () => {
  const run = await runInline(writeGreeting, { name: "Ada" });
  assert.deepEqual(run.result, { text: "Good morning, Ada!" });
});

test("a greeting is written by a worker", async () => {
  const server = await DevServer.start();
  const worker = spawn(process.execPath, [fileURLToPath(new URL("worker.js", import.meta.url))], {
    env: { ...process.env, FORGERUN_URL: server.url },
    stdio: "inherit",
  });
  const ended = once(worker, "exit");
  try {
    assert.equal(await submitGreeting(server.client(), "Ada"), "Good morning, Ada!");
  } finally {
    worker.kill("SIGTERM");
    const [code] = await ended;
    await server.stop();
    assert.equal(code, 0);
  }
});
