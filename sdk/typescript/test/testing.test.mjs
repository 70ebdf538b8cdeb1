// The tools that users have for their tests.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";

import { chain, JobCancelled, JobFailed, ResourceError, step, ValidationError, wait } from "forgerun";
import { assertSubmitted, DevServer, FakeClient, runInline } from "forgerun/testing";

test("a fake client records what is submitted", async () => {
  const client = new FakeClient();
  const job = await client.submit("mail", { to: "ada" }, { queue: "mails", tags: ["a"] });
  await client.submitMany([{ type: "sum", input: [1, 2], queue: "sums" }]);
  const found = assertSubmitted(client, "mail", { input: { to: "ada" }, queue: "mails" });
  assert.deepEqual([found.id, found.body.tags, found.body.max_retries], [job.id, ["a"], 3]);
  assertSubmitted(client, "sum", { input: [1, 2] });
  assert.equal(client.submitted.length, 2);
  for (const [type, expected] of [["fax", {}], ["mail", { input: {} }], ["mail", { queue: "default" }]]) {
    assert.throws(() => assertSubmitted(client, type, expected), (error) => error.message.includes('"to":"ada"'));
  }
});

test("the jobs of a fake client end as the test says", async () => {
  const client = new FakeClient();
  const [good, bad, gone] = [await client.submit("a"), await client.submit("b"), await client.submit("c")];
  assert.equal((await good.status()).state, "QUEUED");
  client.succeed(good.id, { n: 1 });
  client.fail(bad.id, "no paper");
  await gone.cancel();
  assert.deepEqual(await good.result(), { n: 1 });
  await assert.rejects(bad.result(), (error) => error instanceof JobFailed && error.message === "no paper");
  await assert.rejects(gone.result(), JobCancelled);
  await assert.rejects(client.job("other").status(), ResourceError);
  assert.throws(() => client.succeed("other"), /no job other/);
});

test("a fake client does jobs by handlers, and knows keys", async () => {
  const client = new FakeClient().handle("double", (_, n) => n * 2).handle("fail", () => {
    throw new Error("no");
  });
  assert.equal(await (await client.submit("double", 21)).result(), 42);
  await assert.rejects((await client.submit("fail")).result(), JobFailed);
  const first = await client.submit("double", 1, { idempotencyKey: "k" });
  assert.equal((await client.submit("double", 1, { idempotencyKey: "k" })).id, first.id);
});

test("a fake client records workflows and schedules", async () => {
  const client = new FakeClient();
  await client.startWorkflow(chain(step("a"), step("b")), { name: "w" });
  await client.setSchedule("nightly", { cron: "@daily", type: "report" });
  assert.deepEqual(client.workflows.map(({ name, type }) => [name, type]), [["w", "chain"]]);
  assert.equal(client.schedules.get("nightly").cron, "@daily");
});

test("a fake client knows signals, pauses and logs", async () => {
  const client = new FakeClient();
  const flow = await client.startWorkflow(chain(wait({ signal: "approved", timeout: "1d" })));
  await client.signal(flow.id, "approved", { by: "kim" });
  assert.deepEqual(client.signals, [{ workflowId: flow.id, name: "approved", payload: { by: "kim" } }]);
  await flow.pause();
  await flow.resume();
  await assert.rejects(client.signal("other", "approved"), ResourceError);
  const job = await client.submit("mail");
  await job.pause();
  assert.equal((await job.status()).paused, true);
  await job.resume();
  client.log(job.id, "a");
  client.log(job.id, "b", { stream: "output" });
  for (const follow of [false, true]) {
    const texts = [];
    for await (const { text } of job.logs({ follow })) texts.push(text);
    assert.deepEqual(texts, ["a", "b"]);
    for await (const { seq } of job.logs({ follow, stream: "output" })) assert.equal(seq, 2);
  }
  client.succeed(job.id);
  await assert.rejects(job.pause(), ValidationError);
});

test("a handler runs inline, with what it reported and recorded", async () => {
  const handler = async (ctx, { n }) => {
    await ctx.progress(50, "half");
    const doubled = await ctx.step("double", () => n * 2);
    return { doubled, known: await ctx.step("known", () => "never called"), parents: ctx.parents, attempt: ctx.job.attempt };
  };
  const options = { parents: { before: 1 }, steps: { known: "recorded" }, job: { attempt: 2 } };
  const run = await runInline(handler, { n: 21 }, options);
  assert.deepEqual(run.result, { doubled: 42, known: "recorded", parents: { before: 1 }, attempt: 2 });
  assert.deepEqual(run.progress, [{ percent: 50, message: "half" }]);
  assert.deepEqual(run.steps, { known: "recorded", double: 42 });
  const cancelled = AbortSignal.abort(new Error("enough"));
  await assert.rejects(runInline((ctx) => ctx.signal.throwIfAborted(), null, { signal: cancelled }), /enough/);
});

test("a server starts on a free port and is gone when it was stopped", async () => {
  const server = await DevServer.start();
  const job = await server.client().submit("t");
  assert.equal((await job.status()).state, "QUEUED");
  await server.stop();
  await server.stop();
  await assert.rejects(fetch(server.url));
});

test("a server ends with the program that started it", async () => {
  const code = 'import { DevServer } from "forgerun/testing"; console.log((await DevServer.start()).url); process.exit(0);';
  const cwd = new URL("..", import.meta.url);
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", code], { cwd });
  const gone = () => fetch(stdout.trim()).then(() => false, () => true);
  while (!(await gone())) await new Promise(setImmediate);
});

test("a server that cannot start says why", async () => {
  await assert.rejects(DevServer.start({ bin: "/no/such/program" }), /no\/such\/program/);
  await assert.rejects(DevServer.start({ env: { FORGERUN_LIMITS__NO_SUCH: "1" } }), /no such key/i);
});

test("logs and sleeps of a handler are recorded, and nothing waits", async () => {
  const handler = async (ctx) => {
    ctx.log("begins", { level: "debug" });
    await ctx.sleep("1h");
    ctx.log({ n: 1 }, { stream: "output" });
  };
  const ran = await runInline(handler, null);
  assert.deepEqual(ran.logs.map(({ level, stream, text }) => [level, stream, text]), [
    ["debug", "log", "begins"],
    ["info", "output", '{"n":1}'],
  ]);
  assert.equal(Math.round(ran.sleeps[0] / 60_000), 60);
  assert.deepEqual(Object.keys(ran.steps), ["sleep:1"]);
});
