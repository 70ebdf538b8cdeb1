/**
 * The loop of a worker. At most two requests are under way: one asks for jobs and may be held by the server until there are
 * some; the other reports, so that ends and heartbeats never wait for the first. Ends that gather while a request is under
 * way go out together in the next one.
 */

import { hostname } from "node:os";

import type { Clock } from "../clock.js";
import { errorOfProblem, ForgeRunError } from "../errors.js";
import { parse, segment, type Transport } from "../transport.js";
import { inputOfJob, WorkerContext, type JobContext, type TakenJob } from "./context.js";
import { failure, heldText, requeue, success, takeEnds, type End, type ExchangeAnswer } from "./exchange.js";
import { failureOf, Fatal, RetryLater, Suspended } from "./failure.js";
import { Held } from "./held.js";
import {
  AHEAD_WAIT_MS, AWAY_FIRST_MS, AWAY_LONGEST_MS, FETCH_GRACE_MS, HOLD_MS, INLINE_CHARS_MAX, NO_HANDLER_DELAY_MS,
  QUIET_BEAT_MS, RETRY_AFTER_MAX_MS, UPLOADS_MAX,
} from "./limits.js";
import { Output } from "./output.js";
import { Room } from "./room.js";

/** Does the work of a job: what it returns is the result, what it throws is the failure. */
export type Handler<I = any, O = unknown> = (context: JobContext, input: I) => O | Promise<O>;

export type Log = (level: "info" | "warn" | "error", message: string) => void;

/** How a worker stopped. */
export interface Stopped {
  succeeded: number;
  failed: number;
  /** Jobs that went back unfinished. */
  handedBack: number;
}

/** What a loop works with. */
export interface LoopTerms {
  transport: Transport;
  id: string;
  queues: readonly string[];
  concurrency: number;
  leaseMs: number;
  drainMs: number;
  graceMs: number;
  handlerOf: (type: string) => Handler | undefined;
  log: Log;
}

/** One of the two requests that may be under way. */
interface Channel {
  busy: boolean;
  /** Failures in a row. */
  failures: number;
}

export class Loop {
  /** Jobs whose handlers run, by their ids. */
  private readonly held = new Map<string, Held>();
  /** Jobs that were taken ahead and wait for a slot, in order. */
  private readonly ahead: { held: Held; handler: Handler; takenAt: number }[] = [];
  private aheadWatched = false;
  private readonly room: Room;
  private readonly ends: End[] = [];
  private readonly asking: Channel = { busy: false, failures: 0 };
  private readonly reporting: Channel = { busy: false, failures: 0 };
  private readonly stopped: Stopped = { succeeded: 0, failed: 0, handedBack: 0 };
  private readonly unknownTypes = new Set<string>();
  private readonly timers = new Set<ReturnType<typeof setTimeout>>();
  /** Ends the request for jobs when the server would hold it in vain: the worker stops, or is told to pause. */
  private askAbort = new AbortController();
  /** Ends pauses when the worker stops. */
  private readonly stopAbort = new AbortController();
  /** Ends everything when patience is over. */
  private readonly endAbort = new AbortController();
  private readonly head: string;
  private readonly clock: Clock;
  private beatDue = true;
  private quiet = false;
  private stopping = false;
  private scheduled = false;
  private trouble: unknown;
  private finish: (() => void) | undefined;

  constructor(private readonly terms: LoopTerms) {
    this.clock = terms.transport.clock;
    this.room = new Room(terms.concurrency);
    const facts = {
      worker_id: terms.id,
      queues: terms.queues,
      visibility_timeout_ms: terms.leaseMs,
      concurrency: terms.concurrency,
      pid: process.pid,
      hostname: hostname(),
    };
    this.head = JSON.stringify(facts).slice(0, -1);
  }

  /** Works until it is stopped and all has ended. Rejects if the server refuses the worker. */
  async run(): Promise<Stopped> {
    const beats = setInterval(() => this.beat(), this.terms.leaseMs / 3);
    await new Promise<void>((resolve) => {
      this.finish = resolve;
      this.pump();
    });
    clearInterval(beats);
    this.timers.forEach(clearTimeout);
    if (this.trouble) throw this.trouble;
    return this.stopped;
  }

  /** Takes no more jobs, waits for what runs, then cancels it and hands it back. */
  stop(): void {
    if (this.stopping) return;
    this.stopping = true;
    const { drainMs, graceMs, log } = this.terms;
    log("info", `stopping: ${this.held.size} jobs under way`);
    this.stopAbort.abort();
    this.returnAhead(Number.POSITIVE_INFINITY);
    this.after(FETCH_GRACE_MS, () => this.askAbort.abort());
    this.after(drainMs, () => this.hurry());
    // A server that is away must not hold up the end for ever. Its jobs come back when their leases end.
    this.after(drainMs + 2 * graceMs, () => {
      log("error", `${this.ends.length} ends could not be reported; their jobs come back when their leases end`);
      this.endAbort.abort();
      this.ends.length = 0;
      this.held.clear();
      this.finish?.();
    });
    this.beat();
  }

  /** Waits no longer for what runs. */
  hurry(): void {
    for (const held of this.held.values()) held.abort("stop", this.terms.graceMs);
  }

  private after(ms: number, act: () => void): void {
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      act();
    }, ms);
    this.timers.add(timer);
  }

  private beat(): void {
    this.beatDue = true;
    this.schedule();
  }

  /** Pumps once all that ends now has ended, so that it goes out together. */
  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      this.pump();
    });
  }

  /** Sends what there is to send. */
  private pump(): void {
    if (!this.asking.busy && this.wanted() > 0) void this.ask();
    if (!this.reporting.busy && (this.ends.length > 0 || this.beatDue)) void this.report();
    if (this.stopping && !this.asking.busy && !this.reporting.busy && this.held.size + this.ends.length === 0) this.finish?.();
  }

  /** How many jobs to ask for. */
  private wanted(): number {
    // Ends that the server did not hear yet are bounded, too.
    if (this.stopping || this.quiet || this.ends.length > 4 * this.terms.concurrency) return 0;
    return this.room.free(this.held.size + this.ahead.length);
  }

  private async ask(): Promise<void> {
    if (!this.stopping) this.askAbort = new AbortController();
    const answer = await this.exchange(this.asking, this.wanted(), false, this.askAbort.signal);
    for (const job of answer?.jobs ?? []) this.begin(job);
    this.asking.busy = false;
    this.schedule();
  }

  private async report(): Promise<void> {
    const beats = this.beatDue;
    this.beatDue = false;
    const answer = await this.exchange(this.reporting, 0, beats, this.endAbort.signal);
    if (beats && !answer && !this.stopping) this.beatDue = true;
    this.reporting.busy = false;
    this.schedule();
  }

  /** One round trip. `undefined` if it failed: then its ends are kept, and a pause was made. */
  private async exchange(
    channel: Channel,
    count: number,
    beats: boolean,
    signal: AbortSignal,
  ): Promise<ExchangeAnswer | undefined> {
    channel.busy = true;
    const ends = takeEnds(this.ends);
    const extended = beats ? [...this.held.values(), ...this.ahead.map(({ held }) => held)] : [];
    // What became of ends is to be known at once, so a request that carries some is not held.
    const waitMs = count > 0 && ends.length === 0 ? HOLD_MS : 0;
    const parts = [this.head, `"count":${count}`];
    if (waitMs > 0) parts.push(`"wait_ms":${waitMs}`);
    if (ends.length > 0) parts.push(`"done":[${ends.map((end) => end.text).join(",")}]`);
    if (beats) parts.push(`"extend":[${extended.map((held) => `{${heldText(held.job)}}`).join(",")}]`);
    if (beats && this.stopping) parts.push('"state":"terminate"');
    try {
      const answer = await this.terms.transport.sendOnce({
        method: "POST",
        path: "ojs/v1/workers/exchange",
        jsonText: `${parts.join(",")}}`,
        holdMs: waitMs,
        signal,
      });
      const exchanged = parse<ExchangeAnswer>(await answer.text());
      if (channel.failures > 0) this.terms.log("info", "the server is back");
      channel.failures = 0;
      if (beats) this.obey(exchanged, extended);
      this.settle(ends, exchanged);
      return exchanged;
    } catch (error) {
      this.ends.unshift(...ends);
      if (!signal.aborted) await this.failed(channel, error);
      return undefined;
    }
  }

  /** What to do about a request that failed: wait, or give up. */
  private async failed(channel: Channel, error: unknown): Promise<void> {
    if (error instanceof ForgeRunError && error.retryable) {
      const wait = away(channel.failures++, this.clock.random());
      if (channel.failures === 1) this.terms.log("warn", `${error.message}; trying again`);
      const pause = Math.max(wait, Math.min(error.retryAfterMs ?? 0, RETRY_AFTER_MAX_MS));
      // A worker that stops tries at once.
      const signal = this.stopping ? this.endAbort.signal : this.stopAbort.signal;
      await this.clock.sleep(pause, signal).catch(() => undefined);
      return;
    }
    this.trouble ??= error;
    // What it was to report is refused, and would be again.
    this.ends.length = 0;
    this.hurry();
    this.stop();
  }

  /** What became of the ends. */
  private settle(ends: End[], answer: ExchangeAnswer): void {
    ends.forEach((end, at) => {
      const { status, problem } = answer.results?.[at] ?? { status: 500 };
      const { job } = end;
      if (status < 300) {
        if (end.kind === "success") this.stopped.succeeded++;
        if (end.kind === "failure") this.stopped.failed++;
        if (end.kind === "requeue") this.stopped.handedBack++;
      } else if (status === 404 || status === 409 || status === 410) {
        this.terms.log("warn", `job ${job.id} was not this worker's any more when it ended`);
      } else if (status === 429 || status >= 500) {
        this.after(AWAY_FIRST_MS, () => this.push(end));
      } else {
        const { message } = errorOfProblem(problem, status);
        this.terms.log("error", `the end of job ${job.id} was refused: ${message}`);
        // The server does not want this result and never will: that is a failure, with its reason.
        if (end.kind === "success") this.push(failure(job, failureOf(new Fatal(`the result was not taken: ${message}`))));
      }
    });
  }

  /** What the answer to a heartbeat says. */
  private obey(answer: ExchangeAnswer, listed: Held[]): void {
    const gone = new Set([...(answer.cancelled ?? []), ...(answer.lost ?? [])]);
    for (const held of listed) {
      if (gone.has(held.job.id)) held.abort("server", this.terms.graceMs);
    }
    const wasQuiet = this.quiet;
    this.quiet = answer.directive === "quiet";
    if (this.quiet !== wasQuiet) this.terms.log("info", this.quiet ? "told to take no jobs for now" : "told to go on");
    if (this.quiet && !this.stopping) {
      // A server that hands out nothing holds the request to its end, even if the pause is over before.
      this.askAbort.abort();
      this.after(QUIET_BEAT_MS, () => this.beat());
    }
    if (answer.directive === "terminate") this.stop();
  }

  private push(end: End): void {
    this.ends.push(end);
    this.schedule();
  }

  private begin(job: TakenJob): void {
    const handler = this.terms.handlerOf(job.type);
    if (this.stopping) return this.push(requeue(job));
    if (!handler) {
      this.noteUnknown(job.type);
      return this.push(requeue(job, NO_HANDLER_DELAY_MS));
    }
    const held = new Held(job);
    if (this.held.size < this.terms.concurrency) return void this.work(held, handler);
    this.ahead.push({ held, handler, takenAt: this.clock.now() });
    this.watchAhead();
  }

  /** Begins jobs that were taken ahead, as far as there are slots. */
  private beginAhead(): void {
    while (this.held.size < this.terms.concurrency) {
      const next = this.ahead.shift();
      if (!next) return;
      // It may have been cancelled while it waited.
      if (!next.held.cause) void this.work(next.held, next.handler);
    }
  }

  /** Hands back jobs that wait too long for a slot. */
  private watchAhead(): void {
    const oldest = this.ahead[0];
    if (!oldest || this.aheadWatched) return;
    this.aheadWatched = true;
    this.after(oldest.takenAt + AHEAD_WAIT_MS - this.clock.now(), () => {
      this.aheadWatched = false;
      if (this.returnAhead(this.clock.now() - AHEAD_WAIT_MS)) this.room.waitedInVain();
      this.watchAhead();
    });
  }

  /** Hands back jobs that were taken ahead until `time`: whether there were any. */
  private returnAhead(time: number): boolean {
    const first = this.ahead.findIndex(({ takenAt }) => takenAt > time);
    const stale = this.ahead.splice(0, first < 0 ? this.ahead.length : first).filter(({ held }) => !held.cause);
    for (const { held } of stale) this.push(requeue(held.job));
    return stale.length > 0;
  }

  private noteUnknown(type: string): void {
    if (this.unknownTypes.has(type) || this.unknownTypes.size >= 1000) return;
    this.unknownTypes.add(type);
    this.terms.log("warn", `no handler for jobs of type ${JSON.stringify(type)}; they go back to the queue`);
  }

  /** Does one job, from beginning to end. Never rejects. */
  private async work(held: Held, handler: Handler): Promise<void> {
    const { job } = held;
    // Taken again after its lease had ended: what still runs here is the earlier attempt.
    this.held.get(job.id)?.abort("server", this.terms.graceMs);
    this.held.set(job.id, held);
    const beganAt = this.clock.now();
    const lose = () => held.abort("server", this.terms.graceMs);
    const context = new WorkerContext(this.terms.transport, job, held.signal, lose);
    let end: End | undefined;
    try {
      const output = await held.run(async () => {
        await context.fetchParents();
        return handler(context, inputOfJob(job));
      });
      end = await this.succeeded(held, output);
    } catch (thrown) {
      end = this.failedBy(held, thrown);
    }
    await context.flushLogs();
    this.room.worked(this.clock.now() - beganAt);
    if (this.held.get(job.id) === held) this.held.delete(job.id);
    this.beginAhead();
    if (held.cause === "server") {
      this.terms.log("info", `job ${job.id} was cancelled, or is not this worker's any more`);
      this.schedule();
    } else {
      this.push(end);
    }
  }

  private failedBy(held: Held, thrown: unknown): End {
    const { job } = held;
    if (held.cause === "stop") return requeue(job);
    if (thrown instanceof Suspended) return requeue(job, Math.ceil(thrown.delayMs), thrown.awaitedSignal);
    const what = `job ${job.id} (${job.type})`;
    if (thrown instanceof RetryLater) {
      this.terms.log("info", `${what} is to be tried again later: ${thrown.message}`);
      return failure(job, failureOf(thrown), thrown.delayMs);
    }
    if (!held.cause) this.terms.log("warn", `${what} failed: ${describe(thrown)}`);
    return failure(job, failureOf(thrown));
  }

  private async succeeded(held: Held, output: unknown): Promise<End> {
    const { job } = held;
    if (output instanceof Output) return this.upload(held, output);
    if (output instanceof Uint8Array) return this.upload(held, new Output(output));
    if (output instanceof Blob) return this.upload(held, new Output(output, output.type ? { contentType: output.type } : {}));
    const text = jsonText(output);
    if (text !== undefined && text.length > INLINE_CHARS_MAX) {
      return this.upload(held, new Output(text, { contentType: "application/json" }));
    }
    return success(job, text);
  }

  /** Sends a large result before the end is reported. */
  private async upload(held: Held, output: Output): Promise<End> {
    for (let tries = 0; ; tries++) {
      try {
        const answer = await this.terms.transport.sendOnce({
          method: "PUT",
          path: `ojs/v1/jobs/${segment(held.job.id)}/result`,
          headers: { ...output.headers(), "lease-token": held.job.lease_token },
          body: () => output.open(),
          holdMs: 3_600_000,
          signal: held.signal,
        });
        answer.close();
        return success(held.job, undefined);
      } catch (error) {
        if (!(error instanceof ForgeRunError)) throw error;
        if (error.details["reason"] === "lease_lost") held.abort("server", this.terms.graceMs);
        if (!error.retryable || tries >= UPLOADS_MAX) throw new Fatal(`the result was not taken: ${error.message}`, { cause: error });
        await this.clock.sleep(away(tries, this.clock.random()), held.signal);
      }
    }
  }
}

/** The wait before the next try of a worker whose server is away. */
function away(failures: number, random: number): number {
  return Math.min(AWAY_FIRST_MS * 2 ** Math.min(failures, 16), AWAY_LONGEST_MS) * (0.5 + random / 2);
}

function jsonText(output: unknown): string | undefined {
  try {
    return JSON.stringify(output) as string | undefined;
  } catch (error) {
    throw new Fatal(`the result is no JSON: ${(error as Error).message}`, { cause: error });
  }
}

function describe(thrown: unknown): string {
  return thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
}
