import { Worker } from "forgerun/worker";

const jobs = Number(process.env.JOBS);
let done = 0;
const worker = new Worker({ concurrency: 32, signals: false });
worker.job("noop", () => {
  if (++done === jobs) worker.stop();
});
const began = performance.now();
const cpu = process.cpuUsage();
await worker.run();
const spent = process.cpuUsage(cpu);
process.send({ seconds: (performance.now() - began) / 1000, cpuS: (spent.user + spent.system) / 1e6 });
process.disconnect();
