import assert from "node:assert/strict";
import { test } from "node:test";

import { EventParser } from "../dist/esm/events.js";
import { broken, refused, stubClient } from "./support/stub.mjs";

const stream = (...pieces) => () =>
  new Response(new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece));
      controller.close();
    },
  }), { headers: { "content-type": "text/event-stream" } });

const event = (id, name, data = {}) => `event: ${name}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`;

async function read(events) {
  const read = [];
  for await (const { id, name, data } of events) read.push([id, name, data]);
  return read;
}

test("events are read however the text is cut", () => {
  const text = 'retry: 3000\n\n: hello\n\nevent: job-started\nid: 7\ndata: {"a":1}\n\ndata: x\ndata:y\r\n\r\n';
  const expected = [3000, { id: "7", name: "job-started", data: { a: 1 } }, { id: "7", name: "message", data: { text: "x\ny" } }];
  for (let size = 1; size <= text.length; size++) {
    const parser = new EventParser();
    const items = [];
    for (let at = 0; at < text.length; at += size) items.push(...parser.push(text.slice(at, at + size)));
    assert.deepEqual(items, expected, `pieces of ${size}`);
  }
});

test("what is not finished is no event, and a line without end is refused", () => {
  const parser = new EventParser();
  assert.deepEqual(parser.push("event: a\ndata: 1\n"), []);
  assert.deepEqual(parser.push("\n"), [{ id: "", name: "a", data: { value: 1 } }]);
  assert.deepEqual(parser.push("event: only-a-name\n\n"), []);
  assert.throws(() => parser.push("x".repeat(5 << 20)), /too long/);
});

test("a stream that breaks comes back after the last event, and ends with the job", async () => {
  const { client, requests } = stubClient([
    stream("retry: 50\n\n", event(1, "job-created"), event(2, "job-started", { attempt: 1 })),
    refused,
    broken,
    stream(event(3, "job-completed"), event(4, "never seen")),
  ]);
  assert.deepEqual(await read(client.job("j-1").events()), [
    ["1", "job-created", {}], ["2", "job-started", { attempt: 1 }], ["3", "job-completed", {}],
  ]);
  assert.deepEqual(requests.map(({ headers }) => headers.get("last-event-id")), [null, "2", "2", "2"]);
});

test("204 is the end; a stream can go on after an event that was seen before", async () => {
  const { client, requests } = stubClient([() => new Response(null, { status: 204 })]);
  assert.deepEqual(await read(client.job("j-1").events({ after: "9" })), []);
  assert.equal(requests[0].headers.get("last-event-id"), "9");
});

test("a server that stays away is reported", async () => {
  const { client } = stubClient([refused]);
  await assert.rejects(read(client.job("j-1").events()), { code: "UNREACHABLE" });
});

test("what is no stream of events is refused", async () => {
  const { client } = stubClient([() => new Response("{}", { headers: { "content-type": "application/json" } })]);
  await assert.rejects(read(client.job("j-1").events()), { code: "PROTOCOL", message: /stream of events/ });
});

test("the events of all jobs do not end with one of them", async () => {
  const { client, requests } = stubClient([stream(event(1, "job-completed")), stream(event(2, "job-created"))]);
  const seen = [];
  for await (const { name } of client.events()) {
    seen.push(name);
    if (seen.length === 2) break;
  }
  assert.deepEqual(seen, ["job-completed", "job-created"]);
  assert.deepEqual(requests.map(({ url }) => url.pathname), ["/v1/events", "/v1/events"]);
});
