/** The worker's round trip: what goes out in one request, and what comes back. */

import { ENDS_CHARS_MAX, ENDS_MAX } from "./limits.js";
import type { TakenJob } from "./context.js";
import type { Failure } from "./failure.js";

/** How one attempt ended, on its way to the server. */
export interface End {
  readonly job: TakenJob;
  readonly kind: "success" | "failure" | "requeue";
  /** The entry as JSON text. */
  readonly text: string;
}

export function success(job: TakenJob, resultText: string | undefined): End {
  const result = resultText === undefined ? "" : `,"result":${resultText}`;
  return { job, kind: "success", text: `{${heldText(job)}${result}}` };
}

export function failure(job: TakenJob, error: Failure, delayMs?: number): End {
  const delay = delayMs === undefined ? "" : `,"delay_ms":${delayMs}`;
  return { job, kind: "failure", text: `{${heldText(job)},"error":${JSON.stringify(error)}${delay}}` };
}

/** The job goes back and counts no attempt. */
export function requeue(job: TakenJob, delayMs?: number, untilSignal?: string): End {
  const delay = delayMs === undefined ? "" : `,"delay_ms":${delayMs}`;
  const until = untilSignal === undefined ? "" : `,"until_signal":${JSON.stringify(untilSignal)}`;
  return { job, kind: "requeue", text: `{${heldText(job)},"requeue":true${delay}${until}}` };
}

/** Which job, and the proof that this worker holds it. */
export function heldText(job: TakenJob): string {
  const token = job.lease_token === undefined ? "" : `,"lease_token":${JSON.stringify(job.lease_token)}`;
  return `"job_id":${JSON.stringify(job.id)}${token}`;
}

/** The first ends that fit into one request; they are removed from the list. */
export function takeEnds(ends: End[]): End[] {
  let n = 0;
  for (let size = 0; n < ends.length && n < ENDS_MAX; n++) {
    size += ends[n]!.text.length;
    if (n > 0 && size > ENDS_CHARS_MAX) break;
  }
  return ends.splice(0, n);
}

/** What the server answers. */
export interface ExchangeAnswer {
  /** One entry per end, in their order. */
  results?: { job_id: string; status: number; problem?: Record<string, unknown> }[];
  extended?: string[];
  cancelled?: string[];
  lost?: string[];
  jobs?: TakenJob[];
  directive?: "running" | "quiet" | "terminate";
}
