// Goes through the dashboard with a real browser. Prints `ok NAME` or `FAILED NAME: WHY` for each step; the steps build on each other.

import { createRequire } from "node:module";
import { strict as assert } from "node:assert";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";

const { SERVER, TOKEN, PICTURES, TOOLS, EXAMPLE, CHROMIUM = "/usr/bin/chromium" } = process.env;
const require = createRequire(`${TOOLS}/`);
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
const strangers = [], complaints = [];

async function open(options = {}) {
  const context = await browser.newContext({ baseURL: SERVER, viewport: { width: 1280, height: 900 }, ...options });
  context.on("request", request => { if (!request.url().startsWith(SERVER)) strangers.push(request.url()); });
  const page = await context.newPage();
  page.setDefaultTimeout(90000);
  page.on("console", message => { if (message.type() === "error") complaints.push(`${page.url()}: ${message.text()}`); });
  page.on("pageerror", error => complaints.push(`${page.url()}: ${error}`));
  page.on("dialog", dialog => { complaints.push(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
  return page;
}

let nFailed = 0;
async function step(name, run) {
  try {
    await run();
    console.log(`ok ${name}`);
  } catch (error) {
    nFailed++;
    console.log(`FAILED ${name}: ${String(error.stack ?? error).split("\n").slice(0, 12).join(" | ")}`);
    await page.screenshot({ path: `${PICTURES}/failed-${nFailed}.png` }).catch(() => {});
  }
}

// A client of the server, and jobs of it

async function call(method, path, body, headers = {}) {
  const answer = await fetch(SERVER + path, { method, body: body && JSON.stringify(body), headers: { "content-type": "application/json", ...headers } });
  const text = await answer.text();
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : null;
}
const client = (await call("POST", "/v1/clients")).client_id;
const key = (await call("POST", `/v1/clients/${client}/keys`)).api_key;
const mine = { authorization: `Bearer ${key}` };
const operator = { authorization: `Bearer ${TOKEN}` };
const post = (path, body) => call("POST", path, body, mine);
const ended = id => call("GET", `/v1/jobs/${id}`, undefined, { ...mine, prefer: "wait=20" });
const simulated = async (work_kind, more = {}) => (await post("/v1/jobs", { type: "EXECUTE", work_kind, ...more })).job_id;
const pushed = async (type, args, options = {}) => (await post("/ojs/v1/jobs", { type, args, options })).job.id;
const shown = id => call("GET", `/admin/v1/jobs/${id}`, undefined, operator);
async function until(what, holds) {
  for (let n = 0; n < 200; n++) {
    const found = await holds();
    if (found) return found;
    await new Promise(done => setTimeout(done, 100));
  }
  throw new Error(`${what} did not come about`);
}

const EVIL = "<script>alert('pwned')</script><img src=x onerror=alert(1)>";

let page = await open();

await step("whoever is not logged in is led to the form, and back", async () => {
  await page.goto("/dashboard/jobs?state=FAILED");
  assert.match(page.url(), /\/dashboard\/login\?next=/);
  await page.getByLabel("Operator token").fill("wrong");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("alert").getByText("not the operator's").waitFor();
  await page.getByLabel("Operator token").fill(TOKEN);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
  assert.equal(new URL(page.url()).search, "?state=FAILED");
  const cookie = (await page.context().cookies()).find(cookie => cookie.name === "forgerun_session");
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, "Strict", "/dashboard"]);
  // The browser itself complains about the 401 of the wrong token.
  complaints.length = 0;
});

const good = await simulated("SUCCESS_FAST");
const bad = await simulated("FAIL_IMMEDIATE");
await Promise.all([good, bad].map(ended));

await step("the overview shows what goes on, and keeps up with it", async () => {
  await page.goto("/dashboard");
  await page.locator("#live[data-state=live]").waitFor();
  const failed = page.locator(".tile.is-failed .figure");
  await page.waitForFunction(() => document.querySelector(".tile.is-failed .figure").textContent === "1");
  await page.locator("#wrong [data-group]").first().waitFor();
  const another = await simulated("FAIL_IMMEDIATE");
  await ended(another);
  await page.waitForFunction(() => document.querySelector(".tile.is-failed .figure").textContent === "2");
  assert.equal(await failed.textContent(), "2");
});

await step("jobs are found by filters that stand in the address", async () => {
  await page.goto("/dashboard/jobs");
  await page.locator(`tr[data-job-id="${good}"]`).waitFor();
  await page.getByRole("checkbox", { name: "FAILED" }).check();
  await page.waitForURL(/state=FAILED/);
  await page.locator(`tr[data-job-id="${bad}"]`).waitFor();
  assert.equal(await page.locator(`tr[data-job-id="${good}"]`).count(), 0);
  await page.getByPlaceholder(/begins with/).fill(good.slice(0, 18));
  await page.getByRole("checkbox", { name: "FAILED" }).uncheck();
  await page.waitForURL(/q=/);
  await page.locator(`tr[data-job-id="${good}"]`).waitFor();
});

await step("a long list has pages", async () => {
  await page.goto("/dashboard/jobs?limit=1&state=FAILED,SUCCEEDED");
  const first = await page.locator("tr[data-job-id]").getAttribute("data-job-id");
  await page.getByRole("link", { name: "Next page" }).click();
  await page.waitForURL(/limit=1&state=FAILED,SUCCEEDED&cursor=/);
  assert.notEqual(await page.locator("tr[data-job-id]").getAttribute("data-job-id"), first);
  await page.getByRole("link", { name: "First page" }).click();
  await page.locator(`tr[data-job-id="${first}"]`).waitFor();
});

let evil;
await step("what clients and workers say stays text", async () => {
  evil = await pushed("evil.job", [EVIL], { retry: { max_attempts: 1 } });
  const { jobs } = await post("/ojs/v1/workers/fetch", { queues: ["default"], worker_id: "w-1", wait_ms: 10000 });
  assert.equal(jobs[0].id, evil);
  await post("/ojs/v1/workers/nack", { job_id: evil, error: { code: "handler_error", message: EVIL, retryable: false } });
  await page.goto(`/dashboard/jobs/${evil}`);
  await page.locator("#input pre").getByText("<script>alert('pwned')</script>").waitFor();
  await page.locator("#failure .detail").getByText("<img src=x onerror=alert(1)>").waitFor();
  assert.equal(await page.locator("main img, main script").count(), 0);
  await page.goto("/dashboard");
  await page.locator("#wrong").waitFor();
  assert.equal(await page.locator("main img, main script").count(), 0);
});

await step("a job shows its attempts, and can be tried again", async () => {
  await page.goto(`/dashboard/jobs/${bad}`);
  await page.locator("#timeline .attempt").first().waitFor();
  assert.equal(await page.locator("#timeline .gantt rect title").count() > 0, true);
  await page.getByText("Raw failure object").click();
  await page.locator("#raw-failure pre").getByText(bad).first().waitFor();
  await page.getByRole("button", { name: "Retry job" }).click();
  await page.getByRole("status").getByText("tried again").waitFor();
  await until("the second execution", async () => (await shown(bad)).executions.length === 2);
  await page.locator("#head .state-failed").waitFor();
});

await step("a waiting job can be cancelled", async () => {
  const waiting = await pushed("never.done", [1], { queue: "slow" });
  await page.goto(`/dashboard/jobs/${waiting}`);
  await page.getByRole("button", { name: "Cancel job" }).click();
  await page.getByRole("status").getByText("cancelled").waitFor();
  await page.locator("#head .state-canceled").waitFor();
  assert.equal((await shown(waiting)).state, "CANCELED");
});

await step("many jobs are cancelled and retried after a page that counts them", async () => {
  const some = await Promise.all([1, 2, 3].map(n => pushed("bulk.one", [n], { queue: "bulk" })));
  await page.goto("/dashboard/jobs?queue=bulk");
  for (const id of some.slice(0, 2)) await page.getByRole("checkbox", { name: `Select job ${id}` }).check();
  await page.getByText("2 selected:").waitFor();
  await page.getByRole("button", { name: "Cancel selected" }).click();
  await page.getByRole("heading", { name: "Cancel 2 jobs?" }).waitFor();
  await page.getByRole("button", { name: "Cancel 2 jobs" }).click();
  await page.getByRole("status").getByText("Cancelled 2 jobs.").waitFor();
  await page.goto("/dashboard/jobs?queue=bulk");
  await page.getByRole("button", { name: "Cancel all" }).click();
  await page.getByRole("heading", { name: "Cancel 1 job?" }).waitFor();
  await page.getByText("2 jobs of those chosen cannot be").waitFor();
  await page.goto("/dashboard/jobs?state=FAILED");
  await page.getByRole("button", { name: "Retry all" }).click();
  await page.getByRole("heading", { name: /^Retry \d+ jobs?\?$/ }).waitFor();
});

await step("a result can be downloaded", async () => {
  await page.goto(`/dashboard/jobs/${good}`);
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Download result" }).click()]);
  assert.ok(readFileSync(await download.path()).length > 0);
});

await step("keys move, search and help", async () => {
  await page.goto("/dashboard/jobs");
  await page.locator("html[data-ready]").waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  const here = await page.locator("tr.here").getAttribute("data-job-id");
  assert.equal(here, await page.locator("tbody tr").nth(1).getAttribute("data-job-id"));
  await page.keyboard.press("k");
  await page.locator("tbody tr:first-child.here").waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.id), "q");
});

await step("a queue can be paused and resumed", async () => {
  await page.goto("/dashboard/queues");
  const row = page.locator('tr[data-queue="default"]');
  await row.getByRole("button", { name: "Pause queue" }).click();
  await page.getByRole("status").getByText("Queue default is paused.").waitFor();
  const queues = () => call("GET", "/admin/v1/queues", undefined, operator);
  assert.equal((await queues()).items.find(queue => queue.name === "default").paused, true);
  await page.goto("/dashboard");
  await page.locator("#wrong").getByText("paused").waitFor();
  await page.goto("/dashboard/queues");
  await row.getByRole("button", { name: "Resume queue" }).click();
  await page.getByRole("status").getByText("Queue default goes on.").waitFor();
  assert.equal((await queues()).items.find(queue => queue.name === "default").paused, false);
});

await step("workers are seen with what they hold, and can be told to take no more", async () => {
  const held = await pushed("long.work", [1], { queue: "held" });
  await post("/ojs/v1/workers/fetch", { queues: ["held"], worker_id: "w-7", wait_ms: 10000 });
  await post("/ojs/v1/workers/heartbeat", { worker_id: "w-7", state: "running", active_jobs: [held] });
  await page.goto("/dashboard/workers");
  const row = page.locator("tr[data-row=w-7]");
  await row.locator(`a[href$="${held}"]`).waitFor();
  await row.getByRole("button", { name: "Quiet worker" }).click();
  await page.getByRole("status").getByText("takes no more").waitFor();
  await page.locator("tr[data-row=w-7]").getByText("told: quiet").waitFor();
});

await step("a job and a workflow are paused, resumed, and show what they wait for", async () => {
  const steps = [{ id: "ask", wait: { signal: "approved", timeout: "2d" } }, { id: "ship", type: "order.ship", args: [], depends_on: ["ask"] }];
  const { workflow_id } = await post("/v1/workflows", { name: "order", steps });
  const { job_id } = await post("/v1/jobs", { job_type: "order.check" });
  for (const [path, noun] of [[`/dashboard/jobs/${job_id}`, "job"], [`/dashboard/workflows/${workflow_id}`, "workflow"], [`/dashboard/jobs/${workflow_id}`, "workflow"]]) {
    await page.goto(path);
    await page.getByRole("button", { name: `Pause ${noun}` }).click();
    await page.getByRole("status").getByText(`The ${noun} is paused.`).waitFor();
    await page.getByRole("button", { name: `Resume ${noun}` }).click();
    await page.getByRole("status").getByText(`The ${noun} goes on.`).waitFor();
  }
  await page.goto(`/dashboard/workflows/${workflow_id}`);
  await page.locator("#graph").getByText("for signal approved", { exact: true }).waitFor();
  await page.locator("#steps").getByRole("link", { name: "Answer" }).waitFor();
  for (const id of [job_id, workflow_id]) await post(`/v1/jobs/${id}/cancel`, {});
});

let group;
await step("a group of failures is previewed and redriven", async () => {
  await page.goto("/dashboard/failures");
  const row = page.locator("tr[data-group]").filter({ hasText: "FAIL_IMMEDIATE" }).first();
  group = await row.getAttribute("data-group");
  await row.getByRole("link").first().click();
  await page.getByLabel("At most").fill("1");
  await page.getByRole("button", { name: "Preview redrive" }).click();
  await page.getByRole("heading", { name: "A redrive would try 1 job again" }).waitFor();
  assert.doesNotMatch(page.url(), /csrf/, "a token is no part of an address");
  await page.getByRole("button", { name: "Redrive", exact: true }).click();
  await page.getByRole("status").getByText("has begun").waitFor();
  await page.locator("#head .state-succeeded").waitFor();
  await page.goto(`/dashboard/failures/${group}`);
  await page.getByLabel("At most").fill("-3");
  await page.getByRole("button", { name: "Redrive", exact: true }).click();
  await page.getByRole("alert").getByText("`limit` must be").waitFor();
  complaints.length = 0; // of the 400
});

await step("clients are shown with their keys, and a key can be revoked", async () => {
  const other = (await call("POST", "/v1/clients")).client_id;
  const { api_key, key_id } = await call("POST", `/v1/clients/${other}/keys`);
  await page.goto("/dashboard/clients");
  await page.locator(`tr[data-row="${other}"] a`).first().click();
  const row = page.locator(`tr[data-row="${key_id}"]`);
  await row.waitFor();
  assert.ok(!(await page.content()).includes(api_key), "a secret is never shown");
  await row.getByRole("button", { name: "Revoke key" }).click();
  await page.locator(`tr[data-row="${key_id}"]`).getByText("revoked").waitFor();
});

await step("webhooks show what was sent, and send it again", async () => {
  const got = [];
  const receiver = createServer((request, response) => { got.push(request.headers["webhook-id"]); response.statusCode = got.length > 1 ? 204 : 500; request.resume().on("end", () => response.end()); });
  await new Promise(done => receiver.listen(0, "127.0.0.1", done));
  const { webhook_id } = await post("/v1/webhooks", { url: `http://127.0.0.1:${receiver.address().port}/hook`, events: ["job_succeeded"] });
  const job = await simulated("SUCCESS_FAST");
  await ended(job);
  await until("the first delivery", () => got.length > 0);
  await page.goto("/dashboard/webhooks");
  await page.locator(`tr[data-row="${webhook_id}"] a`).first().click();
  await page.getByRole("button", { name: "Redeliver" }).first().click();
  await page.getByRole("status").getByText("on its way again").waitFor();
  await until("the second delivery", () => got.length > 1);
  await page.goto(`/dashboard/jobs/${job}`);
  await page.locator("#deliveries .badge-ok").getByText("delivered").waitFor();
  receiver.close();
});

await step("schedules show their next runs, can be run now, paused and resumed", async () => {
  await post("/ojs/v1/cron", { name: "nightly", cron: "0 3 * * *", timezone: "Europe/Berlin", type: "report.build", args: [] });
  await page.goto("/dashboard/schedules");
  const row = page.locator("tr[data-schedule=nightly]");
  assert.equal(await row.locator("ol time").count(), 3);
  await row.getByRole("button", { name: "Run now" }).click();
  await page.getByRole("status").getByText("made a job").waitFor();
  await page.locator("tr[data-schedule=nightly] a.id").first().waitFor();
  await row.getByRole("button", { name: "Pause schedule" }).click();
  await page.getByRole("status").getByText("Schedule nightly is paused.").waitFor();
  await row.getByRole("button", { name: "Resume schedule" }).click();
  await page.getByRole("status").getByText("Schedule nightly goes on.").waitFor();
});

let workflow;
await step("a workflow is a picture of its steps, and a job leads to its workflow", async () => {
  const step = (id, depends_on) => ({ id, depends_on, work_kind: "SUCCESS_FAST" });
  workflow = (await post("/v1/workflows", { name: "nightly", steps: [step("fetch", []), step("left", ["fetch"]), step("right", ["fetch"]), step("join", ["left", "right"])] })).workflow_id;
  await page.goto("/dashboard/workflows");
  await page.locator(`tr[data-workflow="${workflow}"] a`).first().click();
  await page.locator("#head .state-succeeded").waitFor();
  await page.locator("#graph [data-step][data-state=SUCCEEDED]").nth(3).waitFor();
  assert.equal(await page.locator("#graph .edge").count(), 4);
  assert.equal(await page.locator("#graph [data-critical]").count(), 3, "one of the two in the middle is on the critical path");
  assert.equal(await page.locator("#course [data-bar]").count(), 4);
  await page.locator("#graph [data-step=join]").click();
  await page.locator(`#facts a[href$="/workflows/${workflow}"]`).waitFor();
});

await step("sinks have a page, also where there is none", async () => {
  await page.goto("/dashboard/sinks");
  await page.getByText("No broker is configured").waitFor();
});

const PAGES = ["/dashboard", "/dashboard/jobs", `/dashboard/jobs/${bad}`, "/dashboard/failures", `/dashboard/failures/${group}`, "/dashboard/queues",
  "/dashboard/workers", "/dashboard/clients", `/dashboard/clients/${client}`, "/dashboard/webhooks", "/dashboard/schedules", "/dashboard/workflows", `/dashboard/workflows/${workflow}`, "/dashboard/sinks"];

await step("everything can be read without a script", async () => {
  const plain = await open({ javaScriptEnabled: false, storageState: await page.context().storageState() });
  for (const path of PAGES) {
    await plain.goto(path);
    await plain.locator("main h1").waitFor();
  }
  await plain.goto(`/dashboard/jobs/${bad}`);
  await plain.getByRole("button", { name: "Retry job" }).waitFor();
  await plain.context().close();
});

await step("a narrow screen needs no scrolling to the side", async () => {
  const narrow = await open({ viewport: { width: 360, height: 740 }, storageState: await page.context().storageState() });
  for (const path of PAGES) {
    await narrow.goto(path);
    await narrow.locator("html[data-ready]").waitFor();
    const width = await narrow.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 360, `${path} is ${width} wide`);
  }
  await narrow.goto("/dashboard/jobs");
  await narrow.screenshot({ path: `${PICTURES}/narrow-jobs.png` });
  await narrow.context().close();
});

await step("pages are accessible, in light and in dark", async () => {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const path of PAGES) {
      await page.goto(path);
      await page.locator("html[data-ready]").waitFor();
      await page.evaluate(AXE);
      const { violations } = await page.evaluate(() => axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"] }));
      const told = violations.map(({ id, nodes }) => `${id} at ${nodes.slice(0, 3).map(node => node.html.slice(0, 120)).join(" and ")}`);
      assert.deepEqual(told, [], `${path} in ${colorScheme}`);
    }
  }
});

await step("pictures are made", async () => {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const [name, path] of [["overview", "/dashboard"], ["job", `/dashboard/jobs/${evil}`], ["jobs", "/dashboard/jobs"],
      ["failures", "/dashboard/failures"], ["group", `/dashboard/failures/${group}`], ["queues", "/dashboard/queues"]]) {
      await page.goto(path);
      await page.locator("html[data-ready]").waitFor();
      await page.screenshot({ path: `${PICTURES}/${name}-${colorScheme}.png` });
    }
  }
});

await step("a key is made in a form and shown once", async () => {
  await page.goto(`/dashboard/clients/${client}`);
  await page.getByLabel("Name").fill("from the browser");
  await page.getByLabel("manage").uncheck();
  await page.getByRole("button", { name: "Make key" }).click();
  const secret = await page.locator("#secret").textContent();
  await call("GET", "/v1/jobs", undefined, { authorization: `Bearer ${secret}` });
  await page.goto(`/dashboard/clients/${client}`);
  await page.getByText("submit, read, work, keys").waitFor();
  assert.ok(!(await page.content()).includes(secret), "the secret is shown again");
});

await step("the example page of another origin shows the progress of one job", async () => {
  const pages = createServer((_, answer) => answer.setHeader("content-type", "text/html").end(readFileSync(EXAMPLE)));
  await new Promise(done => pages.listen(0, "127.0.0.1", done));
  const job = await pushed("with.progress", [1], { queue: "progress" });
  const { token } = await post(`/v1/jobs/${job}/token`, {});
  const context = await browser.newContext();
  const other = await context.newPage();
  await other.goto(`http://127.0.0.1:${pages.address().port}/#${new URLSearchParams({ server: SERVER, job, token })}`);
  await other.getByText("waiting").waitFor();
  const { jobs: [held] } = await post("/ojs/v1/workers/fetch", { queues: ["progress"], worker_id: "browser", count: 1 });
  await post("/ojs/v1/workers/progress", { job_id: job, lease_token: held.lease_token, progress: 0.4 });
  await until("the bar at 40", () => other.evaluate(() => document.querySelector("progress").value === 40));
  await post("/ojs/v1/workers/ack", { job_id: job, lease_token: held.lease_token, result: { pages: 3 } });
  await other.getByText("completed", { exact: true }).waitFor();
  await other.getByText('"pages"').waitFor();
  await context.close();
  pages.close();
});

await step("logging out ends the session", async () => {
  const cookies = await page.context().cookies();
  await page.goto("/dashboard");
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Operator token").waitFor();
  await page.context().addCookies(cookies);
  await page.goto("/dashboard");
  assert.match(page.url(), /login/, "the old cookie is no good any more");
});

await step("nothing is loaded from elsewhere, and the browser complains of nothing", async () => {
  assert.deepEqual(strangers, []);
  assert.deepEqual(complaints, []);
});

await browser.close();
process.exit(nFailed === 0 ? 0 : 1);
