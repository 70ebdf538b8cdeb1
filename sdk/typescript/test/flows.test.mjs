// Logs, pauses, signals, lists and steps, against the real server.
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  chain, Client, ConflictError, forEach, graph, JobFailed, JobTimedOut, nested, ResourceError, step, ValidationError, wait,
} from "forgerun";
import { RetryLater } from "forgerun/worker";

import { deferred, startServer, withWorker } from "./support/server.mjs";

const server = await startServer();
const client = server.client();

const echo = (_, input) => input;
const parents = (ctx) => ctx.parents;

async function linesOf(job, options) {
  const lines = [];
  for await (const line of job.logs(options)) lines.push(line);
  return lines;
}

// The result of the last step of a workflow that succeeds.
async function lastResult(flow) {
  const { state, steps } = await flow.wait({ timeoutMs: 30_000 });
  assert.equal(state, "SUCCEEDED", JSON.stringify(steps.map(({ error }) => error)));
  return client.job(steps.at(-1).job_id).result();
}

async function put(path, token, body) {
  const headers = { "content-type": "application/json", "lease-token": token };
  return (await fetch(`${server.url}/ojs/v1/${path}`, { method: "PUT", headers, body: JSON.stringify(body) })).status;
}

// The lease token of a job, which handlers are not shown.
async function tokens(act) {
  const { fetch } = globalThis;
  const found = new Map();
  const spying = async (url, init) => {
    const answer = await fetch(url, init);
    if (!String(url).endsWith("/workers/exchange")) return answer;
    const body = await answer.json();
    for (const job of body.jobs ?? []) found.set(job.id, job.lease_token);
    return new Response(JSON.stringify(body), { status: answer.status, headers: answer.headers });
  };
  return act(new Client({ url: server.url, fetch: spying }), found);
}

test("every line arrives in its order, however many and long", async () => {
  const long = `x${"😀".repeat(10_000)}`;
  const say = (ctx, n) => {
    for (let k = 0; k < n; k++) ctx.log(`line ${k}`);
    ctx.log(long, { level: "warn", stream: "output" });
    ctx.log("");
    ctx.log("half of a pair: \ud800");
  };
  await withWorker(client, { say }, {}, async ({ queue }) => {
    const job = await client.submit("say", 3000, { queue });
    await job.wait();
    const lines = await linesOf(job);
    assert.deepEqual(lines.map(({ seq }) => seq), lines.map((_, n) => n + 1));
    assert.deepEqual(lines.slice(0, 3000).map(({ text }) => text), Array.from({ length: 3000 }, (_, k) => `line ${k}`));
    const pieces = lines.filter(({ stream }) => stream === "output");
    assert.equal(pieces.map(({ text }) => text).join(""), long);
    assert(pieces.every(({ text, level }) => Buffer.byteLength(text) <= 16 * 1024 && level === "warn") && pieces.length === 3);
    assert.deepEqual(lines.slice(-2).map(({ text }) => text), ["", "half of a pair: \ufffd"]);
  });
});

test("logs are read by stream, attempt and place", async () => {
  const twice = (ctx) => {
    ctx.log(`try ${ctx.job.attempt}`);
    ctx.log("token", { stream: "output" });
    if (ctx.job.attempt === 1) throw new RetryLater(10);
  };
  const bad = (ctx) => ctx.log("bad", { stream: "a b" });
  await withWorker(client, { twice, bad }, {}, async ({ queue }) => {
    const job = await client.submit("twice", null, { queue });
    await job.wait();
    const texts = async (options) => (await linesOf(job, options)).map(({ seq, attempt, text }) => `${seq} ${attempt} ${text}`);
    const cases = [
      [{}, ["1 1 try 1", "2 1 token", "3 2 try 2", "4 2 token"]],
      [{ stream: "output" }, ["2 1 token", "4 2 token"]],
      [{ attempt: 2 }, ["3 2 try 2", "4 2 token"]],
      [{ after: 3 }, ["4 2 token"]],
      [{ after: 4 }, []],
    ];
    for (const [options, expected] of cases) {
      assert.deepEqual(await texts(options), expected);
      assert.deepEqual(await texts({ ...options, follow: true }), expected);
    }
    assert((await linesOf(job))[0].at instanceof Date);
    await assert.rejects(linesOf(client.job("01890a5d-ac96-7001-bcce-b302099a8057")), ResourceError);
    await assert.rejects((await client.submit("bad", null, { queue, maxRetries: 0 })).result(), JobFailed);
  });
});

test("logs are followed while the job runs, and go on after a break", async () => {
  const asked = [];
  // The first stream ends after its first line, as that of a server that stops.
  const broken = async (url, init) => {
    const answer = await fetch(url, init);
    if (!String(url).includes("/logs") || asked.push(init.headers.get("last-event-id")) > 1) return answer;
    const decoder = new TextDecoder();
    let seen = "";
    for await (const chunk of answer.body) if (/data:.*\n\n/.test((seen += decoder.decode(chunk)))) break;
    return new Response(seen, { headers: answer.headers });
  };
  const go = deferred();
  const slow = async (ctx) => {
    ctx.log("before");
    await go.promise;
    ctx.log("after");
  };
  await withWorker(client, { slow }, {}, async ({ queue }) => {
    const { id } = await client.submit("slow", null, { queue });
    const lines = new Client({ url: server.url, fetch: broken }).job(id).logs({ follow: true });
    assert.equal((await lines.next()).value.text, "before");
    go.resolve();
    assert.equal((await lines.next()).value.text, "after");
    assert((await lines.next()).done);
    assert.deepEqual(asked, [null, "1"]);
  });
});

test("what is paused waits until it is resumed", async () => {
  const queue = "paused";
  const job = await client.submit("echo", 1, { queue });
  assert.equal((await job.status()).paused, false);
  assert.equal(await job.pause(), "QUEUED");
  assert.equal((await job.status()).paused, true);
  const flow = await client.startWorkflow(chain(step("echo", 1, { queue }), step("echo", 2, { queue })));
  await flow.pause();
  assert.equal((await flow.status()).paused, true);
  await withWorker(client, { echo }, { queues: [queue] }, async () => {
    assert.equal(await (await client.submit("echo", 2, { queue })).result(), 2);
    assert.equal((await job.status()).state, "QUEUED");
    assert.deepEqual((await flow.status()).steps.map(({ state }) => state), ["QUEUED", "WAITING"]);
    await Promise.all([job.resume(), flow.resume()]);
    assert.equal(await job.result(), 1);
    assert.equal((await flow.wait()).state, "SUCCEEDED");
    await assert.rejects(job.pause(), ValidationError);
  });
});

test("a signal ends a wait and is its result", async () => {
  await withWorker(client, { parents }, {}, async ({ queue }) => {
    const schema = { type: "object", required: ["ok"], properties: { ok: { type: "boolean" } } };
    const order = graph(
      wait({ signal: "approved", timeout: "1d", schema, id: "approval" }),
      wait({ for: 50, id: "cool-off", dependsOn: ["approval"] }),
      wait({ until: new Date(Date.now() + 50), id: "late" }),
      step("parents", null, { id: "ship", queue, dependsOn: ["approval", "cool-off"] }),
    );
    const flow = await client.startWorkflow(order, { deadline: "7d" });
    assert((await flow.status()).steps[0].wait.url);
    await assert.rejects(flow.signal("approved", { ok: "maybe" }), ValidationError);
    await assert.rejects(flow.signal("denied"), ResourceError);
    await client.signal(flow.id, "approved", { ok: true });
    await flow.signal("approved", { ok: true });
    await assert.rejects(flow.signal("approved", { ok: false }), ConflictError);
    assert.deepEqual(await lastResult(flow), { approval: { ok: true }, "cool-off": null });
    assert((await flow.status()).deadline);
  });
  const late = await client.startWorkflow(chain(wait({ signal: "never", timeout: "1m" })), { deadline: 50 });
  await assert.rejects(late.result(), (error) => error instanceof JobTimedOut || error instanceof JobFailed);
});

test("waits that contradict themselves are refused", () => {
  const cases = [{}, { for: 1, until: new Date() }, { signal: "s" }, { for: 1, timeout: 1 }, { for: 1, schema: {} }];
  for (const what of cases) assert.throws(() => wait(what), TypeError, JSON.stringify(what));
});

test("each element of a list has a job, and a workflow is a step", async () => {
  await withWorker(client, { echo, parents }, {}, async ({ queue }) => {
    const images = Array.from({ length: 5 }, (_, n) => ({ n }));
    const over = { over: "list", pointer: "/images", queue };
    const inner = graph(step("echo", 1, { id: "a", queue }), step("echo", 2, { id: "b", queue, dependsOn: ["a"] }));
    const album = graph(
      step("echo", { images }, { id: "list", queue }),
      forEach("echo", { ...over, id: "both", args: ["$item", "$index"], parallel: 2 }),
      forEach("echo", { ...over, id: "one" }),
      nested(inner, { id: "in", name: "inner", deadline: "1h" }),
      step("parents", null, { id: "report", dependsOn: ["both", "one", "in"], queue }),
    );
    const flow = await client.startWorkflow(album);
    assert.deepEqual(await lastResult(flow), { both: images.map((image, n) => [image, n]), one: images, in: { a: 1, b: 2 } });
    assert.equal((await flow.status()).steps[1].elements.succeeded, 5);
  });
});

test("large results of parents are fetched", async () => {
  const text = "y".repeat(100_000);
  const lengths = ({ parents: { large, each } }) => [large.length, each.length, each.every((one) => one === text)];
  await withWorker(client, { echo, large: () => text, lengths }, {}, async ({ queue }) => {
    const flow = graph(
      step("large", null, { id: "large", queue }),
      step("echo", { list: Array.from({ length: 20 }, (_, n) => n) }, { id: "list", queue }),
      forEach("large", { over: "list", pointer: "/list", id: "each", queue }),
      step("lengths", null, { id: "lengths", dependsOn: ["large", "each"], queue }),
    );
    assert.deepEqual(await lastResult(await client.startWorkflow(flow)), [100_000, 20, true]);
  });
});

test("the first result of a step counts, and what was saved as a whole is still read", async () => {
  await tokens(async (spying, found) => {
    const raced = async (ctx) => {
      const beaten = async () => {
        // Another worker records the step just before this one.
        const path = `jobs/${ctx.job.id}/checkpoint/charge%2F1`;
        assert.equal(await put(path, found.get(ctx.job.id), { result: "first" }), 201);
        return "second";
      };
      return [await ctx.step("charge/1", beaten), await ctx.step("charge/1", () => "third"), await ctx.step("none", () => undefined)];
    };
    const old = async (ctx) => {
      if (ctx.job.attempt === 1) {
        await put(`checkpoints/${ctx.job.id}`, found.get(ctx.job.id), { state: { a: "old", b: "old" } });
        throw new RetryLater(10);
      }
      return Promise.all(["a", "b", "c"].map((name) => ctx.step(name, () => "new")));
    };
    const large = async (ctx) => {
      const texts = [];
      for (const name of ["a", "b", "c"]) texts.push(await ctx.step(name, () => "x".repeat(200_000)));
      if (ctx.job.attempt === 1) throw new RetryLater(10);
      return texts.join("").length;
    };
    await withWorker(spying, { raced, old, large }, {}, async ({ queue }) => {
      const result = async (type) => (await client.submit(type, null, { queue })).result();
      assert.deepEqual(await result("raced"), ["first", "first", null]);
      assert.deepEqual(await result("old"), ["old", "old", "new"]);
      assert.equal(await result("large"), 600_000);
    });
  });
});

test("a server that knows no single steps keeps them as a whole", async () => {
  const resume = async (id) => (await fetch(`${server.url}/ojs/v1/checkpoints/${id}/resume`)).json();
  const old = async (url, init) => {
    const answer = await fetch(url, init);
    if (!String(url).endsWith("/resume")) return answer;
    const { steps, ...rest } = await answer.json();
    return new Response(JSON.stringify(rest), { status: answer.status, headers: answer.headers });
  };
  const twice = async (ctx) => {
    const found = await Promise.all(["a", "b"].map((name) => ctx.step(name, () => `${name} ${ctx.job.attempt}`)));
    if (ctx.job.attempt > 1) return found;
    const { state, steps } = await resume(ctx.job.id);
    assert.deepEqual([state, steps], [{ a: "a 1", b: "b 1" }, {}]);
    throw new RetryLater(10);
  };
  await withWorker(new Client({ url: server.url, fetch: old }), { twice }, {}, async ({ queue }) => {
    assert.deepEqual(await (await client.submit("twice", null, { queue })).result(), ["a 1", "b 1"]);
  });
});
