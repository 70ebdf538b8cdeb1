/** A job that this worker holds, while its handler runs. */

import type { TakenJob } from "./context.js";

/** Why a handler should stop: the server took the job away, or the worker stops. */
export type StopCause = "server" | "stop";

export class Held {
  cause: StopCause | undefined;
  private readonly controller = new AbortController();
  private abandon: ((error: Error) => void) | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly job: TakenJob) {}

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Asks the handler to stop. The first cause counts. After the grace it is not waited for any longer. */
  abort(cause: StopCause, graceMs: number): void {
    if (this.cause) return;
    this.cause = cause;
    const message = cause === "server" ? "the job is not this worker's any more" : "the worker stops";
    const { abandon } = this;
    if (abandon) this.timer = setTimeout(() => abandon(new Error("the handler did not stop when it was cancelled")), graceMs);
    this.controller.abort(new DOMException(message, "AbortError"));
  }

  /** Runs the handler to its end, or until it is abandoned. */
  async run<T>(handler: () => T | Promise<T>): Promise<T> {
    const abandoned = new Promise<never>((_, reject) => (this.abandon = reject));
    try {
      return await Promise.race([handler(), abandoned]);
    } finally {
      clearTimeout(this.timer);
    }
  }
}
