// Compiled, not run: what works in browsers needs no types of Node.
import { Client, type JobEvent } from "forgerun";
import { jobHandler } from "forgerun/next";
import { verify } from "forgerun/webhooks";

export async function page(): Promise<JobEvent | undefined> {
  for await (const event of new Client({ url: "/" }).job("j").events()) return event;
  await verify("", new Headers(), { keys: [{ kid: "k" }] });
  jobHandler((ctx) => ctx.cancelled);
  return undefined;
}
