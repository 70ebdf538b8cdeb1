// One real server for the tests of a file, and workers that end with their test.
import { after } from "node:test";

import { DevServer } from "forgerun/testing";
import { Worker } from "forgerun/worker";

export async function startServer() {
  const server = await DevServer.start({ env: { FORGERUN_LIMITS__RATE_PER_MINUTE: "0" } });
  after(() => server.stop());
  return server;
}

let queues = 0;

// Runs a worker with these handlers in a queue of its own while `act` runs.
export async function withWorker(client, handlers, options, act) {
  const queue = `q${process.pid}-${++queues}`;
  const lines = [];
  const worker = new Worker({ client, queues: [queue], signals: false, drain: "5s", log: (level, line) => lines.push(`${level}: ${line}`), ...options });
  for (const [type, handler] of Object.entries(handlers)) worker.job(type, handler);
  const running = worker.run();
  try {
    await Promise.race([act({ queue, worker, lines, running }), running]);
  } finally {
    worker.stop();
  }
  return { lines, stopped: await running };
}

// A promise and what settles it.
export function deferred() {
  let resolve;
  const promise = new Promise((settle) => (resolve = settle));
  return { promise, resolve };
}
