#!/usr/bin/env node
// A worker in JavaScript, with nothing but what Node brings: takes jobs of the queue `default` and does them.
//
//     FORGERUN_URL=http://127.0.0.1:8080 FORGERUN_API_KEY=frk_... node examples/worker.js
const { FORGERUN_URL: url = "http://127.0.0.1:8080", FORGERUN_API_KEY: key } = process.env;
const name = `${require("os").hostname()}-${process.pid}`;
let stopping = false;

async function call(path, body) {
  const headers = { "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) };
  const answer = await fetch(`${url}/ojs/v1/workers/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (answer.ok) return answer.json();
  throw Object.assign(new Error(`${path}: ${answer.status} ${await answer.text()}`), { status: answer.status });
}

// Calls until the server has answered. One that is away or busy is asked again, less and less often.
async function insist(path, body) {
  for (let n = 0; n < 10 && !(path === "fetch" && stopping); n++) {
    try {
      return await call(path, body);
    } catch (error) {
      if (error.status < 500 && error.status !== 429) throw error; // it does not want this, now or later
      console.error(`${error.message}; trying again`);
      await new Promise((wake) => setTimeout(wake, Math.min(200 * 2 ** n, 10_000)));
    }
  }
  return { jobs: [] };
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
  await insist(...said).catch((error) => console.error(`${id} is not ours any more: ${error.message}`));
}

for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => (stopping = true)); // what runs is finished
(async () => {
  const wanted = { queues: ["default"], worker_id: name, wait_ms: 2_000, visibility_timeout_ms: 30_000 };
  while (!stopping) for (const job of (await insist("fetch", wanted)).jobs) await work(job); // waits up to 2 s for work
})();
