// Reads the documentation with a real browser. Prints `ok NAME` or `FAILED NAME: WHY` for each step.

import { createRequire } from "node:module";
import { strict as assert } from "node:assert";
import { readFileSync } from "node:fs";

const { SERVER, SITE, PICTURES, TOOLS, CHROMIUM = "/usr/bin/chromium" } = process.env;
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
  }
}

const PAGES = ["/docs", "/docs/start/sixty-seconds", "/docs/reference/cli", "/docs/reference/configuration", "/docs/api", "/docs/api/jobs", "/docs/search?q=lease"];
const page = await open({ permissions: ["clipboard-read", "clipboard-write"] });

await step("the search finds a section, and its link leads there", async () => {
  await page.goto("/docs");
  await page.keyboard.press("/");
  await page.keyboard.type("exit codes");
  await page.keyboard.press("Enter");
  await page.locator(".results a").first().click();
  assert.match(page.url(), /#exit-codes$/);
  assert.ok(await page.locator("#exit-codes").isVisible());
});

await step("a block of code is copied", async () => {
  await page.goto("/docs/reference/configuration");
  const block = page.locator(".code").first();
  await block.hover();
  await block.getByRole("button", { name: "Copy" }).click();
  await block.getByRole("button", { name: "Copied" }).waitFor();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^forgerun config/);
});

await step("a language is chosen for all tabs and kept", async () => {
  await page.goto("/docs/start/sixty-seconds");
  const tabs = page.locator(".tabs").first();
  assert.ok(await tabs.locator(".language-sh").first().isVisible());
  await tabs.getByText("Python", { exact: true }).click();
  assert.ok(await tabs.locator(".language-python").isVisible());
  assert.ok(!await tabs.locator(".language-sh").first().isVisible());
  await page.reload();
  assert.ok(await page.locator(".tabs .language-python").first().isVisible());
});

await step("dark and light are chosen and kept", async () => {
  await page.emulateMedia({ colorScheme: "light" });
  await page.goto("/docs");
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.getByRole("button", { name: "Dark" }).click();
  const dark = await ground();
  assert.notEqual(dark, light);
  await page.goto("/docs/api");
  assert.equal(await ground(), dark);
  await page.getByRole("button", { name: "Light" }).click();
  assert.equal(await ground(), light);
});

await step("every page is accessible, in light, dark and on a small screen", async () => {
  for (const [name, options] of [["light", { colorScheme: "light" }], ["dark", { colorScheme: "dark" }],
    ["mobile", { colorScheme: "light", viewport: { width: 390, height: 844 } }]]) {
    const reader = await open(options);
    for (const path of PAGES) {
      await reader.goto(path);
      await reader.locator("button#theme:visible").waitFor();
      await reader.evaluate(AXE);
      const { violations } = await reader.evaluate(() => axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"] }));
      const told = violations.map(({ id, nodes }) => `${id} at ${nodes.slice(0, 3).map(node => node.html.slice(0, 120)).join(" and ")}`);
      assert.deepEqual(told, [], `${path} in ${name}`);
      const wider = await reader.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wider <= 0, `${path} in ${name} is ${wider} px too wide`);
      await reader.screenshot({ path: `${PICTURES}/docs${path.replace(/[^a-z]+/g, "-").slice(5)}-${name}.png` });
    }
    await reader.context().close();
  }
});

await step("without script every page is there", async () => {
  const reader = await open({ javaScriptEnabled: false });
  for (const path of PAGES) {
    await reader.goto(path);
    assert.ok(await reader.locator("main h1").isVisible(), path);
  }
  await reader.goto("/docs");
  await reader.locator("#q").fill("lease token");
  await reader.keyboard.press("Enter");
  await reader.locator(".results a").first().waitFor();
});

await step("a folder of files is searched without a server", async () => {
  const context = await browser.newContext();
  const reader = await context.newPage();
  reader.on("pageerror", error => complaints.push(`${reader.url()}: ${error}`));
  await reader.goto(`file://${SITE}/reference/cli.html`);
  await reader.locator("#q").fill("exit codes [x]?");
  await reader.keyboard.press("Enter");
  await reader.getByText("0 sections").waitFor();
  await reader.locator("#q").fill("exit codes");
  await reader.keyboard.press("Enter");
  await reader.locator("#results a").first().click();
  assert.match(reader.url(), /reference\/cli\.html#exit-codes$/);
  await context.close();
});

await step("nothing is loaded from elsewhere, and the browser complains of nothing", async () => {
  assert.deepEqual(strangers, []);
  assert.deepEqual(complaints, []);
});

await browser.close();
process.exit(nFailed === 0 ? 0 : 1);
