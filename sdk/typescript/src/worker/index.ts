/** Workers: handlers by job type, in a process of their own. Needs Node. */

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";

import { Client } from "../client.js";
import { durationMs, type Duration } from "../durations.js";
import type { ClientOptions } from "../transport.js";
import { CONCURRENCY, CONCURRENCY_MAX, DRAIN_MS, GRACE_MS, LEASE_MS } from "./limits.js";
import { Loop, type Handler, type Log, type Stopped } from "./loop.js";

export type { LogLevel, LogLine } from "../lines.js";
export type { JobContext, JobFacts, LogOptions } from "./context.js";
export { Fatal, RetryLater, SignalTimeout, Suspended } from "./failure.js";
export type { Handler, Log, Stopped } from "./loop.js";
export { Output, type OutputBody } from "./output.js";

export interface WorkerOptions extends ClientOptions {
  /** Used instead of a client made of `url` and `key`. */
  client?: Client | undefined;
  /** Where to take jobs; the first one named goes first: `default`. */
  queues?: readonly string[] | undefined;
  /** How many jobs at once: 10. */
  concurrency?: number | undefined;
  /** How long a job is this worker's without a sign of life: 30 s. Heartbeats come at a third of it. */
  lease?: Duration | undefined;
  /** How long to wait for what runs, once asked to stop, before it is cancelled: 30 s. */
  drain?: Duration | undefined;
  /** How long a cancelled handler may take to end: 10 s. */
  grace?: Duration | undefined;
  /** What the worker is called; made of the machine's name and a random part otherwise. */
  id?: string | undefined;
  /** Whether SIGTERM and SIGINT stop the worker: true. The second signal waits for nothing any more. */
  signals?: boolean | undefined;
  /** Told what happens. Without it, warnings and errors go to standard error. */
  log?: Log | undefined;
}

/** Takes jobs and does them. */
export class Worker {
  readonly client: Client;
  readonly id: string;
  private readonly handlers: { fits: (type: string) => boolean; handler: Handler }[] = [];
  private loop: Loop | undefined;
  private stopped = false;

  constructor(private readonly options: WorkerOptions = {}) {
    const { concurrency = CONCURRENCY, queues = ["default"] } = options;
    if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > CONCURRENCY_MAX) {
      throw new RangeError(`concurrency is 1 to ${CONCURRENCY_MAX}, not ${concurrency}`);
    }
    if (durationMs(options.lease ?? LEASE_MS) < 1000) throw new RangeError("a lease lasts at least a second");
    if (queues.length === 0) throw new RangeError("a worker needs a queue");
    this.client = options.client ?? new Client(options);
    this.id = options.id ?? `${hostname()}-${randomUUID()}`;
  }

  /** Does jobs whose type fits: a name, or a pattern in which `*` stands for any text. The first that fits counts. */
  job<I = any, O = unknown>(type: string, handler: Handler<I, O>): this {
    if (typeof handler !== "function") throw new TypeError(`the handler for ${JSON.stringify(type)} is no function`);
    this.handlers.push({ fits: pattern(type), handler });
    return this;
  }

  /** The handler for jobs of this type, if there is one. */
  handlerOf(type: string): Handler | undefined {
    return this.handlers.find(({ fits }) => fits(type))?.handler;
  }

  /**
   * Works until it is asked to stop, by `stop`, by a signal or by the server; then waits for what runs. Waits for a server that
   * is away; rejects if the server refuses the worker.
   */
  async run(): Promise<Stopped> {
    if (this.loop) throw new Error("this worker runs already");
    if (this.handlers.length === 0) throw new Error("a worker needs a handler; give it one with job()");
    const loop = this.makeLoop();
    this.loop = loop;
    let signals = 0;
    const onSignal = () => (++signals === 1 ? loop.stop() : loop.hurry());
    const names: NodeJS.Signals[] = this.options.signals === false ? [] : ["SIGTERM", "SIGINT"];
    for (const name of names) process.on(name, onSignal);
    if (this.stopped) loop.stop();
    try {
      return await loop.run();
    } finally {
      for (const name of names) process.off(name, onSignal);
      this.loop = undefined;
      this.stopped = false;
    }
  }

  /** Asks it to stop. `run` resolves when all has ended. */
  stop(): void {
    this.stopped = true;
    this.loop?.stop();
  }

  private makeLoop(): Loop {
    const { queues, concurrency, lease, drain, grace, log } = this.options;
    return new Loop({
      transport: this.client.transport,
      id: this.id,
      queues: queues ?? ["default"],
      concurrency: concurrency ?? CONCURRENCY,
      leaseMs: durationMs(lease ?? LEASE_MS),
      drainMs: durationMs(drain ?? DRAIN_MS),
      graceMs: durationMs(grace ?? GRACE_MS),
      handlerOf: (type) => this.handlerOf(type),
      log: log ?? logToStderr,
    });
  }
}

function logToStderr(level: string, message: string): void {
  if (level !== "info") process.stderr.write(`forgerun worker: ${level}: ${message}\n`);
}

/** Whether a type fits a pattern in which `*` stands for any text. */
function pattern(text: string): (type: string) => boolean {
  if (!text.includes("*")) return (type) => type === text;
  const pieces = text.split("*").map((piece) => piece.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  const regexp = new RegExp(`^${pieces.join("[^]*")}$`);
  return (type) => regexp.test(type);
}
