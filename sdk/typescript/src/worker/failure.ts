/** How a handler says what a failure means. */

import { durationMs, type Duration } from "../durations.js";
import { TRACE_LINES_MAX } from "./limits.js";

/** The same input would fail in the same way: the job is not tried again. */
export class Fatal extends Error {
  override name = "Fatal";
}

/** Try again, and not before so long. It counts as an attempt. */
export class RetryLater extends Error {
  override name = "RetryLater";
  readonly delayMs: number;

  constructor(after: Duration, message?: string, options?: { cause?: unknown }) {
    super(message ?? "to be tried again later", options);
    this.delayMs = durationMs(after);
  }
}

/** Thrown by `sleep` and `waitFor`: the job goes back to its queue. It is no failure: throw it on if you catch it. */
export class Suspended extends Error {
  override name = "Suspended";

  constructor(
    readonly delayMs: number,
    /** The signal that ends the wait before. */
    readonly awaitedSignal?: string,
  ) {
    super(`the job goes on in ${delayMs} ms${awaitedSignal === undefined ? "" : `, or with signal ${awaitedSignal}`}`);
  }
}

/** Thrown by `waitFor`: no signal came in time, and none will count any more. */
export class SignalTimeout extends Error {
  override name = "SignalTimeout";
}

/** What the server is told of a failure. */
export interface Failure {
  code: string;
  type: string;
  message: string;
  retryable?: boolean;
  backtrace?: string[];
}

/** What a thrown value says. Anything may be thrown. */
export function failureOf(thrown: unknown): Failure {
  if (!(thrown instanceof Error)) return { code: "handler_error", type: typeof thrown, message: String(thrown) };
  const backtrace = (thrown.stack ?? "").split("\n").filter((line) => line.startsWith("    at "));
  const failure: Failure = {
    code: "handler_error",
    type: thrown.name === "Error" ? thrown.constructor.name : thrown.name,
    message: thrown.message || thrown.name,
    backtrace: backtrace.slice(0, TRACE_LINES_MAX).map((line) => line.trim()),
  };
  if (thrown instanceof Fatal) failure.retryable = false;
  if (thrown instanceof RetryLater) failure.retryable = true;
  return failure;
}
