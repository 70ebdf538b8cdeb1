import { createRequire } from "node:module";
import { join } from "node:path";

const { Worker } = createRequire(join(process.env.BULLMQ, "bench.js"))("bullmq");
const jobs = Number(process.env.JOBS);
const connection = { host: "127.0.0.1", port: Number(process.env.REDIS_PORT) };
let done = 0;
const began = performance.now();
const cpu = process.cpuUsage();
const worker = new Worker("bench", async () => undefined, { connection, concurrency: 32 });
worker.on("completed", async () => {
  if (++done < jobs) return;
  const seconds = (performance.now() - began) / 1000;
  const spent = process.cpuUsage(cpu);
  await worker.close();
  process.send({ seconds, cpuS: (spent.user + spent.system) / 1e6 });
  process.disconnect();
});
