/** Runs a handler as a worker would, without a server. */

import type { Duration } from "../durations.js";
import type { LogLine } from "../lines.js";
import type { Step } from "../workflow.js";
import { lineOf, type JobContext, type JobFacts } from "../worker/context.js";
import type { Handler } from "../worker/loop.js";
import { Steps } from "../worker/steps.js";

export interface InlineOptions {
  /** What the handler sees of its job. */
  job?: Partial<JobFacts> | undefined;
  /** Results of the steps before. */
  parents?: Record<string, unknown> | undefined;
  /** Results of steps that an earlier attempt recorded. */
  steps?: Record<string, unknown> | undefined;
  /** Payloads of signals, by name. A wait with a timeout for another one times out. */
  signals?: Record<string, unknown> | undefined;
  /** Cancels the handler. */
  signal?: AbortSignal | undefined;
}

export interface InlineRun<O> {
  /** What it returned. */
  result: O;
  /** What it said about its progress. */
  progress: { percent: number; message: string | undefined }[];
  /** The results of its steps. */
  steps: Record<string, unknown>;
  /** What it logged. */
  logs: LogLine[];
  /** Milliseconds that it slept; nothing waits for them. */
  sleeps: number[];
  /** Steps that it added to its workflow. */
  added: Step[];
}

/** Runs a handler once. What it throws is thrown. */
export async function runInline<I, O>(handler: Handler<I, O>, input: I, options: InlineOptions = {}): Promise<InlineRun<O>> {
  const progress: InlineRun<O>["progress"] = [];
  const logs: LogLine[] = [];
  const sleeps: number[] = [];
  const added: Step[] = [];
  const recorded: Record<string, unknown> = { ...options.steps };
  for (const [name, payload] of Object.entries(options.signals ?? {})) recorded[`signal:${name}`] = { signal: payload };
  const steps = new Steps({
    load: async () => ({ ...recorded }),
    save: async (name, result) => {
      Object.defineProperty(recorded, name, { value: result, enumerable: true, configurable: true, writable: true });
      return result;
    },
  });
  const signal = options.signal ?? new AbortController().signal;
  const context: JobContext = {
    job: { id: "inline", type: "inline", queue: "default", attempt: 1, tags: [], meta: {}, traceparent: undefined, ...options.job },
    signal,
    get cancelled() {
      return signal.aborted;
    },
    parents: options.parents ?? {},
    progress: async (percent, message) => void progress.push({ percent, message }),
    step: (name, fn) => steps.run(name, fn),
    log: (text, options) => void logs.push(lineOf(text, options)),
    sleep: async (span, name) => {
      const rest = await steps.rest(span, name, Date.now);
      if (rest > 0) sleeps.push(rest);
    },
    waitFor: async <T>(name: string, { timeout }: { timeout?: Duration | undefined } = {}) => {
      const ended = steps.waitFor(name, timeout, Date.now, (rest) => {
        if (rest === undefined) throw new RangeError(`the handler would wait for ever: runInline got no signal ${name}`);
      });
      return (await ended) as T;
    },
    addSteps: async (...more) => void added.push(...more),
  };
  // As it would arrive: what JSON cannot hold does not reach a handler.
  const received = input === undefined ? null : (JSON.parse(JSON.stringify(input)) as I);
  return { result: await handler(context, received as I), progress, steps: recorded, logs, sleeps, added };
}
