// The client against a real server.
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  batch, chain, Client, ConflictError, graph, group, JobCancelled, JobFailed, ResourceError, step, ValidationError,
} from "forgerun";
import { Output } from "forgerun/worker";

import { startServer, withWorker } from "./support/server.mjs";

const server = await startServer();
const client = server.client();

const echo = { echo: (_, input) => input };

test("a job goes from its submission to its result", async () => {
  await withWorker(client, echo, {}, async ({ queue }) => {
    const job = await client.submit("echo", { a: 1 }, { queue, tags: ["eu"], priority: 5, timeout: 60_000, deadline: "1h" });
    assert.deepEqual(await job.result(), { a: 1 });
    const status = await client.job(job.id).status();
    assert.deepEqual(
      [status.id, status.type, status.queue, status.state, status.ended, status.attempt, status.tags],
      [job.id, "echo", queue, "SUCCEEDED", true, 1, ["eu"]],
    );
    const report = await job.report();
    assert.deepEqual([report.outcome, report.attempts], ["SUCCESS", 1]);
    const { jobs } = await client.jobs({ queue, tags: ["eu"], state: ["SUCCEEDED", "FAILED"] });
    assert.deepEqual(jobs.map(({ id }) => id), [job.id]);
    assert.equal(await job.cancel(), "SUCCEEDED");
  });
});

test("lists are read page by page", async () => {
  const queue = "pages";
  await client.submitMany(Array.from({ length: 5 }, () => ({ type: "t", queue })));
  const ids = new Set();
  let cursor;
  do {
    const page = await client.jobs({ queue, limit: 2, cursor });
    page.jobs.forEach(({ id }) => ids.add(id));
    cursor = page.nextCursor;
  } while (cursor);
  assert.equal(ids.size, 5);
});

test("a submission that is repeated is one job; a key for something else is a conflict", async () => {
  const options = { queue: "keys", idempotencyKey: "order-17" };
  const first = await client.submit("t", { n: 1 }, options);
  assert.equal((await client.submit("t", { n: 1 }, options)).id, first.id);
  await assert.rejects(client.submit("t", { n: 2 }, options), ConflictError);
  await client.submit("t", null, { queue: "keys", uniqueKey: "u" });
  await assert.rejects(client.submit("t", null, { queue: "keys", uniqueKey: "u" }), ConflictError);
});

test("many jobs that are sent twice are there once", async () => {
  let sent = 0;
  const lossy = async (url, init) => {
    const answer = await fetch(url, init);
    if (++sent > 1) return answer;
    await answer.arrayBuffer();
    throw Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNRESET" } });
  };
  const jobs = await new Client({ url: server.url, fetch: lossy }).submitMany([{ type: "t", queue: "twice" }, { type: "t", queue: "twice" }]);
  assert.equal(sent, 2);
  const found = await client.jobs({ queue: "twice" });
  assert.deepEqual(found.jobs.map(({ id }) => id).sort(), jobs.map(({ id }) => id).sort());
});

test("a delayed job waits, and can be cancelled", async () => {
  const job = await client.submit("t", null, { delay: "1h" });
  assert.equal((await job.status()).state, "CREATED");
  assert.equal(await job.cancel(), "CANCELED");
  await assert.rejects(job.result(), (error) => error instanceof JobCancelled && error.code === "RFA_JOB_CONFLICT");
  assert.equal((await (await client.submit("t", null, { at: new Date("2099-01-01") })).status()).body.execution_at, "2099-01-01T00:00:00.000Z");
});

test("refusals name what is wrong", async () => {
  await assert.rejects(client.submit("a b"), (error) => error instanceof ValidationError && /job_type/.test(error.message));
  await assert.rejects(client.job("019a0000-0000-7000-8000-000000000001").status(), ResourceError);
});

test("events are followed to the end of a job", async () => {
  await withWorker(client, echo, {}, async ({ queue }) => {
    const job = await client.submit("echo", 1, { queue });
    const names = [];
    for await (const event of job.events()) names.push(event.name);
    assert.deepEqual([names[0], names.at(-1)], ["job-created", "job-completed"]);
    const all = [];
    for await (const event of job.events()) all.push(event);
    const rest = [];
    for await (const event of job.events({ after: all[1].id })) rest.push(event);
    assert.deepEqual(rest, all.slice(2));
  });
});

test("the events of all jobs are followed until they are left", async () => {
  const marker = await client.submit("t", null, { queue: "all-events" });
  const first = (await client.transport.json({ method: "GET", path: "v1/events", query: { limit: 1 } })).events[0].event_id;
  for await (const { data } of client.events({ after: first })) {
    if (data.job_id === marker.id) break;
  }
});

test("a failed job throws, and is retried by hand", async () => {
  let fails = true;
  const flaky = () => {
    if (fails) throw Object.assign(new Error("no paper"), { name: "PaperError" });
    return "printed";
  };
  await withWorker(client, { flaky }, {}, async ({ queue }) => {
    const job = await client.submit("flaky", null, { queue, maxRetries: 1, tags: ["flaky"] });
    // One attempt and one retry by the server.
    await assert.rejects(job.result(), (error) => {
      assert(error instanceof JobFailed);
      assert.deepEqual([error.message, error.code, error.canonical, error.retryable], ["no paper", "RFA_EXEC_JOB_FAILED", "HANDLER_ERROR", true]);
      assert.equal(error.problem.jobStatus, "FAILED");
      return true;
    });
    fails = false;
    await job.retry({ revive: true });
    assert.equal(await job.result(), "printed");
  });
});

test("results of any type come as bytes, or in pieces", async () => {
  const bytes = new Uint8Array(3_000_000).map((_, at) => at % 251);
  const pieces = async function* () {
    for (let at = 0; at < bytes.length; at += 100_000) yield bytes.subarray(at, at + 100_000);
  };
  const handlers = {
    pdf: () => new Output(() => pieces(), { contentType: "application/pdf", fileName: "a.pdf" }),
    bytes: () => bytes.subarray(0, 10),
    blob: () => new Blob(["a,b"], { type: "text/csv" }),
    large: () => "x".repeat(400_000),
    nothing: () => undefined,
  };
  await withWorker(client, handlers, {}, async ({ queue }) => {
    const pdf = await client.submit("pdf", null, { queue });
    await pdf.wait();
    const stream = await pdf.stream();
    assert.deepEqual([stream.contentType, stream.fileName, stream.size], ["application/pdf", "a.pdf", bytes.length]);
    assert.deepEqual(await stream.bytes(bytes.length), bytes);
    assert.deepEqual(await (await client.submit("bytes", null, { queue })).result(), bytes.slice(0, 10));
    assert.deepEqual(new TextDecoder().decode(await (await client.submit("blob", null, { queue })).result()), "a,b");
    assert.equal((await (await client.submit("large", null, { queue })).result()).length, 400_000);
    assert.equal(await (await client.submit("nothing", null, { queue })).result(), undefined);
  });
});

test("workflows are described by their steps", async () => {
  const undone = [];
  const handlers = {
    add: (_, numbers) => numbers.reduce((sum, n) => sum + n, 0),
    sum: (ctx) => Object.values(ctx.parents).reduce((sum, n) => sum + n, 0),
    fail: () => {
      throw new Error("declined");
    },
    undo: (_, what) => void undone.push(what),
  };
  await withWorker(client, handlers, {}, async ({ queue }) => {
    const add = (...numbers) => step("add", numbers, { queue });
    const sum = step("sum", null, { queue });
    const chained = await client.startWorkflow(chain(group(add(1, 2), add(3, 4)), sum), { name: "sums" });
    assert.equal(Object.values(await chained.result()).at(-1), 10);
    assert.equal((await chained.status()).name, "sums");

    const graphed = graph(
      step("add", [1, 1], { id: "a", queue }),
      step("add", [2, 2], { id: "b", queue }),
      step("sum", null, { id: "c", dependsOn: ["a", "b"], queue }),
    );
    assert.deepEqual(await (await client.startWorkflow(graphed)).result(), { a: 2, b: 4, c: 6 });

    const batched = await client.startWorkflow(batch([add(1, 1)], { onSuccess: step("undo", "batch", { queue }) }));
    assert.equal((await batched.wait()).state, "SUCCEEDED");

    const order = chain(
      step("add", [1, 1], { queue, compensate: step("undo", "reserve", { queue }) }),
      step("fail", null, { queue, maxRetries: 0 }),
    );
    const failed = await client.startWorkflow(order, { failurePolicy: "compensate" });
    await assert.rejects(failed.result(), JobFailed);
    assert.deepEqual(undone, ["batch", "reserve"]);
    assert.deepEqual((await failed.status()).steps.map(({ state }) => state), ["SUCCEEDED", "FAILED"]);
    await failed.retry();
    await assert.rejects(failed.result(), JobFailed);

    const waiting = await client.startWorkflow(chain(step("add", [1, 1], { queue: "nobody" })));
    assert.equal(await waiting.cancel({ compensate: false }), "CANCELED");
    await assert.rejects(client.workflow(waiting.id).result(), JobCancelled);
  });
});

test("a schedule is registered, changed, triggered and deleted", async () => {
  await withWorker(client, echo, {}, async ({ queue }) => {
    const job = { type: "echo", input: { night: true }, queue };
    const schedule = await client.setSchedule("nightly", { cron: "0 3 * * *", timezone: "Europe/Berlin", overlap: "allow", ...job });
    assert.equal((await schedule.status()).timezone, "Europe/Berlin");
    assert.equal((await client.setSchedule("nightly", { cron: "@hourly", ...job })).name, "nightly");
    assert.equal((await schedule.pause()).enabled, false);
    assert.equal((await schedule.resume()).enabled, true);
    assert.deepEqual(await (await schedule.trigger()).result(), { night: true });
    await schedule.delete();
    await assert.rejects(schedule.status(), ResourceError);
    await assert.rejects(client.setSchedule("never", { cron: "0 0 32 * *", ...job }), ValidationError);
  });
});
