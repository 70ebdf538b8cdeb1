// Handlers behind a URL: what `forgerun worker http` posts, and deliveries of webhooks, from a real server.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, test } from "node:test";

import { JobFailed } from "forgerun";
import * as express from "forgerun/express";
import * as next from "forgerun/next";
import { findBinary } from "forgerun/testing";
import { fetchKeys, verify, WebhookError } from "forgerun/webhooks";
import { Fatal, RetryLater } from "forgerun/worker";

import { deferred, startServer } from "./support/server.mjs";

const server = await startServer();
const client = server.client();
const secret = `whsec_${Buffer.from("0123456789abcdef0123456789abcdef").toString("base64")}`;

// Serves one handler on a free port.
async function serve(handler) {
  const listening = createServer((request, response) => void handler(request, response)).listen(0, "127.0.0.1");
  await once(listening, "listening");
  after(() => listening.close());
  return `http://127.0.0.1:${listening.address().port}/hook`;
}

// The same handler behind Node's requests, and behind those of the web.
const styles = {
  express: (kind, ...rest) => express[kind](...rest),
  next: (kind, ...rest) => {
    const handler = next[kind](...rest);
    return async (request, response) => {
      const pieces = [];
      for await (const piece of request) pieces.push(piece);
      const answer = await handler(new Request(`http://${request.headers.host}${request.url}`, {
        method: request.method, headers: request.headers, body: Buffer.concat(pieces),
      }));
      response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
    };
  },
};

for (const [style, make] of Object.entries(styles)) {
  test(`${style}: jobs that are posted are done, and failures say whether to try again`, async () => {
    const seen = [];
    const handler = (ctx, input) => {
      seen.push([ctx.job.type, ctx.job.queue, ctx.job.attempt, ctx.cancelled]);
      if (input.fatal) throw new Fatal("never");
      if (input.later && ctx.job.attempt === 1) throw new RetryLater("1s", "not yet");
      return input.nothing ? undefined : { doubled: input.n * 2 };
    };
    const url = await serve(make("jobHandler", handler, { secret }));
    const queue = `http-${style}`;
    const args = ["worker", "http", "--queue", queue, "--url", url, "--secret", secret];
    const { FORGERUN_BIN: _, ...env } = process.env;
    const worker = spawn(findBinary(), args, { env: { ...env, FORGERUN_URL: server.url }, stdio: "ignore" });
    try {
      const result = async (input, options) => (await client.submit("double", input, { queue, ...options })).result();
      assert.deepEqual(await result({ n: 21 }), { doubled: 42 });
      assert.deepEqual(seen[0], ["double", queue, 1, false]);
      await assert.rejects(result({ fatal: true }), (error) => error instanceof JobFailed && error.message === "never");
      assert.deepEqual(await result({ later: true, n: 1 }), { doubled: 2 });
    } finally {
      worker.kill("SIGKILL");
      await once(worker, "exit");
    }
  });

  test(`${style}: work that nobody signed is refused`, async () => {
    const url = await serve(make("jobHandler", () => assert.fail("must not run"), { secret }));
    const answer = await fetch(url, { method: "POST", body: "{}" });
    assert.deepEqual([answer.status, answer.headers.get("content-type")], [401, "application/problem+json"]);
    assert.equal((await fetch(url, { method: "PUT", body: "{}" })).status, 405);
  });

  test(`${style}: deliveries of a webhook arrive verified, by secret and by the server's keys`, async () => {
    const keys = fetchKeys(`${server.url}/.well-known/forgerun/webhook-keys`);
    for (const kind of ["secret", "keys"]) {
      const arrived = deferred();
      let means;
      let url;
      const handler = (request, response) => make("webhookHandler", arrived.resolve, means)(request, response);
      url = await serve(handler);
      const call = { method: "POST", path: "v1/webhooks", json: { url, events: ["job_canceled"] } };
      const webhook = await client.transport.json(call);
      means = kind === "secret" ? { secret: webhook.secret } : { keys, url };
      const job = await client.submit("t", null, { queue: "nobody" });
      await job.cancel();
      const { event, id, data } = await arrived.promise;
      assert.deepEqual([event, data.job_id, typeof id], ["job_canceled", job.id, "string"]);
      await client.transport.json({ method: "DELETE", path: `v1/webhooks/${webhook.webhook_id}` });
    }
  });
}

test("a body that was parsed before it could be verified is named as the reason", async () => {
  const handler = express.jobHandler(() => 1);
  const url = await serve(async (request, response) => {
    for await (const _ of request);
    request.body = {};
    await handler(request, response).catch((error) => response.writeHead(500).end(error.message));
  });
  assert.match(await (await fetch(url, { method: "POST", body: "{}" })).text(), /express\.raw/);
});

test("a body that was kept by express.raw is used", async () => {
  const handler = express.jobHandler((_, input) => input.n);
  const url = await serve(async (request, response) => {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    request.body = Buffer.concat(pieces);
    await handler(request, response);
  });
  assert.equal(await (await fetch(url, { method: "POST", body: '{"n":7}' })).json(), 7);
});

test("an envelope brings the results of the steps before", async () => {
  const handler = next.jobHandler((ctx, input) => [ctx.parents, input], { envelope: true });
  const body = JSON.stringify({ job: { id: "j" }, input: 7, parents: { before: 1 } });
  const answer = await handler(new Request("http://hook.invalid", { method: "POST", body }));
  assert.deepEqual(await answer.json(), [{ before: 1 }, 7]);
});

test("a delivery is read from headers in any form", async () => {
  const [id, timestamp, body] = ["msg_1", "1600000000", '{"a":1}'];
  const key = Buffer.from(secret.slice(6), "base64");
  const signature = `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
  const plain = { "Webhook-Id": id, "webhook-timestamp": [timestamp], "webhook-signature": signature, "x-forgerun-event": "job_failed" };
  const expected = { id, event: "job_failed", data: { a: 1 } };
  const now = 1600000000;
  assert.deepEqual(await verify(body, plain, secret, { now }), expected);
  assert.deepEqual(await verify(Buffer.from(body), new Headers(Object.entries(plain)), secret, { now }), expected);
  await assert.rejects(verify(body, plain, "whsec_!", { now }), TypeError);
  await assert.rejects(verify(body, plain, secret), (error) => error instanceof WebhookError && error.kind === "expired");
});

test("keys are fetched again for a key that is not known, but not all the time", async () => {
  let asked = 0;
  const fetch = async () => Response.json({ keys: [{ kid: `k${++asked}` }] });
  const lookup = fetchKeys("http://keys.invalid", fetch);
  assert.deepEqual(await Promise.all([lookup("k1"), lookup("k1")]), [{ keys: [{ kid: "k1" }] }, { keys: [{ kid: "k1" }] }]);
  assert.deepEqual(await lookup("k1"), { keys: [{ kid: "k1" }] });
  assert.deepEqual(await lookup("k2"), { keys: [{ kid: "k1" }] });
  assert.equal(asked, 1);
  await assert.rejects(fetchKeys("http://keys.invalid", async () => new Response("", { status: 503 }))("k"), /503/);
});
