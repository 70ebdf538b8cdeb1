/** Named steps of a handler, whose results the server keeps between the attempts of a job. */

import { durationMs, type Duration } from "../durations.js";
import { ForgeRunError } from "../errors.js";
import { segment, type Transport } from "../transport.js";
import type { TakenJob } from "./context.js";
import { SignalTimeout } from "./failure.js";

type Results = Record<string, unknown>;

/** Where the results of steps are kept between attempts. */
export interface StepStore {
  load(): Promise<Results>;
  /** Records the result of a step beside those that are known. Returns the result that counts: the first that was recorded. */
  save(name: string, result: unknown, known: Results): Promise<unknown>;
}

/** The steps of one attempt. */
export class Steps {
  private results: Promise<Results> | undefined;
  private saving: Promise<unknown> = Promise.resolve();

  constructor(private readonly store: StepStore) {}

  private sleeps = 0;

  /** How many milliseconds of a sleep are left, now that it is recorded when it ends. */
  async rest(span: Duration, name: string | undefined, now: () => number): Promise<number> {
    const label = `sleep:${name ?? ++this.sleeps}`;
    return (await this.run(label, () => now() + durationMs(span))) - now();
  }

  /**
   * The payload of a signal. `suspend` is called where it has not come, with the milliseconds left; if it returns, the wait is over. Of
   * a signal and a timeout the first that is recorded counts.
   */
  async waitFor(
    signal: string,
    timeout: Duration | undefined,
    now: () => number,
    suspend: (rest: number | undefined) => void,
  ): Promise<unknown> {
    let rest: number | undefined;
    if (timeout !== undefined) {
      const until = await this.run(`wait:${signal}`, () => now() + durationMs(timeout));
      rest = Math.max(until - now(), 0);
    }
    const ended = await this.run<{ signal?: unknown; timed_out?: boolean }>(`signal:${signal}`, () => {
      if (rest !== 0) suspend(rest);
      return { timed_out: true };
    });
    if (!Object.hasOwn(ended, "signal")) throw new SignalTimeout(`no signal ${signal} came in time`);
    return ended.signal;
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
    // One after the other: without single records, each save replaces the whole.
    const saved = this.saving.then(() => this.store.save(name, result, results));
    this.saving = saved.catch(() => undefined);
    const value = await saved;
    // Recorded before it is remembered, so that a record that failed is no result.
    Object.defineProperty(results, name, { value, enumerable: true, configurable: true, writable: true });
    return value as T;
  }
}

/** The recorded steps of a job on the server. */
export class RecordedSteps implements StepStore {
  /** Whether the server records each step by itself. Otherwise all go into the checkpoint, as one object. */
  private oneByOne = true;

  constructor(
    private readonly transport: Transport,
    private readonly job: TakenJob,
    private readonly signal: AbortSignal,
  ) {}

  async load(): Promise<Results> {
    const answer = await this.transport.json<{ has_checkpoint?: boolean; state?: unknown; steps?: Results }>({
      method: "GET",
      path: `ojs/v1/checkpoints/${segment(this.job.id)}/resume`,
      repeat: "harmless",
      signal: this.signal,
    });
    const { has_checkpoint, state, steps } = answer;
    this.oneByOne = steps !== undefined;
    const whole = has_checkpoint && typeof state === "object" && state !== null ? state : {};
    // What was saved as a whole counts too, unless a step was recorded by itself.
    return { ...whole, ...steps };
  }

  async save(name: string, result: unknown, known: Results): Promise<unknown> {
    const whole = `ojs/v1/jobs/${segment(this.job.id)}/checkpoint`;
    if (!this.oneByOne) {
      await this.put(whole, { state: { ...known, [name]: result } });
      return result;
    }
    try {
      await this.put(`${whole}/${segment(name)}`, { result });
      return result;
    } catch (error) {
      if (!(error instanceof ForgeRunError) || error.details["reason"] !== "step_recorded") throw error;
      return (await this.load())[name];
    }
  }

  private async put(path: string, json: unknown): Promise<void> {
    const headers = { "lease-token": this.job.lease_token };
    await this.transport.json({ method: "PUT", path, headers, json, repeat: "harmless", signal: this.signal });
  }
}
