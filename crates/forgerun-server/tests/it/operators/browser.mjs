// People log in with the identity provider, in a real browser. Prints `ok NAME` or `FAILED NAME: WHY` for each step, and `COOKIE` with
// the last session of a viewer.

import { createRequire } from "node:module";
import { strict as assert } from "node:assert";

const { SERVER, TOOLS, JOB, ROUTES, CHROMIUM = "/usr/bin/chromium" } = process.env;
const require = createRequire(`${TOOLS}/`);
const { chromium } = require("playwright-core");
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });

async function open() {
  const context = await browser.newContext({ baseURL: SERVER });
  // The provider's pages ask for fonts of others.
  await context.route(/googleapis|gstatic/, route => route.abort());
  const page = await context.newPage();
  page.setDefaultTimeout(60000);
  return page;
}

async function step(name, run) {
  try {
    await run();
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`FAILED ${name}: ${String(error.stack ?? error).split("\n").slice(0, 8).join(" | ")}`);
  }
}

// From the log-in page through the pages of the provider.
async function logIn(page, person, path = "/dashboard/queues") {
  await page.goto(path);
  assert.match(page.url(), /\/dashboard\/login\?next=/);
  await page.getByRole("link", { name: "Log in with single sign-on" }).click();
  await page.locator("input[name=login]").fill(person);
  await page.locator("input[name=password]").fill("any");
  await page.locator("button[type=submit]").click();
  await page.getByRole("button", { name: "Continue" }).click();
}

const cookie = async (page, name) => (await page.context().cookies()).find(cookie => cookie.name === name);
const SESSION = "forgerun_session", LOGIN = "forgerun_login";

const viewer = await open();
let callback, begun, session;

await step("a viewer logs in, and comes back to the page", async () => {
  // A session that somebody else planted must not become the viewer's.
  await viewer.context().addCookies([{ name: SESSION, value: "planted.1.admin.YQ.00", domain: "localhost", path: "/dashboard" }]);
  viewer.on("request", request => { if (request.url().includes("/login/callback?")) callback = request.url(); });
  viewer.on("response", async response => {
    const header = (await response.headersArray()).find(({ name, value }) => name.toLowerCase() === "set-cookie" && value.startsWith(`${LOGIN}=`));
    if (header && !header.value.startsWith(`${LOGIN}=;`)) begun = header.value;
  });
  await logIn(viewer, "vera");
  await viewer.waitForURL(`${SERVER}/dashboard/queues`);
  assert.match(await viewer.locator("#who").textContent(), /vera@example.org \(vera\) · viewer/);
  session = await cookie(viewer, SESSION);
  assert.deepEqual([session.httpOnly, session.sameSite, session.path], [true, "Strict", "/dashboard"]);
  assert.ok(!session.value.startsWith("planted"));
  assert.ok(begun.includes("SameSite=Lax") && begun.includes("HttpOnly"), begun);
  assert.equal(await cookie(viewer, LOGIN), undefined, "the log-in is over");
});

await step("a viewer gets no controls and no contents", async () => {
  for (const path of ["/dashboard", "/dashboard/queues", "/dashboard/jobs", "/dashboard/clients", `/dashboard/jobs/${JOB}`]) {
    await viewer.goto(path);
    await viewer.locator("#who").waitFor();
    const controls = viewer.locator("form[method=post] button, button[formmethod=post], #bulk button");
    assert.deepEqual(await controls.allTextContents(), ["Log out"], path);
  }
  const text = await viewer.locator("main").textContent();
  assert.ok(text.includes("The role viewer does not show this.") && !text.includes("secret-of-the-payload"), text);
});

await step("a viewer's session changes nothing by any form", async () => {
  const csrf = await viewer.locator("form[action='/dashboard/logout'] input[name=csrf]").inputValue();
  for (const [method, path] of JSON.parse(ROUTES)) {
    if (method === "GET" || path === "/dashboard/logout" || !path.startsWith("/dashboard")) continue;
    const status = await viewer.evaluate(async ([method, path, csrf]) => {
      const body = new URLSearchParams({ csrf });
      return (await fetch(path, { method, body, redirect: "manual" })).status;
    }, [method, path, csrf]);
    assert.equal(status, 403, `${method} ${path}`);
  }
});

await step("a log-in is good for one time, in one browser", async () => {
  await viewer.goto(callback);
  await viewer.getByRole("alert").or(viewer.locator("p.error")).first().waitFor();
  const other = await open();
  assert.equal((await other.goto(callback)).status(), 401, "without the cookie");
  const [pair] = begun.split(";");
  await other.context().addCookies([{ name: LOGIN, value: pair.slice(LOGIN.length + 1), domain: "localhost", path: "/dashboard" }]);
  assert.equal((await other.goto(callback)).status(), 401, "with a copy of the cookie");
  assert.match(await other.locator("main").textContent(), /was used before/);
  assert.equal(await cookie(other, SESSION), undefined);
  await other.context().close();
});

await step("a changed state and another issuer are refused", async () => {
  const page = await open();
  const sent = await page.request.get("/dashboard/login/sso", { maxRedirects: 0 });
  assert.equal(sent.status(), 303);
  const query = new URL(sent.headers().location).searchParams;
  assert.deepEqual([query.get("response_type"), query.get("code_challenge_method")], ["code", "S256"]);
  const state = query.get("state");
  const flipped = (state[0] === "0" ? "1" : "0") + state.slice(1);
  assert.equal((await page.goto(`/dashboard/login/callback?code=x&state=${flipped}`)).status(), 401);
  assert.equal((await page.goto(`/dashboard/login/callback?code=x&state=${state}&iss=https://evil.example`)).status(), 401);
  assert.equal((await page.goto(`/dashboard/login/callback?code=x&state=${state}`)).status(), 401, "used up");
  await page.context().close();
});

await step("a person without a role is not let in", async () => {
  const page = await open();
  await logIn(page, "nina");
  await page.waitForURL(/\/dashboard\/login\/callback/);
  assert.match(await page.locator("main").textContent(), /nina@example.org \(nina\) has no role here/);
  assert.equal(await cookie(page, SESSION), undefined);
  await page.context().close();
});

await step("an operator pauses a queue and makes no keys; an admin does", async () => {
  const operator = await open();
  await logIn(operator, "otto");
  await operator.waitForURL(`${SERVER}/dashboard/queues`);
  assert.match(await operator.locator("#who").textContent(), /operator/);
  await operator.locator("tr[data-queue=default]").getByRole("button", { name: "Pause queue" }).click();
  await operator.getByRole("status").getByText("is paused").waitFor();
  await operator.goto(`/dashboard/jobs/${JOB}`);
  await operator.getByText("secret-of-the-payload").waitFor();
  await operator.goto("/dashboard/clients");
  await operator.locator("tbody tr a.id").first().click();
  await operator.locator("#client").waitFor();
  assert.equal(await operator.getByRole("button", { name: "Make key" }).count(), 0);
  await operator.context().close();
  const admin = await open();
  await logIn(admin, "ada", "/dashboard/clients");
  await admin.locator("tbody tr a.id").first().click();
  await admin.getByRole("button", { name: "Make key" }).waitFor();
  await admin.goto("/dashboard/audit");
  await admin.getByLabel("Actor").fill("otto");
  await admin.getByLabel("Action").fill("pause_queue");
  await admin.getByRole("button", { name: "Filter" }).click();
  await admin.waitForURL(/actor=otto/);
  assert.equal(await admin.locator("#audit tbody tr").count(), 1);
  assert.match(await admin.locator("#audit tbody").textContent(), /otto@example.org \(otto\)/);
  await admin.context().close();
});

await step("a session that was logged out is over, also for its copy", async () => {
  await viewer.goto("/dashboard");
  await viewer.getByRole("button", { name: "Log out" }).click();
  await viewer.getByRole("link", { name: "Log in with single sign-on" }).waitFor();
  await viewer.context().addCookies([{ ...session }]);
  await viewer.goto("/dashboard");
  assert.match(viewer.url(), /\/dashboard\/login/);
  await viewer.context().close();
});

await step("a new session of the viewer stays open", async () => {
  const page = await open();
  await logIn(page, "vera");
  await page.waitForURL(`${SERVER}/dashboard/queues`);
  console.log(`COOKIE ${(await cookie(page, SESSION)).value}`);
});
await browser.close();
