/** A client for tests: it records what is submitted, asks no server, and its jobs end as the test says. */

import assert from "node:assert";
import { isDeepStrictEqual } from "node:util";

import { Client } from "../client.js";
import type { StoredLine } from "../lines.js";
import { lineOf, type LogOptions } from "../worker/context.js";
import type { Handler } from "../worker/loop.js";
import { runInline } from "./inline.js";

/** A job, workflow or schedule that was submitted. */
export interface Submitted {
  id: string;
  type: string;
  input: unknown;
  queue: string;
  /** The body that would have been sent. */
  body: Record<string, unknown>;
}

interface FakeJob extends Submitted {
  state: string;
  paused: boolean;
  lines: StoredLine[];
  result: unknown;
  failure: Record<string, unknown> | undefined;
}

type Body = Record<string, unknown>;

/**
 * A client without a server. Submitted jobs stay QUEUED until the test ends them, by `succeed` or `fail`, or at once by a
 * handler given with `handle`. Handles work as usual.
 */
export class FakeClient extends Client {
  private readonly fakes = new Map<string, FakeJob>();
  private readonly handlers = new Map<string, Handler>();
  private readonly keys = new Map<string, string>();
  /** Bodies of workflows that were begun. */
  readonly workflows: Body[] = [];
  /** Signals that were sent. */
  readonly signals: { workflowId: string; name: string; payload: unknown }[] = [];
  /** Schedules that were registered, by their names. */
  readonly schedules = new Map<string, Body>();

  constructor() {
    let made: FakeClient | undefined;
    super({ url: "http://fake.invalid", fetch: async (input, init) => made!.answer(new Request(input, init)) });
    made = this;
  }

  /** All jobs that were submitted, in order. */
  get submitted(): Submitted[] {
    return [...this.fakes.values()];
  }

  /** Does jobs of this type as they are submitted. */
  handle(type: string, handler: Handler): this {
    this.handlers.set(type, handler);
    return this;
  }

  /** Ends a job well. */
  succeed(id: string, result?: unknown): void {
    Object.assign(this.fake(id), { state: "SUCCEEDED", result });
  }

  /** Ends a job badly. */
  fail(id: string, message: string, retryable = false): void {
    const failure = { title: "Job Failed", code: "RFA_EXEC_JOB_FAILED", ojs_code: "HANDLER_ERROR", message, retryable };
    Object.assign(this.fake(id), { state: "FAILED", failure });
  }

  /** Adds a line to the log of a job. */
  log(id: string, text: string, options?: LogOptions): void {
    const { lines } = this.fake(id);
    lines.push({ ...lineOf(text, options), seq: lines.length + 1, attempt: 1 });
  }

  private fake(id: string): FakeJob {
    const fake = this.fakes.get(id);
    if (!fake) throw new Error(`no job ${id} was submitted`);
    return fake;
  }

  private async answer(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const text = await request.text();
    const body = (text === "" ? {} : JSON.parse(text)) as Body;
    const [, , kind, id, verb, name] = pathname.split("/").map(decodeURIComponent);
    if (pathname === "/v1/jobs" && request.method === "POST") return this.submitOne(body, request.headers);
    if (pathname === "/ojs/v1/jobs/batch") return this.submitBatch(body);
    if (pathname === "/v1/workflows") {
      const workflow_id = `fake-workflow-${this.workflows.push(body)}`;
      this.add({ id: workflow_id, type: "workflow", input: null, queue: "", body });
      return json(202, { workflow_id, state: "RUNNING" });
    }
    if (kind === "schedules" && request.method === "PUT") {
      this.schedules.set(id!, body);
      return json(200, { name: id, ...body });
    }
    const fake = id !== undefined && (kind === "jobs" || (kind === "workflows" && verb)) ? this.fakes.get(id) : undefined;
    if (fake && verb === "signals") {
      this.signals.push({ workflowId: id!, name: name!, payload: body });
      return json(200, {});
    }
    if (fake && verb === "logs") return logsOf(fake, searchParams, request.headers);
    return fake ? this.answerJob(fake, verb) : json(404, { code: "NOT_FOUND", message: "the fake client has no such thing" });
  }

  private async submitOne(body: Body, headers: Headers): Promise<Response> {
    const key = headers.get("idempotency-key")!;
    const known = this.keys.get(key);
    if (known) return json(202, { job_id: known, state: this.fake(known).state });
    const id = `fake-${this.fakes.size + 1}`;
    this.keys.set(key, id);
    await this.take({ id, type: String(body["job_type"]), input: body["payload"], queue: String(body["queue"] ?? "default"), body });
    return json(202, { job_id: id, state: "QUEUED" });
  }

  private async submitBatch(body: Body): Promise<Response> {
    for (const job of body["jobs"] as (Body & { args: unknown[]; options: Body })[]) {
      const input = job.args.length > 1 ? job.args : (job.args[0] ?? null);
      await this.take({ id: String(job["id"]), type: String(job["type"]), input, queue: String(job.options["queue"] ?? "default"), body: job });
    }
    return json(201, {});
  }

  private add(submitted: Submitted): void {
    this.fakes.set(submitted.id, { ...submitted, state: "QUEUED", paused: false, lines: [], result: undefined, failure: undefined });
  }

  private async take(submitted: Submitted): Promise<void> {
    this.add(submitted);
    const handler = this.handlers.get(submitted.type);
    if (!handler) return;
    const { id, type, queue } = submitted;
    try {
      this.succeed(id, (await runInline(handler, submitted.input, { job: { id, type, queue } })).result);
    } catch (error) {
      this.fail(id, (error as Error).message);
    }
  }

  private answerJob(fake: FakeJob, verb: string | undefined): Response {
    if (verb === "result") {
      if (fake.state !== "SUCCEEDED") return json(409, { code: "INVALID_STATE_TRANSITION", message: "the job has not succeeded" });
      return fake.result === undefined ? json(404, { type: "/problems/result-not-found", code: "NOT_FOUND" }) : json(200, fake.result);
    }
    if (verb === "cancel" && fake.state === "QUEUED") fake.state = "CANCELED";
    if (verb === "retry" && fake.state === "FAILED") fake.state = "QUEUED";
    if (verb === "pause" && fake.state !== "QUEUED") return json(409, { code: "INVALID_STATE_TRANSITION", message: "the job has ended" });
    if (verb === "pause" || verb === "resume") fake.paused = verb === "pause";
    const jobStatus = { SUCCEEDED: "COMPLETED", FAILED: "FAILED", CANCELED: "CANCELLED" }[fake.state] ?? "ACCEPTED";
    const { id: job_id, type: job_type, queue, state, paused, failure } = fake;
    if (failure && verb === undefined) return json(200, { ...failure, job_id, job_type, queue, state, jobStatus, attempt: 1 }, true);
    return json(200, { job_id, job_type, queue, state, jobStatus, paused, attempt: 1 });
  }
}

/** The lines of a fake job, as a page or as a stream that has ended. */
function logsOf({ lines }: FakeJob, query: URLSearchParams, headers: Headers): Response {
  const after = Number(headers.get("last-event-id") ?? query.get("after") ?? 0);
  const [stream, attempt] = [query.get("stream"), query.get("attempt")];
  const found = lines.filter(
    (line) => line.seq > after && (!stream || line.stream === stream) && (!attempt || line.attempt === Number(attempt)),
  );
  if (headers.get("accept") !== "text/event-stream") return json(200, { lines: found, dropped: 0 });
  const events = found.map((line) => `id: ${line.seq}\nevent: log\ndata: ${JSON.stringify(line)}\n\n`);
  const body = `${events.join("")}event: end\ndata: {}\n\n`;
  return new Response(body, { status: 200, headers: { "content-type": "text/event-stream" } });
}

function json(status: number, body: unknown, problem = false): Response {
  const type = problem ? "application/problem+json" : "application/json";
  return new Response(JSON.stringify(body), { status, headers: { "content-type": type } });
}

/** Asserts that a job was submitted: of this type and, if given, with this input and queue. Returns it. */
export function assertSubmitted(client: FakeClient, type: string, expected: { input?: unknown; queue?: string } = {}): Submitted {
  const found = client.submitted.find(
    (job) =>
      job.type === type &&
      (!("input" in expected) || isDeepStrictEqual(job.input, expected.input)) &&
      (expected.queue === undefined || job.queue === expected.queue),
  );
  const seen = client.submitted.map(({ type, input, queue }) => ({ type, input, queue }));
  assert(found, `no such job was submitted: ${JSON.stringify({ type, ...expected })}; there are ${JSON.stringify(seen)}`);
  return found;
}

