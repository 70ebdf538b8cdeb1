// pg-boss on PostgreSQL as it is delivered. Called with the URL of a database and the number of jobs.
import PgBoss from "pg-boss";
import { PAYLOAD, rate, row, whole } from "./measure.mjs";

const [url, countText] = process.argv.slice(2);
const count = Number(countText);
const boss = new PgBoss({ connectionString: url, max: 20, schema: `pgboss_${process.pid}` });
boss.on("error", (error) => { throw error; });
await boss.start();
await boss.createQueue("filled");
await boss.createQueue("worked");
const submitted = await rate(count, 64, () => boss.send("filled", PAYLOAD));
const ended = await whole(count, 64, () => boss.send("worked", PAYLOAD), async (told) => {
    // It asks twice a second at most, so a batch must hold what ends in half a second.
    for (let n = 0; n < 4; n++) {
        await boss.work("worked", { batchSize: 1000, pollingIntervalSeconds: 0.5 }, async (jobs) => { jobs.forEach(told); });
    }
    return () => boss.offWork("worked");
});
await boss.stop({ graceful: false });
row("pg-boss, PostgreSQL", submitted, ended);
process.exit(0);
