// The cases that the clients of all languages share.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { canonicalJson, UnreachableError } from "forgerun";
import { verify, WebhookError } from "forgerun/webhooks";

import { errorOfAnswer, errorOfJob } from "../dist/esm/errors.js";
import { nextPoll, nextRetry, RETRY_POLICY } from "../dist/esm/retry.js";
import { factsOf, inputOfJob, parentsOf } from "../dist/esm/worker/context.js";
import { broken, json, stubClient, stubClock } from "./support/stub.mjs";

function cases(name, list = "cases") {
  const file = JSON.parse(readFileSync(new URL(`../../vectors/${name}.json`, import.meta.url), "utf8"));
  assert(file[list].length > 0, `${name}.json has no ${list}`);
  return file[list].map((each) => ({ ...each, file }));
}

const errorOf = ({ status, headers, body }, now = 0) => errorOfAnswer(status ?? undefined, new Headers(headers), body, now * 1000);

for (const { name, expect, file, ...answer } of cases("errors")) {
  test(`errors: ${name}`, () => {
    if (expect === null) return assert(answer.status < 300, "such an answer is no error and never read as one");
    const error = errorOf(answer, file.now);
    const { canonical, retryable, message, code, details, requestId, retryAfterMs } = error;
    const seen = {
      class: error.name, code, canonical: canonical ?? null, message, retryable, details,
      retry_after_ms: retryAfterMs ?? null, request_id: requestId ?? null,
    };
    assert.deepEqual(seen, expect);
  });
}

for (const { name, state, problem, expect } of cases("outcomes")) {
  test(`outcomes: ${name}`, () => {
    const error = errorOfJob(state, problem === null ? undefined : JSON.parse(problem));
    const { code, message, retryable, details } = error;
    assert.deepEqual({ class: error.name, code, message, retryable, details }, expect);
  });
}

for (const { name, failure, repeat, retries_made, random, expect_wait_ms } of cases("retries")) {
  test(`retries: ${name}`, () => {
    const error = failure.unreachable ? new UnreachableError("h", "x", failure.unreachable.maybe_sent) : errorOf(failure);
    assert.equal(nextRetry(RETRY_POLICY, error, repeat, retries_made, random) ?? null, expect_wait_ms);
  });
}

for (const { name, timeout_ms, answers, expect_waits_ms, ends } of cases("polling")) {
  test(`polling: ${name}`, () => {
    const waits = [];
    let waited = 0;
    let retryAfter;
    let ended = false;
    for (let polls = 0; !ended; polls++) {
      const wait = nextPoll(polls, waited, retryAfter, timeout_ms);
      if (wait === undefined) break;
      waits.push(wait);
      waited += wait;
      retryAfter = answers[polls].retry_after_ms ?? undefined;
      ended = answers[polls].ended;
    }
    assert.deepEqual([waits, ended ? "ended" : "timed_out"], [expect_waits_ms, ends]);
  });
}

for (const { name, events, expect_keys } of cases("idempotency")) {
  test(`idempotency: ${name}`, async () => {
    const outcomes = events.filter((event) => !event.startsWith("submit"));
    const answer = () => {
      const event = outcomes.shift();
      if (event === "unreachable") broken();
      return event === "accepted" ? json(202, { job_id: "j" }) : json(Number(event.split(" ")[1]), {});
    };
    const { client, requests } = stubClient([answer]);
    for (const event of events.filter((event) => event.startsWith("submit"))) {
      await client.submit("t", null, { idempotencyKey: event.split(" ")[1] }).catch(() => undefined);
    }
    const letters = new Map([["K", "K"]]);
    const seen = requests.map(({ headers }) => {
      const key = headers.get("idempotency-key");
      if (!letters.has(key)) letters.set(key, "AB"[letters.size - 1]);
      return letters.get(key);
    });
    assert.deepEqual(seen, expect_keys);
  });
}

for (const { name, input, expect } of cases("canonical")) {
  test(`canonical: ${name}`, () => {
    const canonical = () => canonicalJson(JSON.parse(input));
    if (expect === null) assert.throws(canonical);
    else assert.equal(canonical(), expect);
  });
}

for (const { name, expect, body, headers, secret, jwks, ...options } of cases("signatures")) {
  test(`signatures: ${name}`, async () => {
    const verified = verify(body, headers, secret ?? jwks, options).then(() => "ok", (error) => {
      assert(error instanceof WebhookError, error);
      return error.kind;
    });
    assert.equal(await verified, expect);
  });
}

const optionsOf = ({ options = {}, queue }) => ({
  queue: queue ?? options.queue,
  priority: options.priority,
  maxRetries: options.max_retries,
  timeout: options.timeout ?? options.timeout_ms,
  deadline: options.deadline,
  tags: options.tags,
  uniqueKey: options.unique_key,
  delay: options.delay_ms,
  at: options.at,
  idempotencyKey: options.idempotency_key,
});

for (const { name, type, args, expect, file, ...rest } of cases("envelopes", "submissions")) {
  test(`envelopes: submission: ${name}`, async () => {
    const { client, requests } = stubClient([() => json(202, { job_id: "j" })], stubClock(Date.parse(file.now)));
    await client.submit(type, args ?? undefined, optionsOf(rest));
    const { method, url, body, headers } = requests[0];
    // No arguments and `null` are the same to every worker; `payload: null` says it.
    assert.deepEqual({ method, path: url.pathname, body: JSON.parse(body) }, { method: expect.method, path: expect.path, body: expect.body });
    for (const [header, value] of Object.entries(expect.headers ?? {})) assert.equal(headers.get(header), value);
    assert(headers.get("idempotency-key"));
  });
}

for (const { name, jobs, expect, file } of cases("envelopes", "batches")) {
  test(`envelopes: batch: ${name}`, async () => {
    const { client, requests } = stubClient([() => json(201, {})], stubClock(Date.parse(file.now)));
    await client.submitMany(jobs.map((job) => ({ type: job.type, input: job.args, ...optionsOf(job) })));
    const { method, url, body, headers } = requests[0];
    const sent = JSON.parse(body).jobs.map(({ id, ...job }) => (assert(id), job));
    assert.deepEqual({ method, path: url.pathname, body: { jobs: sent } }, expect);
    assert(headers.get("idempotency-key"));
  });
}

for (const { name, job, expect } of cases("envelopes", "received")) {
  test(`envelopes: received: ${name}`, () => {
    const { traceparent, ...facts } = factsOf(job);
    const seen = {
      ...facts, input: inputOfJob(job), parents: parentsOf(job), traceparent: traceparent ?? null, lease_token: job.lease_token,
    };
    assert.deepEqual(seen, expect);
  });
}
