/** What a handler can do beside its work. */

import type { Duration } from "../durations.js";
import { ForgeRunError } from "../errors.js";
import type { LogLevel, LogLine } from "../lines.js";
import { inputOf } from "../submission.js";
import { segment, type Transport } from "../transport.js";
import type { Step } from "../workflow.js";
import { Suspended } from "./failure.js";
import { PAUSE_HELD_MS, PAUSE_MAX_MS } from "./limits.js";
import { LogSender } from "./logs.js";
import { whole } from "./references.js";
import { RecordedSteps, Steps } from "./steps.js";

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
  workflow_id?: string;
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
  /** The results of the steps that it waited for, by their names. `null` for what left nothing, or no JSON. */
  readonly parents: Readonly<Record<string, unknown>>;
  /** Reports how far the work is, from 0 to 100. A report that gets lost is no reason to fail. */
  progress(percent: number, message?: string): Promise<void>;
  /**
   * Does a part of the work once: its result is recorded, and a later attempt gets it without calling `fn` again. A worker that
   * dies between the end of `fn` and the record calls it again, so a step runs at least once; where two workers ran it, the first
   * result counts for both. A result is JSON of up to 256 KiB; a job has up to 1,000 steps and 1 MiB of results.
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
  /**
   * The payload of a signal to this job (`Job.signal`), sent before this call or after it. A job has one signal of a name. Until it comes
   * the job goes back to its queue, and the handler runs again from its beginning then: put what comes before into steps. It counts
   * as no attempt. After the timeout without a signal it throws `SignalTimeout`.
   */
  waitFor<T = unknown>(signal: string, options?: { timeout?: Duration | undefined }): Promise<T>;
  /**
   * Adds steps to the workflow that this job is a step of. They may depend on it, and on all others. Each needs an `id`. A second attempt
   * that adds the same ids gets a `ConflictError`: put the call into a `step`.
   */
  addSteps(...steps: Step[]): Promise<void>;
}

const NAME = /^[A-Za-z0-9._-]{1,32}$/;

export function lineOf(text: unknown, { level = "info", stream = "log" }: LogOptions = {}): LogLine {
  if (!NAME.test(level) || !NAME.test(stream)) {
    throw new RangeError("the names of levels and streams have 1 to 32 letters, digits, dots, hyphens and underscores");
  }
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

/** The context of a job that a worker holds. */
export class WorkerContext implements JobContext {
  readonly job: JobFacts;
  readonly parents: Record<string, unknown>;
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
    this.steps = new Steps(new RecordedSteps(transport, taken, signal));
    this.parents = parentsOf(taken);
  }

  get cancelled(): boolean {
    return this.signal.aborted;
  }

  /** Puts results of parents in the place of references to them. */
  async fetchParents(): Promise<void> {
    for (const [name, value] of Object.entries(this.parents)) this.parents[name] = await whole(this.transport, value, this.signal);
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

  async waitFor<T>(signal: string, options: { timeout?: Duration | undefined } = {}): Promise<T> {
    const { clock } = this.transport;
    const wait = this.steps.waitFor(signal, options.timeout, () => clock.now(), (rest) => {
      throw new Suspended(Math.min(rest ?? PAUSE_MAX_MS, PAUSE_MAX_MS), signal);
    });
    return wait.catch((error: unknown) => {
      this.noteLoss(error);
      throw error;
    }) as Promise<T>;
  }

  async addSteps(...steps: Step[]): Promise<void> {
    const { workflow_id, lease_token } = this.taken;
    if (workflow_id === undefined) throw new TypeError("the job is no step of a workflow");
    const path = `v1/workflows/${segment(workflow_id)}/steps`;
    const call = { method: "POST", path, json: { lease_token, steps }, signal: this.signal } as const;
    await this.transport.json(call).catch((error: unknown) => {
      this.noteLoss(error);
      throw error;
    });
  }

  private noteLoss(error: unknown): void {
    if (error instanceof ForgeRunError && error.details["reason"] === "lease_lost") this.onLost();
  }
}
