#!/usr/bin/env node
// A worker in JavaScript, with nothing but what Node brings: takes jobs of the queue `default` and does them.
//
//     FORGERUN_URL=http://127.0.0.1:8080 FORGERUN_API_KEY=frk_... node examples/worker.js
const { FORGERUN_URL: url = "http://127.0.0.1:8080", FORGERUN_API_KEY: key } = process.env;
const name = `${require("os").hostname()}-${process.pid}`;

async function call(path, body) {
  const headers = { "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) };
  const answer = await fetch(`${url}/ojs/v1/workers/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

const handlers = { "text.upper": (text) => ({ text: text.toUpperCase() }) }; // job type: what to do with its args

async function work({ id, type, args, lease_token }) {
  const held = { job_id: id, lease_token };
  const beat = { worker_id: name, active_jobs: [id], lease_tokens: { [id]: lease_token } };
  const heart = setInterval(() => call("heartbeat", beat).catch(console.error), 10_000); // keeps the job ours
  let said;
  try {
    if (!handlers[type]) throw new Error(`no handler for ${type}`);
    said = ["ack", { ...held, result: await handlers[type](...args) }];
  } catch (error) {
    said = ["nack", { ...held, error: { code: "handler_error", type: error.name, message: error.message } }];
  }
  clearInterval(heart);
  await call(...said);
}

(async () => {
  const wanted = { queues: ["default"], worker_id: name, wait_ms: 20_000, visibility_timeout_ms: 30_000 };
  for (;;) for (const job of (await call("fetch", wanted)).jobs) await work(job); // waits up to 20 s for work
})();
