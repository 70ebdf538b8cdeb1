// BullMQ on a Redis that syncs before it answers. Called with the port of Redis and the number of jobs.
import { Queue, Worker } from "bullmq";
import { PAYLOAD, rate, row, whole } from "./measure.mjs";

const [port, count] = process.argv.slice(2).map(Number);
const connection = { host: "127.0.0.1", port };
const options = { removeOnComplete: 1000, removeOnFail: 1000 };

const filled = new Queue("filled", { connection });
const submitted = await rate(count, 64, () => filled.add("report", PAYLOAD, options));
await filled.obliterate({ force: true });
await filled.close();

const queue = new Queue("worked", { connection });
const ended = await whole(count, 64, () => queue.add("report", PAYLOAD, options), async (told) => {
    const worker = new Worker("worked", async () => ({}), { connection, concurrency: 64 });
    worker.on("completed", told);
    await worker.waitUntilReady();
    return () => worker.close();
});
await queue.close();
row("BullMQ, Redis `appendfsync always`", submitted, ended);
