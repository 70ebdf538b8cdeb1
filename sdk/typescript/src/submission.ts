/** What a submission looks like on the wire: on `/v1` for one job, on `/ojs/v1` for many and for steps of workflows. */

import { durationMs, durationText, type Duration } from "./durations.js";

/** Retries that the server makes of a failed job, unless told otherwise. */
export const MAX_RETRIES = 3;

/** How a job is to be done. */
export interface JobOptions {
  /** Where it waits: `default`. */
  queue?: string | undefined;
  /** Higher goes first; -100 to 100. */
  priority?: number | undefined;
  /** Jobs of a queue take turns by `key`, `weight` (1 to 100, default 1) turns at a time. */
  fair?: { key: string; weight?: number } | undefined;
  /** How often the server tries a failed job again: 3. */
  maxRetries?: number | undefined;
  /** How long one attempt may take. */
  timeout?: Duration | undefined;
  /** By when the whole job must have ended: a span after its submission, or a time. */
  deadline?: Duration | Date | undefined;
  /** Labels: up to 16, each of `a-z 0-9 . _ : -`. */
  tags?: readonly string[] | undefined;
}

/** The same for a job that is submitted by itself. */
export interface SubmitOptions extends JobOptions {
  /** Not before so long after the submission, by the clock of this machine. */
  delay?: Duration | undefined;
  /** Not before this time. */
  at?: Date | string | undefined;
  /** A second job with this key is refused until the first has ended. */
  uniqueKey?: string | undefined;
  /** The key of the operation. Without one, each call of `submit` has its own. */
  idempotencyKey?: string | undefined;
  /** What you call it. */
  correlationId?: string | undefined;
  /** The trace that it belongs to (W3C). */
  traceparent?: string | undefined;
  /** Gives up the submission. */
  signal?: AbortSignal | undefined;
}

/** One of many jobs. */
export interface NewJob extends Omit<SubmitOptions, "uniqueKey" | "idempotencyKey" | "correlationId" | "traceparent" | "signal"> {
  /** What kind of work it is. */
  type: string;
  /** What to work on: any JSON. */
  input?: unknown;
}

/** The body of `POST /v1/jobs`. */
export function submission(type: string, input: unknown, options: SubmitOptions, now: number): Record<string, unknown> {
  const executionAt = startOf(options, now);
  return omitUndefined({
    ...jobOf(type, input, options),
    type: executionAt === undefined ? "EXECUTE" : "DEFERRED",
    execution_at: executionAt,
    unique_key: options.uniqueKey,
    correlation_id: options.correlationId,
  });
}

/** The job of a schedule, as `/v1` describes it. */
export function jobOf(type: string, input: unknown, options: JobOptions): Record<string, unknown> {
  return omitUndefined({
    type: "EXECUTE",
    job_type: type,
    payload: input ?? null,
    queue: options.queue,
    priority: options.priority,
    fair: options.fair,
    max_retries: options.maxRetries ?? MAX_RETRIES,
    timeout: options.timeout === undefined ? undefined : durationText(options.timeout),
    deadline: deadlineText(options.deadline),
    tags: options.tags,
  });
}

/** The envelope of a job on `/ojs/v1`. */
export function envelope(type: string, input: unknown, options: Omit<NewJob, "type" | "input">, now: number): Record<string, unknown> {
  return {
    type,
    args: argsOf(input),
    options: omitUndefined({
      queue: options.queue,
      priority: options.priority,
      fair: options.fair,
      retry: { max_attempts: (options.maxRetries ?? MAX_RETRIES) + 1 },
      timeout: options.timeout === undefined ? undefined : durationText(options.timeout),
      deadline: deadlineText(options.deadline),
      tags: options.tags,
      scheduled_at: startOf(options, now),
    }),
  };
}

/** A list of two and more is the arguments; anything else is the one argument. So a worker gets what was submitted. */
function argsOf(input: unknown): unknown[] {
  if (input === undefined || input === null) return [];
  return Array.isArray(input) && input.length > 1 ? input : [input];
}

/** What a handler gets of a job: what was submitted. */
export function inputOf(args: unknown, wrapped: boolean | undefined): unknown {
  if (!Array.isArray(args)) return args ?? null;
  // The server says that the list itself was submitted.
  if (wrapped === false) return args;
  return args.length > 1 ? args : (args[0] ?? null);
}

function startOf(options: { delay?: Duration | undefined; at?: Date | string | undefined }, now: number): string | undefined {
  if (options.at !== undefined) {
    if (options.delay !== undefined) throw new TypeError("give `delay` or `at`, not both");
    return timeText(options.at);
  }
  const delay = options.delay === undefined ? 0 : durationMs(options.delay);
  return delay > 0 ? timeText(new Date(now + delay)) : undefined;
}

export function deadlineText(deadline: Duration | Date | undefined): string | undefined {
  if (deadline === undefined || deadline instanceof Date) return deadline && timeText(deadline);
  return durationText(deadline);
}

export function timeText(time: Date | string): string {
  return typeof time === "string" ? time : time.toISOString();
}

/** The object without members that are `undefined`. */
export function omitUndefined(members: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}
