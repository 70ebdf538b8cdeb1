import assert from "node:assert/strict";
import { test } from "node:test";

import {
  AuthError, BackendError, ForgeRunError, JobCancelled, JobFailed, ResourceError, UnreachableError, ValidationError,
} from "forgerun";

import { broken, json, refused, stubClient, stubClock } from "./support/stub.mjs";

const queued = { job_id: "j-1", state: "QUEUED", jobStatus: "ACCEPTED", queue: "default", attempt: 1 };
const succeeded = { ...queued, state: "SUCCEEDED", jobStatus: "COMPLETED" };

// A body whose connection breaks behind this text.
function brokenOff(text) {
  let sent = false;
  return new ReadableStream({
    pull(controller) {
      if (sent) return controller.error(new Error("reset"));
      sent = true;
      controller.enqueue(new TextEncoder().encode(text));
    },
  });
}

test("a submission carries key, idempotency key and trace", async () => {
  const { client, requests } = stubClient([() => json(202, queued)]);
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const job = await client.submit("mail", { to: "ada" }, { traceparent });
  assert.equal(job.id, "j-1");
  const { url, method, headers } = requests[0];
  assert.deepEqual([method, url.pathname], ["POST", "/v1/jobs"]);
  assert.equal(headers.get("authorization"), "Bearer frk_1");
  assert.equal(headers.get("traceparent"), traceparent);
  assert.match(headers.get("idempotency-key"), /^[0-9a-f-]{36}$/);
});

test("a path in the address of the server is kept", async () => {
  const { Client } = await import("forgerun");
  let asked;
  const fetch = async (url) => ((asked = url.href), json(200, queued));
  await new Client({ url: "http://proxy.invalid/jobs", fetch }).job("a/b").status();
  assert.equal(asked, "http://proxy.invalid/jobs/v1/jobs/a%2Fb");
  assert.throws(() => new Client({ url: "proxy.invalid" }), TypeError);
  assert.throws(() => new Client({ url: "ftp://proxy.invalid" }), /http:\/\/HOST:PORT/);
});

test("the address and the key come from the environment", async () => {
  const { Client } = await import("forgerun");
  const { FORGERUN_URL, FORGERUN_API_KEY } = process.env;
  Object.assign(process.env, { FORGERUN_URL: "http://env.invalid", FORGERUN_API_KEY: "frk_env" });
  try {
    let asked;
    const fetch = async (url, init) => ((asked = [url.host, init.headers.get("authorization")]), json(200, queued));
    await new Client({ fetch }).job("j-1").status();
    assert.deepEqual(asked, ["env.invalid", "Bearer frk_env"]);
  } finally {
    for (const [name, value] of Object.entries({ FORGERUN_URL, FORGERUN_API_KEY })) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
});

test("a server that is away is tried again, and then named", async () => {
  const { client, requests, clock } = stubClient([refused]);
  const error = await client.submit("mail").then(assert.fail, (error) => error);
  assert(error instanceof UnreachableError && error instanceof BackendError && error instanceof ForgeRunError);
  assert.deepEqual([error.code, error.retryable, error.maybeSent], ["UNREACHABLE", true, false]);
  assert.match(error.message, /stub\.invalid:1/);
  assert.equal(requests.length, 6);
  assert.deepEqual(clock.waits, [100, 200, 400, 800, 1600]);
});

test("what must not be done twice is not sent twice once it may have arrived", async () => {
  const lost = stubClient([broken]);
  await assert.rejects(lost.client.schedule("s").trigger(), UnreachableError);
  assert.equal(lost.requests.length, 1);
  const away = stubClient([refused, () => json(202, queued)]);
  assert.equal((await away.client.schedule("s").trigger()).id, "j-1");
});

test("errors are typed, and show what the server said", async () => {
  const problem = { type: "/problems/x", title: "No", code: "RFA_JOB_NOT_FOUND", message: "There is no such job.", details: { a: 1 } };
  const { client } = stubClient([() => json(404, problem, { "x-request-id": "r-7" })]);
  const error = await client.job("j-2").status().then(assert.fail, (error) => error);
  assert(error instanceof ResourceError);
  assert.deepEqual(
    [error.name, error.code, error.canonical, error.status, error.requestId, error.message],
    ["ResourceError", "RFA_JOB_NOT_FOUND", "NOT_FOUND", 404, "r-7", "There is no such job."],
  );
  assert.deepEqual([error.details, error.problem], [{ a: 1 }, problem]);
});

test("errors of the caller are not repeated, even if flagged", async () => {
  for (const [status, code, Class] of [[400, "INVALID_ARGS", ValidationError], [401, "UNAUTHENTICATED", AuthError]]) {
    const { client, requests } = stubClient([() => json(status, { code, retryable: true })]);
    await assert.rejects(client.submit("mail"), Class);
    assert.equal(requests.length, 1);
  }
});

test("an answer that is no JSON is an error, and no crash", async () => {
  const { client } = stubClient([() => new Response("<html>", { status: 200 })]);
  await assert.rejects(client.job("j-1").status(), { name: "ForgeRunError", code: "PROTOCOL" });
});

test("an answer without end is given up", async () => {
  const endless = () => new Response(new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1 << 20)) }));
  const { client } = stubClient([endless]);
  await assert.rejects(client.job("j-1").status(), RangeError);
});

test("a wait lets the server hold the answer, and asks again at once", async () => {
  const held = { "preference-applied": "wait=30" };
  const { client, requests, clock } = stubClient([() => json(200, queued, held), () => json(200, queued, held), () => json(200, succeeded)]);
  assert.equal((await client.job("j-1").wait()).state, "SUCCEEDED");
  assert.deepEqual(requests.map(({ headers }) => headers.get("prefer")), ["wait=30", "wait=30", "wait=30"]);
  assert.deepEqual(clock.waits, []);
});

test("where the server does not hold, a wait polls, no sooner than Retry-After, and gives up in time", async () => {
  const answers = [() => json(200, queued, { "retry-after": "5" }), () => json(200, queued)];
  const { client, clock } = stubClient(answers);
  const error = await client.job("j-1").wait({ timeoutMs: 20_000 }).then(assert.fail, (error) => error);
  assert.equal(error.name, "TimeoutError");
  assert.match(error.message, /j-1 did not end within 20 s/);
  assert.deepEqual(clock.waits, [5_000, 4_000, 8_000, 3_000]);
});

test("an unknown status is no end", async () => {
  const { client } = stubClient([() => json(200, { ...queued, jobStatus: "RESTING" }), () => json(200, succeeded)]);
  assert.equal((await client.job("j-1").wait()).state, "SUCCEEDED");
});

test("a job without a result gives undefined; JSON a value; anything else bytes", async () => {
  const results = [
    [() => json(404, { type: "/problems/result-not-found", code: "RFA_JOB_NOT_FOUND" }), undefined],
    [() => json(200, { total: 7 }), { total: 7 }],
    [() => json(200, null), null],
    [() => new Response("%PDF", { headers: { "content-type": "application/pdf" } }), new TextEncoder().encode("%PDF")],
  ];
  for (const [answer, expected] of results) {
    const { client } = stubClient([() => json(200, succeeded), answer]);
    assert.deepEqual(await client.job("j-1").result(), expected);
  }
});

test("a job that failed throws what its failure object says", async () => {
  const failed = { ...queued, state: "FAILED", jobStatus: "FAILED" };
  const problem = { code: "RFA_EXEC_JOB_FAILED", ojs_code: "HANDLER_ERROR", message: "no paper", retryable: true };
  const answers = [() => json(200, failed), () => json(200, problem, { "content-type": "application/problem+json" })];
  await assert.rejects(stubClient(answers).client.job("j-1").result(), (error) => {
    assert(error instanceof JobFailed);
    assert.deepEqual([error.message, error.retryable, error.problem], ["no paper", true, problem]);
    return true;
  });
  const canceled = { ...queued, state: "CANCELED", jobStatus: "CANCELLED" };
  await assert.rejects(stubClient([() => json(200, canceled)]).client.job("j-1").result(), JobCancelled);
});

test("a download that breaks goes on where it ended", async () => {
  const etag = '"v1"';
  const head = { etag, "content-length": "11", "content-type": "text/plain", "content-disposition": 'attachment; filename="../a.txt"' };
  const rest = { etag, "content-range": "bytes 6-10/11", "content-length": "5" };
  const { client, requests } = stubClient([
    () => new Response(brokenOff("hello "), { headers: head }),
    () => new Response("world", { status: 206, headers: rest }),
  ]);
  const stream = await client.job("j-1").stream();
  assert.deepEqual([stream.contentType, stream.fileName, stream.size], ["text/plain", "a.txt", 11]);
  assert.equal(await new Response(stream.readable()).text(), "hello world");
  assert.deepEqual([requests[1].headers.get("range"), requests[1].headers.get("if-range")], ["bytes=6-", etag]);
});

test("a download whose content changed in between is no mixture", async () => {
  const { client } = stubClient([
    () => new Response(brokenOff("hello "), { headers: { etag: '"v1"', "content-length": "11" } }),
    () => new Response("HELLO WORLD", { status: 200, headers: { etag: '"v2"' } }),
  ]);
  await assert.rejects((await client.job("j-1").stream()).bytes(100), { code: "PROTOCOL", message: /begin again/ });
});

test("a result that is too large for memory is refused by its reader", async () => {
  const { client } = stubClient([() => json(200, succeeded), () => json(200, "x".repeat(1000))]);
  await assert.rejects(client.job("j-1").result({ maxBytes: 100 }), /stream\(\)/);
});

test("many jobs are submitted in few requests, each within its bounds", async () => {
  const { client, requests } = stubClient([() => json(201, {})]);
  const jobs = await client.submitMany(Array.from({ length: 2500 }, (_, n) => ({ type: "t", input: n })));
  const sent = requests.map(({ body }) => JSON.parse(body).jobs);
  assert.deepEqual(sent.map((each) => each.length), [1000, 1000, 500]);
  assert.deepEqual(jobs.map(({ id }) => id), sent.flat().map(({ id }) => id));
  assert.equal(new Set(jobs.map(({ id }) => id)).size, 2500);
  requests.length = 0;
  const large = "x".repeat(1_500_000);
  await client.submitMany([large, large, large].map((input) => ({ type: "t", input })));
  assert.deepEqual(requests.map(({ body }) => JSON.parse(body).jobs.length), [2, 1]);
});

test("many jobs take no keys of their own, which would be ignored", async () => {
  const { client, requests } = stubClient([() => json(201, {})]);
  await assert.rejects(client.submitMany([...Array(1500).fill({ type: "t" }), { type: "t", uniqueKey: "u" }]), /submitMany takes no uniqueKey/);
  await assert.rejects(client.submitMany([{ type: "t", idempotencyKey: "k" }]), TypeError);
  assert.equal(requests.length, 0);
});

test("of many jobs the error says how many were taken before", async () => {
  const { client } = stubClient([() => json(201, {}), () => json(400, { code: "INVALID_ARGS", message: "no", details: { index: 3 } })]);
  const jobs = Array.from({ length: 1500 }, () => ({ type: "t" }));
  await assert.rejects(client.submitMany(jobs), { details: { index: 3, submitted: 1000 } });
});

test("a signal ends a wait and a submission", async () => {
  const reason = new Error("enough");
  const hanging = () => new Promise(() => undefined);
  const clock = stubClock();
  const fetch = (_, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const { Client } = await import("forgerun");
  const client = new Client({ url: "http://stub.invalid", fetch, clock });
  for (const act of [(signal) => client.submit("t", null, { signal }), (signal) => client.job("j").wait({ signal })]) {
    const controller = new AbortController();
    const acting = act(controller.signal);
    controller.abort(reason);
    await assert.rejects(Promise.race([acting, hanging()]), reason);
  }
});

test("an answer that does not come in time is given up", async () => {
  const fetch = (_, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const { Client } = await import("forgerun");
  const client = new Client({ url: "http://stub.invalid", fetch, timeoutMs: 10, retry: { retriesMax: 0 } });
  await assert.rejects(client.job("j").status(), { code: "UNREACHABLE", message: /no answer in time/ });
});

test("a delay and a time together are refused", async () => {
  const { client } = stubClient([() => json(202, queued)]);
  await assert.rejects(client.submit("t", null, { delay: "1s", at: new Date() }), TypeError);
  await assert.rejects(client.submit("t", null, { delay: "soon" }), /1h30m/);
  await assert.rejects(client.submit("t", null, { delay: -1 }), RangeError);
});
