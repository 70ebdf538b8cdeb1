// Compiled, not run: what users write has the types that they expect.
import { Client, chain, forEach, nested, step, wait, type Job, type JobState } from "forgerun";
import { jobHandler as expressJobHandler } from "forgerun/express";
import { jobHandler, webhookHandler } from "forgerun/next";
import { FakeClient, runInline } from "forgerun/testing";
import { verify } from "forgerun/webhooks";
import { Worker, type JobContext } from "forgerun/worker";

interface Invoice {
  customer: string;
}
interface Pdf {
  pages: number;
}

export async function client(): Promise<number> {
  const client: Client = new FakeClient();
  const job: Job<Pdf> = await client.submit<Pdf>("invoice.render", { customer: "Ada" }, { queue: "invoices", timeout: "90s" });
  const state: JobState = (await job.status()).state;
  await client.startWorkflow(chain(step("a"), step("b", 1, { compensate: step("c") })), { name: state });
  for await (const line of job.logs({ follow: true, stream: "output" })) line.seq.toFixed();
  await client.startWorkflow(chain(wait({ for: "1h" }), forEach("a", { args: ["$item"] }), nested(chain(step("a")))), { deadline: 1000 });
  // @ts-expect-error a state is text
  const wrong: number = (await job.status()).state;
  // @ts-expect-error no such option
  await client.submit("a", null, { queu: "x" });
  return (await job.result({ timeoutMs: 1000 })).pages + wrong;
}

export async function worker(): Promise<number> {
  const render = async (ctx: JobContext, invoice: Invoice): Promise<Pdf> => {
    const pages = await ctx.step("count", () => invoice.customer.length);
    // @ts-expect-error a step has the type of its function
    const text: string = pages;
    return { pages: pages + text.length };
  };
  const worker = new Worker({ queues: ["invoices"], concurrency: 4, lease: "10s" }).job("invoice.render", render);
  expressJobHandler(render.length === 2 ? () => 1 : () => 2);
  jobHandler<Invoice, Pdf>((_, invoice) => ({ pages: invoice.customer.length }));
  webhookHandler(({ event }) => event, { secret: "whsec_" });
  const { result } = await runInline(render, { customer: "Ada" });
  return result.pages + (await worker.run()).succeeded + (await verify("", {}, "whsec_")).id.length;
}
