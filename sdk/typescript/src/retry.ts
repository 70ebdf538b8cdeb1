/** When a request is sent again by itself, and when a job is asked for again. Pure decisions; the client acts on them. */

import { ForgeRunError, UnreachableError } from "./errors.js";

/** How often and how patiently a request is repeated. */
export interface RetryPolicy {
  /** Repetitions after the first try: 5. */
  retriesMax: number;
  /** The wait before the first repetition lies between this and its double: 100 ms. It doubles from one to the next. */
  firstMs: number;
  /** Where doubling ends: 10 s. */
  longestMs: number;
  /** A longer `Retry-After` is not waited for; the error is thrown and says how long: 60 s. */
  patienceMs: number;
}

export const RETRY_POLICY: RetryPolicy = { retriesMax: 5, firstMs: 100, longestMs: 10_000, patienceMs: 60_000 };

/** Whether a request may be sent twice. */
export type Repeat = "harmless" | "only_if_not_sent";

/** Milliseconds to wait before the next try; `undefined` to give up. `random` lies between 0 and 1. */
export function nextRetry(
  policy: RetryPolicy,
  error: unknown,
  repeat: Repeat,
  retriesMade: number,
  random: number,
): number | undefined {
  if (retriesMade >= policy.retriesMax || !(error instanceof ForgeRunError) || !error.retryable) return undefined;
  if (repeat === "only_if_not_sent") {
    if (error instanceof UnreachableError && error.maybeSent) return undefined;
    // The server answered that it did not take the request; but a gateway may say so of one that it passed on.
    if (error.status === 500 || error.status === 502 || error.status === 504) return undefined;
  }
  const retryAfter = error.retryAfterMs ?? 0;
  if (retryAfter > policy.patienceMs) return undefined;
  const backoff = Math.min(policy.firstMs * 2 ** Math.min(retriesMade, 20), policy.longestMs);
  return Math.max(backoff, retryAfter) + backoff * Math.min(Math.max(random, 0), 1);
}

const POLL_FIRST_MS = 2_000;
const POLL_LONGEST_MS = 30_000;

/**
 * Milliseconds before the next question whether a job has ended: 2, 4, 8, 16, 30, 30 … seconds, never sooner than
 * `Retry-After`. `undefined` if it would come after `totalMs`.
 */
export function nextPoll(
  pollsMade: number,
  waitedMs: number,
  retryAfterMs: number | undefined,
  totalMs: number,
): number | undefined {
  const backoff = Math.min(POLL_FIRST_MS * 2 ** Math.min(pollsMade, 20), POLL_LONGEST_MS);
  const wait = Math.max(backoff, retryAfterMs ?? 0);
  return waitedMs + wait > totalMs ? undefined : wait;
}
