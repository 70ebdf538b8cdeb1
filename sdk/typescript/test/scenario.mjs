// The adapter of the scenario suite: one JSON object per line in, one per line out. See sdk/scenarios.
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { chain, Client, forEach, graph, step, wait } from "forgerun";
import { Fatal, RetryLater, Worker } from "forgerun/worker";

const client = new Client();
const log = (...words) => appendFileSync(process.env.FORGERUN_SCENARIO_LOG, `${words.join(" ")}\n`);

// Each run of a handler is noted.
const noted = (handler) => async (ctx, input) => {
  const { type, id, attempt } = ctx.job;
  log(type, id, attempt, "begin");
  try {
    const output = await handler(ctx, input);
    log(type, id, attempt, "end");
    return output;
  } catch (error) {
    log(type, id, attempt, ctx.cancelled ? "cancelled" : "end");
    throw error;
  }
};

const handlers = {
  echo: (_, input) => input,
  add: (_, numbers) => numbers.reduce((sum, n) => sum + n, 0),
  fail: (_, { message, retryable }) => {
    throw retryable === false ? new Fatal(message) : new Error(message);
  },
  flaky: (ctx, { failures }) => {
    if (ctx.job.attempt <= failures) throw new Error(`attempt ${ctx.job.attempt} of ${failures} that fail`);
    return ctx.job.attempt;
  },
  progress: async (ctx) => {
    for (const percent of [10, 50, 90]) await ctx.progress(percent);
    return "done";
  },
  sleep: (ctx, { ms }) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, ms, "slept");
      ctx.signal.addEventListener("abort", () => (clearTimeout(timer), reject(ctx.signal.reason)));
    }),
  say: (ctx, texts) => texts.forEach((text) => ctx.log(text)),
  parents: (ctx) => ctx.parents,
  steps: async (ctx) => {
    const { type, id, attempt } = ctx.job;
    const a = await ctx.step("a", () => (log(type, id, attempt, "step-a"), 1));
    if (attempt === 1) throw new Error("between the steps");
    const b = await ctx.step("b", () => (log(type, id, attempt, "step-b"), 2));
    return [a, b];
  },
  ask: (ctx) => ctx.waitFor("approved", { timeout: "10m" }),
  plan: async (ctx, { queue, names }) => {
    const steps = names.map((id) => step("echo", id, { id, queue, dependsOn: ["plan"] }));
    await ctx.addSteps(...steps, step("parents", null, { id: "last", queue, dependsOn: names }));
  },
  crash: (ctx) => {
    if (ctx.job.attempt === 1) process.kill(process.pid, "SIGKILL");
    return "survived";
  },
  later: (ctx) => {
    if (ctx.job.attempt === 1) throw new RetryLater(200);
    return "done";
  },
};

let worker;
let running;

function startWorker({ queues, concurrency, lease_ms }) {
  worker = new Worker({ client, queues, concurrency, lease: lease_ms, signals: true });
  for (const [type, handler] of Object.entries(handlers)) worker.job(type, noted(handler));
  running = worker.run();
  running.catch((error) => process.stderr.write(`the worker ended: ${error}\n`));
  return {};
}

async function stopWorker() {
  worker?.stop();
  await running;
  worker = running = undefined;
  return {};
}

const optionsOf = ({ queue, options = {} }) => ({
  queue,
  maxRetries: options.max_retries,
  priority: options.priority,
  delay: options.delay_ms,
  timeout: options.timeout,
  deadline: options.deadline,
  tags: options.tags,
  uniqueKey: options.unique_key,
  idempotencyKey: options.idempotency_key,
});

const stepOf = ({ id, type, args, queue, options, depends_on, compensate }) =>
  step(type, args, { id, dependsOn: depends_on, compensate: compensate && stepOf(compensate), ...optionsOf({ queue, options }) });

const workOf = (ask) => {
  const place = { id: ask.id, dependsOn: ask.depends_on };
  if (ask.wait) return wait({ ...ask.wait, ...place });
  return ask.for_each ? forEach(ask.type, { ...ask.for_each, args: ask.args, queue: ask.queue, ...place }) : stepOf(ask);
};

const verbs = {
  submit: async (ask) => ({ job_id: (await client.submit(ask.type, ask.args, optionsOf(ask))).id }),
  submit_many: async ({ jobs }) => {
    const handles = await client.submitMany(jobs.map((job) => ({ type: job.type, input: job.args, ...optionsOf(job) })));
    return { job_ids: handles.map(({ id }) => id) };
  },
  result: async ({ job_id, timeout_ms }) => {
    const value = await client.job(job_id).result({ timeoutMs: timeout_ms });
    return { value: value ?? null };
  },
  status: async ({ job_id }) => {
    const { state, attempt, progress } = await client.job(job_id).status();
    return { state, attempt, progress: progress ?? null };
  },
  cancel: async ({ job_id }) => ({ state: await client.job(job_id).cancel() }),
  retry: async ({ job_id }) => ({ state: await client.job(job_id).retry() }),
  events: async ({ job_id, timeout_ms }) => {
    const events = [];
    const signal = AbortSignal.timeout(timeout_ms ?? 60_000);
    for await (const { id, name } of client.job(job_id).events({ signal })) events.push({ id, name });
    return { events };
  },
  workflow: async ({ name, steps, chain: links }) => {
    const flow = links ? chain(...links.map(stepOf)) : graph(...steps.map(workOf));
    return { job_id: (await client.startWorkflow(flow, { name })).id };
  },
  signal: async ({ workflow_id, job_id, name, payload }) => {
    await (job_id ? client.job(job_id).signal(name, payload) : client.signal(workflow_id, name, payload));
    return {};
  },
  logs: async ({ job_id, follow }) => {
    const lines = [];
    for await (const { seq, text } of client.job(job_id).logs({ follow })) lines.push({ seq, text });
    return { lines };
  },
  workflow_status: async ({ workflow_id, job_id }) => ({ state: (await client.workflow(workflow_id ?? job_id).status()).state }),
  schedule: async ({ name, cron, type, args, queue }) => {
    await client.setSchedule(name, { cron, type, input: args, queue });
    return {};
  },
  unschedule: async ({ name }) => {
    await client.schedule(name).delete();
    return {};
  },
  worker: startWorker,
  stop_worker: stopWorker,
};

const errorOf = (error) => ({
  class: error.name === "UnreachableError" ? "BackendError" : error.name,
  code: typeof error.code === "string" ? error.code : null,
  message: error.message,
  retryable: error.retryable ?? false,
});

async function answer(line) {
  const ask = JSON.parse(line);
  try {
    const verb = verbs[ask.do];
    if (!verb) throw new TypeError(`unknown verb ${ask.do}`);
    process.stdout.write(`${JSON.stringify({ id: ask.id, ok: await verb(ask) })}\n`);
  } catch (error) {
    process.stdout.write(`${JSON.stringify({ id: ask.id, error: errorOf(error) })}\n`);
  }
}

const answers = new Set();
for await (const line of createInterface({ input: process.stdin })) {
  const answered = answer(line);
  answers.add(answered);
  void answered.then(() => answers.delete(answered));
}
await stopWorker();
process.exit(0);
