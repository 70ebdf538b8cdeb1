// An application that submits jobs in transactions of `pg`, and rolls another back.
import { createRequire } from "node:module";
import { submitIn } from "../../typescript/dist/esm/index.js";

const { Client } = createRequire(new URL("../../typescript/", import.meta.url))("pg");
const client = new Client({ connectionString: process.env.DATABASE_URL });
await client.connect();
await client.query("BEGIN");
await submitIn(client, "invoice.lost", { invoice: 0 });
await client.query("ROLLBACK");
for (const invoice of [1, 2]) {
  await client.query("BEGIN");
  console.log(await submitIn(client, "invoice.render", { invoice }, { queue: "invoices" }));
  await client.query("COMMIT");
}
await client.end();
