// Workers against a real server.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, JobFailed } from "forgerun";
import { Fatal, Output, RetryLater, Worker } from "forgerun/worker";

import { deferred, startServer, withWorker } from "./support/server.mjs";

const server = await startServer();
const client = server.client();

// A job as workers see it.
const ojs = async ({ id }) => (await (await fetch(`${server.url}/ojs/v1/jobs/${id}`)).json()).job;

const once = (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

test("the first handler that fits does the job; a star stands for any text", async () => {
  const handlers = { "mail.send": () => "exact", "mail.*": () => "mail", "*.v2": () => "v2", "a*b*c": () => "abc", "x+y": () => "plus" };
  await withWorker(client, handlers, {}, async ({ queue }) => {
    const result = async (type) => (await client.submit(type, null, { queue })).result();
    const types = ["mail.send", "mail.sent", "mail.x.v2", "sms.v2", "a-b-c", "x+y"];
    assert.deepEqual(await Promise.all(types.map(result)), ["exact", "mail", "mail", "v2", "abc", "plus"]);
  });
  const worker = new Worker().job("ab*ba", () => 1);
  assert.equal(worker.handlerOf("aba"), undefined);
  assert.equal(worker.handlerOf("xab-ba"), undefined);
});

test("no more jobs run at once than were asked for, and as many", async () => {
  let running = 0;
  let most = 0;
  const full = deferred();
  const handler = async () => {
    most = Math.max(most, ++running);
    if (running === 3) full.resolve();
    await full.promise;
    running--;
  };
  await withWorker(client, { t: handler }, { concurrency: 3 }, async ({ queue }) => {
    const jobs = await client.submitMany(Array.from({ length: 30 }, () => ({ type: "t", queue })));
    await Promise.all(jobs.map((job) => job.result()));
  });
  assert.equal(most, 3);
});

test("jobs are taken ahead while they are short, and go back when they have to wait after all", async () => {
  const go = deferred();
  const began = [];
  const handlers = {
    short: () => "short",
    long: async (ctx) => {
      began.push(ctx.job.id);
      await go.promise;
    },
  };
  await withWorker(client, handlers, { concurrency: 2 }, async ({ queue }) => {
    const short = await client.submitMany(Array.from({ length: 20 }, () => ({ type: "short", queue })));
    await Promise.all(short.map((job) => job.result()));
    const long = await client.submitMany(Array.from({ length: 4 }, () => ({ type: "long", queue })));
    const goesBack = async (job) => {
      let queued = 0;
      for await (const { name } of job.events()) if (name === "job-queued" && ++queued === 2) return;
    };
    // Two run, two were taken ahead and go back, uncounted; another worker could take them then.
    await Promise.all(long.slice(2).map(goesBack));
    assert.equal(began.length, 2);
    go.resolve();
    await Promise.all(long.map((job) => job.result()));
    for (const job of long) assert.equal((await job.status()).attempt, 1);
  });
});

test("what a handler throws is a failure with type, message and trace", async () => {
  class PaperError extends Error {}
  const handlers = {
    own: () => {
      throw new PaperError("no paper");
    },
    text: () => Promise.reject("just text"),
    cyclic: () => {
      const cyclic = {};
      return (cyclic.self = cyclic);
    },
  };
  const { lines } = await withWorker(client, handlers, {}, async ({ queue }) => {
    const submit = async (type) => {
      const job = await client.submit(type, null, { queue, maxRetries: 0 });
      await assert.rejects(job.result(), JobFailed);
      return (await ojs(job)).error;
    };
    const { type, message, backtrace } = await submit("own");
    assert.deepEqual([type, message], ["PaperError", "no paper"]);
    assert.match(JSON.stringify(backtrace ?? ""), /worker\.test\.mjs/);
    assert.equal((await submit("text")).message, "just text");
    assert.match((await submit("cyclic")).message, /the result is no JSON/);
  });
  assert(lines.some((line) => line.startsWith("warn: job ") && line.includes("no paper")));
});

test("Fatal ends a job for good; RetryLater brings it back after its time", async () => {
  const times = [];
  const handlers = {
    fatal: () => {
      throw new Fatal("never");
    },
    later: (ctx) => {
      times.push(Date.now());
      if (ctx.job.attempt === 1) throw new RetryLater("250ms", "not yet");
      return ctx.job.attempt;
    },
  };
  await withWorker(client, handlers, {}, async ({ queue }) => {
    const fatal = await client.submit("fatal", null, { queue });
    await assert.rejects(fatal.result(), (error) => error.message === "never" && !error.retryable);
    assert.equal((await fatal.status()).attempt, 1);
    assert.equal(await (await client.submit("later", null, { queue })).result(), 2);
  });
  assert(times[1] - times[0] >= 250, String(times));
});

test("jobs without a handler go back uncounted, and one line says so", async () => {
  const { lines, stopped } = await withWorker(client, { known: () => 1 }, {}, async ({ queue }) => {
    const [job] = await client.submitMany([{ type: "strange", queue }, { type: "strange", queue }]);
    const other = await client.submit("known", null, { queue, priority: -1 });
    await other.result();
    assert.deepEqual(await job.status().then(({ state, attempt }) => [state, attempt]), ["QUEUED", 1]);
  });
  assert.equal(lines.filter((line) => line.includes('"strange"')).length, 1);
  assert.equal(stopped.handedBack, 2);
});

test("a handler whose job is cancelled learns of it, and its slot serves another job even if it does not end", async () => {
  const begun = deferred();
  const reason = deferred();
  const handlers = {
    polite: async (ctx) => {
      begun.resolve();
      await once(ctx.signal).catch((error) => reason.resolve([error.name, ctx.cancelled]));
    },
    stubborn: (ctx) => (begun2.resolve(), ctx.signal.addEventListener("abort", () => stubborn.resolve()), new Promise(() => undefined)),
    next: () => "next",
  };
  const begun2 = deferred();
  const stubborn = deferred();
  await withWorker(client, handlers, { concurrency: 1, lease: "1s", grace: "100ms" }, async ({ queue }) => {
    const polite = await client.submit("polite", null, { queue });
    await begun.promise;
    await polite.cancel();
    assert.deepEqual(await reason.promise, ["AbortError", true]);
    const job = await client.submit("stubborn", null, { queue });
    await begun2.promise;
    await job.cancel();
    await stubborn.promise;
    assert.equal(await (await client.submit("next", null, { queue })).result(), "next");
  });
});

test("a worker that stops waits for what runs", async () => {
  const begun = deferred();
  const go = deferred();
  const { stopped } = await withWorker(client, { t: () => (begun.resolve(), go.promise.then(() => "done")) }, {}, async ({ queue, worker, running }) => {
    const job = await client.submit("t", null, { queue });
    await begun.promise;
    worker.stop();
    const waiting = await client.submit("t", null, { queue });
    go.resolve();
    await running;
    assert.equal(await job.result(), "done");
    assert.equal((await waiting.status()).state, "QUEUED");
  });
  assert.deepEqual(stopped, { succeeded: 1, failed: 0, handedBack: 0 });
});

test("what does not end in time when a worker stops is cancelled and handed back, uncounted", async () => {
  const begun = deferred();
  const options = { drain: "50ms", grace: "100ms", concurrency: 2 };
  const handlers = { polite: (ctx) => (begun.resolve(), once(ctx.signal)), stubborn: () => new Promise(() => undefined) };
  const { stopped } = await withWorker(client, handlers, options, async ({ queue, worker, running }) => {
    const jobs = await client.submitMany(["stubborn", "polite"].map((type) => ({ type, queue })));
    await begun.promise;
    worker.stop();
    await running;
    for (const job of jobs) assert.deepEqual(await job.status().then(({ state, attempt }) => [state, attempt]), ["QUEUED", 1]);
  });
  assert.deepEqual(stopped, { succeeded: 0, failed: 0, handedBack: 2 });
});

test("steps that are done are not done again by a later attempt", async () => {
  const done = [];
  const steps = async (ctx) => {
    const note = (name, value) => ctx.step(name, () => (done.push(`${name} ${ctx.job.attempt}`), value));
    const [a, b] = await Promise.all([note("a", { n: 1 }), note("b", undefined)]);
    if (ctx.job.attempt === 1) throw new Error("between");
    return [a, b, await note("c", new Date(0)), await note("a", "another")];
  };
  await withWorker(client, { steps }, {}, async ({ queue }) => {
    const job = await client.submit("steps", null, { queue });
    assert.deepEqual(await job.result(), [{ n: 1 }, null, "1970-01-01T00:00:00.000Z", { n: 1 }]);
  });
  assert.deepEqual(done, ["a 1", "b 1", "c 2"]);
});

test("a step whose result is too large to be recorded fails its job, and says why", async () => {
  const handlers = { t: (ctx) => ctx.step("large", () => "x".repeat(300_000)) };
  await withWorker(client, handlers, {}, async ({ queue }) => {
    const job = await client.submit("t", null, { queue, maxRetries: 0 });
    await assert.rejects(job.result(), /256 KB/);
  });
});

test("a long sleep gives the job back and counts no attempt; a short one keeps it", async () => {
  const runs = [];
  const handler = async (ctx) => {
    runs.push(ctx.job.attempt);
    await ctx.sleep(20);
    await ctx.sleep("2500ms", "cool-off");
    return runs;
  };
  await withWorker(client, { t: handler }, {}, async ({ queue }) => {
    const job = await client.submit("t", null, { queue, maxRetries: 0 });
    assert.deepEqual(await job.result(), [1, 1], "the handler ran again, behind its recorded sleeps");
  });
});

test("progress is shown while a job runs, and checked where it is given", async () => {
  const shown = deferred();
  const told = deferred();
  const handler = async (ctx) => {
    await assert.rejects(ctx.progress(101), RangeError);
    await ctx.progress(40, "half of it");
    told.resolve();
    await shown.promise;
  };
  await withWorker(client, { t: handler }, {}, async ({ queue }) => {
    const job = await client.submit("t", null, { queue });
    await told.promise;
    assert.equal((await job.status()).progress, 40);
    assert.equal((await ojs(job)).progress_message, "half of it");
    shown.resolve();
    await job.result();
  });
});

test("a handler knows its job", async () => {
  const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  await withWorker(client, { t: (ctx) => ctx.job }, {}, async ({ queue }) => {
    const job = await client.submit("t", null, { queue, tags: ["a"], traceparent: trace });
    const { id, type, attempt, tags, traceparent, ...facts } = await job.result();
    assert.deepEqual([id, type, facts.queue, attempt, tags], [job.id, "t", queue, 1, ["a"]]);
    assert.match(traceparent, /^00-0af7651916cd43dd8448eb211c80319c-/);
  });
});

test("a worker whose key is refused ends, and says why", async () => {
  const worker = new Worker({ url: server.url, key: "frk_wrong", signals: false }).job("t", () => 1);
  await assert.rejects(worker.run(), { name: "AuthError" });
});

test("what cannot work is refused before the start", async () => {
  await assert.rejects(new Worker().run(), /needs a handler/);
  assert.throws(() => new Worker({ concurrency: 0 }), RangeError);
  assert.throws(() => new Worker({ lease: "10ms" }), RangeError);
  assert.throws(() => new Worker({ queues: [] }), RangeError);
  assert.throws(() => new Worker().job("t"), /"t" is no function/);
});

// A client whose requests fail as `fails` says, for their bodies.
function troubled(fails) {
  const reset = () => Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNRESET", message: "reset" } });
  const lossy = async (url, init) => {
    const trouble = String(url).endsWith("/exchange") ? fails(JSON.parse(init.body)) : undefined;
    if (trouble === "not sent") throw reset();
    const answer = await fetch(url, init);
    if (trouble !== "answer lost") return answer;
    await answer.arrayBuffer();
    throw reset();
  };
  return new Client({ url: server.url, fetch: lossy });
}

test("ends are kept while the server is away, and reported when it is back", async () => {
  let away = false;
  let tries = 0;
  const fails = ({ done }) => {
    if (!away) return undefined;
    if (done && ++tries === 3) away = false;
    return "not sent";
  };
  let runs = 0;
  const handler = () => {
    away = true;
    return ++runs;
  };
  const { lines } = await withWorker(troubled(fails), { t: handler }, {}, async ({ queue }) => {
    assert.equal(await (await client.submit("t", null, { queue })).result(), 1);
  });
  assert.equal(runs, 1);
  assert(lines.some((line) => line.includes("trying again")) && lines.includes("info: the server is back"), String(lines));
});

test("an end whose answer was lost is sent again and counts once", async () => {
  let lost = 0;
  const fails = ({ done }) => (done && lost++ === 0 ? "answer lost" : undefined);
  const { stopped, lines } = await withWorker(troubled(fails), { t: () => "once" }, {}, async ({ queue }) => {
    const job = await client.submit("t", null, { queue });
    assert.equal(await job.result(), "once");
  });
  assert(lost >= 2);
  assert.equal(stopped.succeeded, 1);
  assert(!lines.some((line) => line.includes("was not this worker's any more")), String(lines));
});

test("a worker whose heartbeats do not arrive loses its job, and its handler learns of it", async () => {
  let deaf = true;
  const fails = ({ extend }) => (extend?.length > 0 && deaf ? "not sent" : undefined);
  const attempts = [];
  const lost = deferred();
  const handler = async (ctx) => {
    attempts.push(ctx.job.attempt);
    if (attempts.length > 1) return "second";
    return once(ctx.signal).finally(lost.resolve);
  };
  await withWorker(troubled(fails), { t: handler }, { lease: "1s", concurrency: 2 }, async ({ queue }) => {
    const job = await client.submit("t", null, { queue });
    assert.equal(await job.result(), "second");
    deaf = false;
    await lost.promise;
  });
  assert.equal(attempts.length, 2);
});

test("a result that the server does not take is a failure with its reason", async () => {
  const handlers = { t: () => new Output("x", { contentType: "no media type" }) };
  await withWorker(client, handlers, {}, async ({ queue }) => {
    const job = await client.submit("t", null, { queue });
    await assert.rejects(job.result(), /the result was not taken/);
  });
});

test("an operator pauses, resumes and ends a worker", async () => {
  const post = (path) => fetch(`${server.url}/ojs/v1/workers/${path}`, { method: "POST" });
  await withWorker(client, { t: () => "done" }, { lease: "1s" }, async ({ queue, worker, lines, running }) => {
    const said = async (words) => {
      while (!lines.some((line) => line.includes(words))) await new Promise(setImmediate);
    };
    await (await client.submit("t", null, { queue })).result();
    assert.equal((await post(`${worker.id}/quiet`)).status, 200);
    await said("told to take no jobs");
    const job = await client.submit("t", null, { queue });
    await post(`${worker.id}/resume`);
    assert.equal(await job.result(), "done");
    await post(`${worker.id}/terminate`);
    await running;
  });
});
