/** A handle of one job: where it stands, how it ends, what it left. */

import { JOB_STATUSES, type JobState } from "./codes.js";
import { errorOfJob, ForgeRunError, isObject } from "./errors.js";
import { followEvents, type EventOptions, type JobEvent } from "./events.js";
import { readLines, type LogReadOptions, type StoredLine } from "./lines.js";
import { HOLD_S, RESULT_BYTES_MAX, WAIT_TIMEOUT_MS } from "./limits.js";
import { ResultStream } from "./result.js";
import { nextPoll } from "./retry.js";
import { parse, segment, type Transport } from "./transport.js";

/** A job as it stood when it was asked for. */
export interface JobStatus {
  id: string;
  type: string | undefined;
  queue: string;
  /** Where it stands. */
  state: JobState;
  /** Whether it will not go on by itself. */
  ended: boolean;
  /** The attempt under way or about to begin, from 1. */
  attempt: number;
  /** Percent done, as last reported. */
  progress: number | undefined;
  tags: string[];
  /** Whether it is held back until it is resumed. */
  paused: boolean;
  /** The signal that its handler waits for, if it does. */
  awaitedSignal: string | undefined;
  /** All that the server said, in its own words. */
  body: Record<string, unknown>;
}

export interface WaitOptions {
  /** How long to wait: 5 minutes. */
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** How a job went. */
export interface JobReport {
  job_id: string;
  outcome: string;
  events: Record<string, unknown>[];
  started_at: string;
  finished_at: string;
  duration_ms: number;
  attempts: number;
}

/** One job. Making a handle asks nothing of the server. */
export class Job<T = unknown> {
  constructor(
    private readonly transport: Transport,
    /** Which job. */
    readonly id: string,
  ) {}

  /** Where it stands. */
  async status(signal?: AbortSignal): Promise<JobStatus> {
    const call = { method: "GET", path: this.path(), repeat: "harmless", signal } as const;
    return statusOf(await this.transport.json<Record<string, unknown>>(call));
  }

  /** Waits until it has ended, however that is. Throws a `TimeoutError` if it has not by then; it goes on all the same. */
  async wait(options: WaitOptions = {}): Promise<JobStatus> {
    const { clock } = this.transport;
    const timeoutMs = options.timeoutMs ?? WAIT_TIMEOUT_MS;
    const beganAt = clock.now();
    for (let polls = 0; ; ) {
      const left = timeoutMs - (clock.now() - beganAt);
      let retryAfterMs: number | undefined;
      try {
        const { status, held, retryAfter } = await this.ask(Math.max(left, 0), options.signal);
        if (status.ended) return status;
        if (held) {
          if (clock.now() - beganAt >= timeoutMs) throw this.tooLate(timeoutMs);
          continue;
        }
        retryAfterMs = retryAfter;
      } catch (error) {
        // The request was sent again already, as often as the policy allows. It is the job that matters, so go on.
        if (!(error instanceof ForgeRunError) || !error.retryable) throw error;
        retryAfterMs = error.retryAfterMs;
      }
      const waited = clock.now() - beganAt;
      const wait = nextPoll(polls++, waited, retryAfterMs, timeoutMs);
      await clock.sleep(wait ?? Math.max(timeoutMs - waited, 0), options.signal);
      if (wait === undefined) throw this.tooLate(timeoutMs);
    }
  }

  /**
   * Waits for its end and returns its result: a JSON value, bytes of any other type, `undefined` if it left none. Throws
   * `JobFailed`, `JobTimedOut` or `JobCancelled` if it did not succeed, and a `TimeoutError` if it has not ended in time.
   */
  async result(options: WaitOptions & { maxBytes?: number } = {}): Promise<T> {
    const status = await this.wait(options);
    if (status.state !== "SUCCEEDED") throw errorOfJob(status.state, await this.failure(options.signal));
    let stream: ResultStream;
    try {
      stream = await this.stream(options.signal);
    } catch (error) {
      if (error instanceof ForgeRunError && String(error.problem?.["type"]).endsWith("/result-not-found")) return undefined as T;
      throw error;
    }
    const bytes = await stream.bytes(options.maxBytes ?? RESULT_BYTES_MAX);
    return (isJson(stream.contentType) ? parse(new TextDecoder().decode(bytes)) : bytes) as T;
  }

  /** The result of a job that has succeeded, in pieces, whatever its size and type. */
  stream(signal?: AbortSignal): Promise<ResultStream> {
    return ResultStream.open(this.transport, `${this.path()}/result`, signal);
  }

  /** The object that says why it ended badly; `undefined` if it did not, or not yet. */
  async failure(signal?: AbortSignal): Promise<Record<string, unknown> | undefined> {
    const headers = { accept: "application/problem+json" };
    const answer = await this.transport.send({ method: "GET", path: this.path(), headers, repeat: "harmless", signal });
    const body = parse<unknown>(await answer.text());
    const isProblem = answer.headers.get("content-type")?.startsWith("application/problem+json");
    return isProblem && isObject(body) ? body : undefined;
  }

  /** Cancels it: the state it has then. Of a job that has ended it changes nothing. */
  async cancel(): Promise<JobState> {
    return this.change("cancel");
  }

  /** Begins a failed job again: the state it has then. A dead letter needs `revive`. */
  async retry(options: { revive?: boolean } = {}): Promise<JobState> {
    return this.change("retry", options.revive ? { revive: true } : undefined);
  }

  /** Holds it back: no worker gets it until it is resumed. One that runs goes on. The state it has then. */
  async pause(): Promise<JobState> {
    return this.change("pause");
  }

  /** Ends a pause: the state it has then. */
  async resume(): Promise<JobState> {
    return this.change("resume");
  }

  /**
   * Sends a signal to its handler, which gets `payload`, any JSON, where it waits for it: `ctx.waitFor(name)`. One that comes before the
   * wait is kept, and the same one again changes nothing. Another payload, or one after the timeout, is a `ConflictError`.
   */
  async signal(name: string, payload: unknown = true): Promise<void> {
    const path = `${this.path()}/signals/${segment(name)}`;
    await this.transport.json({ method: "POST", path, jsonText: JSON.stringify(payload), repeat: "harmless" });
  }

  /**
   * The lines of its log, in their order: those that are there, or with `follow` also new ones until the job has ended. Breaks are
   * mended; no line comes twice.
   */
  logs(options: LogReadOptions = {}): AsyncGenerator<StoredLine, void, undefined> {
    return readLines(this.transport, `${this.path()}/logs`, options);
  }

  /** What happens to it, from the beginning to its end. Breaks are mended; no event is missed. */
  events(options: EventOptions = {}): AsyncGenerator<JobEvent, void, undefined> {
    return followEvents(this.transport, `${this.path()}/events`, options);
  }

  /** How it went, once it has ended. */
  async report(): Promise<JobReport> {
    return this.transport.json({ method: "GET", path: `${this.path()}/report`, repeat: "harmless" });
  }

  private async change(verb: string, json?: unknown): Promise<JobState> {
    const call = { method: "POST", path: `${this.path()}/${verb}`, json, repeat: "harmless" } as const;
    return (await this.transport.json<{ state: JobState }>(call)).state;
  }

  /** Asks once, letting the server hold the answer until the end. */
  private async ask(leftMs: number, signal: AbortSignal | undefined) {
    const seconds = Math.min(HOLD_S, Math.ceil(leftMs / 1000));
    const answer = await this.transport.send({
      method: "GET",
      path: this.path(),
      headers: { prefer: seconds > 0 ? `wait=${seconds}` : undefined },
      holdMs: seconds * 1000,
      repeat: "harmless",
      signal,
    });
    const after = answer.headers.get("retry-after");
    return {
      held: answer.headers.get("preference-applied")?.includes("wait") ?? false,
      retryAfter: after && /^\d+$/.test(after) ? Number(after) * 1000 : undefined,
      status: statusOf(parse(await answer.text())),
    };
  }

  private tooLate(timeoutMs: number): DOMException {
    return new DOMException(`the job ${this.id} did not end within ${timeoutMs / 1000} s`, "TimeoutError");
  }

  private path(): string {
    return `v1/jobs/${segment(this.id)}`;
  }
}

function isJson(contentType: string): boolean {
  return /^application\/(.+\+)?json\b/i.test(contentType);
}

/** Reads a job of `/v1`. */
export function statusOf(body: Record<string, unknown>): JobStatus {
  const text = (name: string) => (typeof body[name] === "string" ? (body[name] as string) : undefined);
  const number = (name: string) => (typeof body[name] === "number" ? (body[name] as number) : undefined);
  return {
    id: text("job_id") ?? "",
    type: text("job_type"),
    queue: text("queue") ?? "",
    state: text("state") ?? "",
    ended: JOB_STATUSES[text("jobStatus") ?? ""] ?? false,
    attempt: number("attempt") ?? 0,
    progress: number("progress"),
    tags: Array.isArray(body["tags"]) ? (body["tags"] as string[]) : [],
    paused: body["paused"] === true,
    awaitedSignal: text("awaited_signal"),
    body,
  };
}
