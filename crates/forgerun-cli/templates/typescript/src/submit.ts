// Submits a job and waits for its result: `npm run submit Ada`. The server is FORGERUN_URL, or http://127.0.0.1:8080.
import { pathToFileURL } from "node:url";

import { Client } from "forgerun";

import type { Greeting } from "./greeting.js";

export async function submitGreeting(client: Client, name: string): Promise<string> {
  const job = await client.submit("greeting.write", { name }, { queue: "greetings", maxRetries: 3 });
  const greeting = (await job.result({ timeoutMs: 60_000 })) as Greeting;
  return greeting.text;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  console.log(await submitGreeting(new Client(), process.argv[2] ?? "world"));
}
