/** What a handler can do beside its work. */

import { durationMs, type Duration } from "../durations.js";
import { ForgeRunError } from "../errors.js";
import { inputOf } from "../submission.js";
import { segment, type Transport } from "../transport.js";
import { Suspended } from "./failure.js";
import { PAUSE_HELD_MS, PAUSE_MAX_MS } from "./limits.js";
import { LogSender } from "./logs.js";

/** A job as the server hands it out. */
export interface TakenJob {
  id: string;
  type: string;
  queue?: string;
  attempt?: number;
  args?: unknown;
  args_wrapped?: boolean;
  tags?: string[];
  meta?: Record<string, unknown>;
  lease_token?: string;
  traceparent?: string;
  parent_steps?: string[];
  parent_results?: unknown[];
}

/** What a handler knows of its job. */
export interface JobFacts {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  /** Which attempt, from 1. */
  readonly attempt: number;
  readonly tags: readonly string[];
  readonly meta: Readonly<Record<string, unknown>>;
  /** The trace that it belongs to (W3C). */
  readonly traceparent: string | undefined;
}

export type LogLevel = "debug" | "info" | "warn" | "error";

/** A line that a handler logged. */
export interface LogLine {
  at: Date;
  level: LogLevel;
  stream: string;
  text: string;
}

export interface LogOptions {
  /** `info` unless said otherwise. */
  level?: LogLevel | undefined;
  /** `log` unless said otherwise; `output` is for partial results. */
  stream?: string | undefined;
}

/** What a handler is called with, beside its input. */
export interface JobContext {
  readonly job: JobFacts;
  /** Aborted when the handler should stop: the job was cancelled, is no longer this worker's, or the worker stops. */
  readonly signal: AbortSignal;
  /** Whether that has happened. */
  readonly cancelled: boolean;
  /** The results of the steps that it waited for, by their names. `null` for what left no JSON, or too much. */
  readonly parents: Readonly<Record<string, unknown>>;
  /** Reports how far the work is, from 0 to 100. A report that gets lost is no reason to fail. */
  progress(percent: number, message?: string): Promise<void>;
  /**
   * Does a part of the work once: its result is recorded, and a later attempt gets it without calling `fn` again. A worker that
   * dies between the end of `fn` and the record calls it again, so a step runs at least once and has one result. The result
   * must be JSON; those of all steps of a job have at most 256 KiB together.
   */
  step<T>(name: string, fn: () => T | Promise<T>): Promise<T>;
  /** Adds a line to the log of the job, which is kept and deleted with it. Returns at once; a line that gets lost is no reason to fail. */
  log(text: unknown, options?: LogOptions): void;
  /**
   * Goes on after this time, on any worker, however often workers and servers are restarted meanwhile. For longer than a few seconds
   * the job goes back to its queue, and the handler runs again from its beginning: put what comes before into steps. It counts
   * as no attempt. Sleeps are told apart by their order, or by `name`.
   */
  sleep(span: Duration, name?: string): Promise<void>;
}

export function lineOf(text: unknown, { level = "info", stream = "log" }: LogOptions = {}): LogLine {
  return { at: new Date(), level, stream, text: typeof text === "string" ? text : (JSON.stringify(text) ?? String(text)) };
}

export function factsOf(job: TakenJob): JobFacts {
  const meta = job.meta ?? {};
  const trace = job.traceparent ?? meta["traceparent"];
  return {
    id: job.id,
    type: job.type,
    queue: job.queue ?? "",
    attempt: job.attempt ?? 1,
    tags: job.tags ?? [],
    meta,
    traceparent: typeof trace === "string" ? trace : undefined,
  };
}

export function inputOfJob(job: TakenJob): unknown {
  return inputOf(job.args, job.args_wrapped);
}

export function parentsOf(job: TakenJob): Record<string, unknown> {
  return Object.fromEntries((job.parent_steps ?? []).map((step, at) => [step, job.parent_results?.[at] ?? null]));
}

/** Where the results of steps are kept between attempts. */
export interface StepStore {
  load(): Promise<Record<string, unknown>>;
  save(results: Record<string, unknown>): Promise<void>;
}

/** The steps of one attempt. */
export class Steps {
  private results: Promise<Record<string, unknown>> | undefined;
  private saving: Promise<unknown> = Promise.resolve();

  constructor(private readonly store: StepStore) {}

  private sleeps = 0;

  /** How many milliseconds of a sleep are left, now that it is recorded when it ends. */
  async rest(span: Duration, name: string | undefined, now: () => number): Promise<number> {
    const label = `sleep:${name ?? ++this.sleeps}`;
    return (await this.run(label, () => now() + durationMs(span))) - now();
  }

  async run<T>(name: string, fn: () => T | Promise<T>): Promise<T> {
    this.results ??= this.store.load();
    const results = await this.results.catch((error: unknown) => {
      this.results = undefined;
      throw error;
    });
    if (Object.hasOwn(results, name)) return results[name] as T;
    // What the first attempt gets is what later ones read: the value as JSON has it.
    const text = JSON.stringify(await fn()) as string | undefined;
    const result: unknown = text === undefined ? null : JSON.parse(text);
    Object.defineProperty(results, name, { value: result, enumerable: true, configurable: true, writable: true });
    // One after the other, because each save replaces the whole.
    const saved = this.saving.then(() => this.store.save(results));
    this.saving = saved.catch(() => undefined);
    await saved;
    return result as T;
  }
}

/** The checkpoint of a job on the server. */
export class CheckpointStore implements StepStore {
  constructor(
    private readonly transport: Transport,
    private readonly job: TakenJob,
    private readonly signal: AbortSignal,
  ) {}

  async load(): Promise<Record<string, unknown>> {
    const path = `ojs/v1/checkpoints/${segment(this.job.id)}/resume`;
    const answer = await this.transport.json<{ has_checkpoint?: boolean; state?: unknown }>({
      method: "GET",
      path,
      repeat: "harmless",
      signal: this.signal,
    });
    const { state } = answer;
    return answer.has_checkpoint && typeof state === "object" && state !== null ? { ...state } : {};
  }

  async save(results: Record<string, unknown>): Promise<void> {
    await this.transport.json({
      method: "PUT",
      path: `ojs/v1/jobs/${segment(this.job.id)}/checkpoint`,
      headers: { "lease-token": this.job.lease_token },
      json: { state: results },
      repeat: "harmless",
      signal: this.signal,
    });
  }
}

/** The context of a job that a worker holds. */
export class WorkerContext implements JobContext {
  readonly job: JobFacts;
  private readonly steps: Steps;
  private logs: LogSender | undefined;

  constructor(
    private readonly transport: Transport,
    private readonly taken: TakenJob,
    readonly signal: AbortSignal,
    /** Called when the server says that the job is not ours any more. */
    private readonly onLost: () => void,
  ) {
    this.job = factsOf(taken);
    this.steps = new Steps(new CheckpointStore(transport, taken, signal));
  }

  get cancelled(): boolean {
    return this.signal.aborted;
  }

  get parents(): Record<string, unknown> {
    return parentsOf(this.taken);
  }

  async progress(percent: number, message?: string): Promise<void> {
    if (!(percent >= 0 && percent <= 100)) throw new RangeError(`progress is a number from 0 to 100, not ${percent}`);
    const json = { job_id: this.taken.id, lease_token: this.taken.lease_token, percentage: percent, message };
    const call = { method: "POST", path: "ojs/v1/workers/progress", json, repeat: "harmless", signal: this.signal } as const;
    await this.transport.json(call).catch((error: unknown) => this.noteLoss(error));
  }

  async step<T>(name: string, fn: () => T | Promise<T>): Promise<T> {
    try {
      return await this.steps.run(name, fn);
    } catch (error) {
      this.noteLoss(error);
      throw error;
    }
  }

  log(text: unknown, options?: LogOptions): void {
    this.logs ??= new LogSender(this.transport, this.taken, this.signal);
    this.logs.add(lineOf(text, options));
  }

  /** Logs are taken only while the job is held, so they go before its end. */
  async flushLogs(): Promise<void> {
    await this.logs?.flush();
  }

  async sleep(span: Duration, name?: string): Promise<void> {
    const { clock } = this.transport;
    const rest = await this.steps.rest(span, name, () => clock.now()).catch((error: unknown) => {
      this.noteLoss(error);
      throw error;
    });
    if (rest > PAUSE_HELD_MS) throw new Suspended(Math.min(rest, PAUSE_MAX_MS));
    if (rest > 0) await clock.sleep(rest, this.signal);
  }

  private noteLoss(error: unknown): void {
    if (error instanceof ForgeRunError && error.details["reason"] === "lease_lost") this.onLost();
  }
}
