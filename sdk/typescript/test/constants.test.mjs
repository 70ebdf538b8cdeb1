// The constants of this package are those of the server's own description.
import assert from "node:assert/strict";
import { test } from "node:test";

import { JOB_STATES } from "forgerun";

import { CANONICAL_CODES, END_EVENTS, FORGERUN_CODES, isRetryable, JOB_STATUSES } from "../dist/esm/codes.js";
import { startServer } from "./support/server.mjs";

const server = await startServer();
const { schemas } = (await (await fetch(`${server.url}/openapi.json`)).json()).components;

const sorted = (words) => [...words].sort();

test("ForgeRun's codes", () => {
  assert.deepEqual(sorted(Object.keys(FORGERUN_CODES)), sorted(schemas.Codes.properties.rfa_code.enum));
});

test("canonical codes: each in its group, and retryable by default or not", async () => {
  const page = await (await fetch(`${server.url}/ojs/errors`, { headers: { accept: "text/html" } })).text();
  const entries = page.matchAll(/<h2 id="(\w+)">.*?<p>Category (\w+)\.[^<]*Trying again (can|does not) help/gs);
  const listed = [...entries].map(([, code, category, helps]) => `${code} ${category} ${helps === "can"}`);
  const ours = [...CANONICAL_CODES].map(([code, category]) => `${code} ${category} ${isRetryable(category, code, undefined)}`);
  assert.deepEqual(sorted(ours), sorted(listed));
});

test("states", () => {
  assert.deepEqual(sorted(JOB_STATES), sorted(schemas.State.enum));
});

test("statuses, and which of them are an end", () => {
  assert.deepEqual(sorted(Object.keys(JOB_STATUSES)), sorted(schemas.AsyncJob.properties.jobStatus.examples));
});

test("events that end a job", async () => {
  const text = await (await fetch(`${server.url}/asyncapi.yaml`)).text();
  for (const name of END_EVENTS) assert(text.includes(`name: ${name}\n`), `${name} is not in the description of events`);
});
