/**
 * How many jobs a worker holds at once. As many as it has slots, as long as jobs are long. Where they are short, a slot would
 * wait longer for its next job than it works, so the worker takes up to as many again ahead. A job that was taken ahead and
 * has to wait after all goes back: another worker may be free.
 */

import { SHORT_JOB_MS } from "./limits.js";

export class Room {
  /** How long handlers take, with more weight on the last ones; `undefined` before any has ended. */
  private meanMs: number | undefined;

  constructor(private readonly slots: number) {}

  /** How many more to ask for, of a worker that holds `held`. */
  free(held: number): number {
    if (this.meanMs === undefined || this.meanMs >= SHORT_JOB_MS) return Math.max(this.slots - held, 0);
    // What is taken ahead is taken in few requests: not before half of the slots could use it.
    const free = 2 * this.slots - held;
    return 2 * free >= this.slots ? free : 0;
  }

  /** A handler has ended. */
  worked(ms: number): void {
    this.meanMs = this.meanMs === undefined ? ms : (7 * this.meanMs + ms) / 8;
  }

  /** A job waited too long: nothing is taken ahead until jobs are seen to be short again. */
  waitedInVain(): void {
    this.meanMs = undefined;
  }
}
