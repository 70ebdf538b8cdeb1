// beanstalkd over its own protocol, one socket a caller. Called with its port, the number of jobs, and how seldom it syncs in ms.
import net from "node:net";
import { PAYLOAD, rate, row, whole } from "./measure.mjs";

const [port, count, sync] = process.argv.slice(2).map(Number);
const body = JSON.stringify(PAYLOAD);
const put = `put 0 0 600 ${body.length}\r\n${body}\r\n`;

/** A connection on which one command at a time is under way; answers are their first line. */
async function connect() {
    const socket = net.connect(port, "127.0.0.1");
    await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
    socket.setNoDelay(true);
    let text = "", waiting = null, skip = 0;
    socket.setEncoding("latin1").on("data", (more) => {
        text += more;
        const end = text.indexOf("\r\n");
        if (end < 0 || !waiting) return;
        const line = text.slice(0, end);
        skip = line.startsWith("RESERVED") ? Number(line.split(" ")[2]) + 2 : 0;
        if (text.length < end + 2 + skip) return;
        text = text.slice(end + 2 + skip);
        const done = waiting;
        waiting = null;
        done(line);
    });
    const ask = (command) => new Promise((resolve) => { waiting = resolve; socket.write(command); });
    return { ask, close: () => socket.destroy() };
}

const expect = (line, word) => { if (!line.startsWith(word)) throw new Error(`${line} instead of ${word}`); return line; };

const putters = await Promise.all(Array.from({ length: 64 }, connect));
const free = [...putters];
const submit = async () => {
    const connection = free.pop();
    expect(await connection.ask(put), "INSERTED");
    free.push(connection);
};
await Promise.all(putters.map((connection) => connection.ask("use filled\r\n")));
const submitted = await rate(count, 64, submit);
await Promise.all(putters.map((connection) => connection.ask("use worked\r\n")));

const ended = await whole(count, 64, submit, async (told) => {
    const workers = await Promise.all(Array.from({ length: 64 }, connect));
    let over = false;
    for (const worker of workers) {
        (async () => {
            await worker.ask("watch worked\r\n");
            while (!over) {
                const [, id] = expect(await worker.ask("reserve\r\n"), "RESERVED").split(" ");
                expect(await worker.ask(`delete ${id}\r\n`), "DELETED");
                told();
            }
        })().catch((error) => { if (!over) throw error; });
    }
    return async () => { over = true; workers.forEach((worker) => worker.close()); };
});
putters.forEach((connection) => connection.close());
row(sync === 0 ? "beanstalkd `-f 0`" : `beanstalkd, synced every ${sync} ms`, submitted, ended);
process.exit(0);
