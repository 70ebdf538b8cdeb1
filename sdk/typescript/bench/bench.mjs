// Measures how many jobs one worker process does per second, with 32 at once and a handler that does nothing, and beside it
// BullMQ, alternating. Each run has a queue that was filled before; from the start of the worker to the report of the last end.
//
//   FORGERUN_BIN=… [REDIS_SERVER=…] [BULLMQ=path/of/its/folder] node bench/bench.mjs [jobs] [rounds]
//
// ForgeRun: `serve` on SQLite, each commit on disk. Redis: appendonly yes, appendfsync always.
import { fork, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { Client } from "forgerun";

const jobs = Number(process.argv[2] ?? 20_000);
const rounds = Number(process.argv[3] ?? 3);
const here = fileURLToPath(new URL(".", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "forgerun-bench-"));

// Seconds that a process has spent on processors.
const cpuOf = (pid) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
};

async function measure(script, env, server) {
  const cpu = cpuOf(server.pid);
  const worker = fork(join(here, script), { env: { ...process.env, ...env, JOBS: String(jobs) } });
  const [report] = await once(worker, "message");
  await once(worker, "exit");
  const spent = { worker: report.cpuS, server: cpuOf(server.pid) - cpu };
  const us = (seconds) => `${((seconds / jobs) * 1e6).toFixed(0)} µs`;
  const rate = jobs / report.seconds;
  console.log(`  ${rate.toFixed(0)} jobs/s, CPU per job: worker ${us(spent.worker)}, server ${us(spent.server)}`);
  return rate;
}

async function forgerun() {
  const data = mkdtempSync(join(folder, "forgerun-"));
  const env = {
    PATH: process.env.PATH,
    FORGERUN_AUTH__MODE: "open",
    FORGERUN_LIMITS__RATE_PER_MINUTE: "0",
    FORGERUN_LIMITS__QUEUE_SIZE: "1000000",
    FORGERUN_LOG__LEVEL: "warn",
  };
  const server = spawn(process.env.FORGERUN_BIN, ["serve", "--listen", "127.0.0.1:0", "--data", data], { env, stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(server.stdout, "data");
  const url = /http:\S+/.exec(String(line))[0];
  const client = new Client({ url });
  await client.submitMany(Array.from({ length: jobs }, (_, n) => ({ type: "noop", input: { n } })));
  const rate = await measure("worker-forgerun.mjs", { FORGERUN_URL: url }, server);
  server.kill();
  await once(server, "exit");
  return rate;
}

async function bullmq() {
  const { Queue } = createRequire(join(process.env.BULLMQ, "bench.js"))("bullmq");
  const port = await freePort();
  const dir = mkdtempSync(join(folder, "redis-"));
  const args = ["--port", port, "--bind", "127.0.0.1", "--dir", dir, "--appendonly", "yes", "--appendfsync", "always", "--save", ""];
  const server = spawn(process.env.REDIS_SERVER ?? "redis-server", args.map(String), { stdio: ["ignore", "ignore", "inherit"] });
  await connectable(port);
  const queue = new Queue("bench", { connection: { host: "127.0.0.1", port } });
  for (let n = 0; n < jobs; n += 1000) {
    await queue.addBulk(Array.from({ length: Math.min(1000, jobs - n) }, (_, i) => ({ name: "noop", data: { n: n + i }, opts: { removeOnComplete: 1000 } })));
  }
  await queue.close();
  const rate = await measure("worker-bullmq.mjs", { REDIS_PORT: String(port) }, server);
  server.kill();
  await once(server, "exit");
  return rate;
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

async function connectable(port) {
  for (;;) {
    const socket = createConnection(port, "127.0.0.1");
    const open = await Promise.race([once(socket, "connect").then(() => true), once(socket, "error").then(() => false)]).catch(() => false);
    socket.destroy();
    if (open) return;
    await new Promise((wake) => setTimeout(wake, 20));
  }
}

const median = (rates) => rates.sort((a, b) => a - b)[Math.floor(rates.length / 2)];
const rates = { forgerun: [], bullmq: [] };
for (let round = 0; round < rounds; round++) {
  console.log(`round ${round + 1}, ${jobs} jobs, forgerun`);
  rates.forgerun.push(await forgerun());
  if (!process.env.BULLMQ) continue;
  console.log(`round ${round + 1}, ${jobs} jobs, bullmq`);
  rates.bullmq.push(await bullmq());
}
for (const [name, all] of Object.entries(rates)) {
  if (all.length > 0) console.log(`${name}: median ${median(all).toFixed(0)} jobs/s`);
}
rmSync(folder, { recursive: true, force: true });
