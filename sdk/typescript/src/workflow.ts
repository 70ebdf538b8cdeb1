/** Workflows: jobs that wait for each other, described by `step`, `chain`, `group`, `batch` and `graph`. */

import { durationText, type Duration } from "./durations.js";
import type { EventOptions, JobEvent } from "./events.js";
import { Job, type WaitOptions } from "./job.js";
import { deadlineText, envelope, omitUndefined, timeText, type JobOptions } from "./submission.js";
import { segment, type Transport } from "./transport.js";

export interface StepOptions extends JobOptions {
  /** The name of the step; in a graph it is needed, elsewhere it is the place of the step. */
  id?: string | undefined;
  /** In a graph: the steps it waits for. */
  dependsOn?: readonly string[] | undefined;
  /** On what condition it has its turn once those are over: `all_succeeded`. */
  when?: "all_succeeded" | "all_ended" | "any_failed" | undefined;
  /** The job that undoes it. */
  compensate?: Step | undefined;
}

/** A job of a workflow, or several. */
export type Step = Readonly<Record<string, unknown>> & { readonly [KIND]: "step" | "flow" };
/** Several steps, and how they wait for each other. */
export type Flow = Step & { readonly [KIND]: "flow" };

declare const KIND: unique symbol;

/** A job of a workflow. */
export function step(type: string, input?: unknown, options: StepOptions = {}): Step {
  return omitUndefined({
    id: options.id,
    depends_on: options.dependsOn,
    when: options.when,
    compensate: options.compensate,
    ...envelope(type, input, options, 0),
  }) as Step;
}

/** What a step waits for: one of `for`, `until` and `signal`. */
export interface WaitStep extends Pick<StepOptions, "id" | "dependsOn" | "when"> {
  /** How long. */
  for?: Duration | undefined;
  /** Until when; a text is RFC 3339. */
  until?: Date | string | undefined;
  /** For which signal (`Workflow.signal`). Its payload is the result of the step. */
  signal?: string | undefined;
  /** How long to wait for the signal before the step fails. */
  timeout?: Duration | undefined;
  /** JSON Schema of the payload. */
  schema?: unknown;
}

/** A step that waits instead of working: for some time, until a time, or for a signal. */
export function wait({ for: span, until, signal, timeout, schema, id, dependsOn, when }: WaitStep): Step {
  if ([span, until, signal].filter((form) => form !== undefined).length !== 1) {
    throw new TypeError("a wait has one of `for`, `until` and `signal`");
  }
  if ((signal === undefined) !== (timeout === undefined) || (signal === undefined && schema !== undefined)) {
    throw new TypeError("a wait for a signal has a `timeout`; other waits have neither `timeout` nor `schema`");
  }
  const what = omitUndefined({
    for: span === undefined ? undefined : durationText(span),
    until: until === undefined ? undefined : timeText(until),
    signal,
    timeout: timeout === undefined ? undefined : durationText(timeout),
    schema,
  });
  return omitUndefined({ id, depends_on: dependsOn, when, wait: what }) as Step;
}

export interface ForEachOptions extends StepOptions {
  /** The step whose result has the list. In a chain it may be left out. */
  over?: string | undefined;
  /** JSON pointer to the list; without one, the whole result. */
  pointer?: string | undefined;
  /** The list of arguments: `["$item"]`. `"$item"` and `"$index"` stand for the element and its position. */
  args?: readonly unknown[] | undefined;
  /** How many jobs run at once: 100. */
  parallel?: number | undefined;
}

/** A job for each element of a list, as one step. Its result is the list of their results. */
export function forEach(type: string, options: ForEachOptions = {}): Step {
  const { over, pointer, args, parallel } = options;
  const { args: _, ...job } = step(type, undefined, options) as Record<string, unknown>;
  return omitUndefined({ ...job, args, parallel, for_each: omitUndefined({ step: over, pointer }) }) as Step;
}

/** How a workflow is a step of another. */
export interface NestedOptions extends Pick<StepOptions, "id" | "dependsOn" | "when">, Omit<WorkflowOptions, "idempotencyKey"> {}

/** A workflow as a step of another. Its result is an object with the results of its steps. */
export function nested(flow: Flow, options: NestedOptions = {}): Step {
  const { id, dependsOn, when } = options;
  return omitUndefined({ id, depends_on: dependsOn, when, workflow: workflowBody(flow, options) }) as Step;
}

/** One after the other. */
export function chain(...steps: Step[]): Flow {
  return { type: "chain", steps } as unknown as Flow;
}

/** All at once. */
export function group(...jobs: Step[]): Flow {
  return { type: "group", jobs } as unknown as Flow;
}

/** All at once; then `onComplete` however they ended, and `onSuccess` or `onFailure`. */
export function batch(jobs: Step[], after: { onComplete?: Step; onSuccess?: Step; onFailure?: Step }): Flow {
  const callbacks = omitUndefined({
    on_complete: after.onComplete,
    on_success: after.onSuccess,
    on_failure: after.onFailure,
  });
  return { type: "batch", jobs, callbacks } as unknown as Flow;
}

/** Each step after those that it names in `dependsOn`. */
export function graph(...steps: Step[]): Flow {
  return { steps } as unknown as Flow;
}

export interface WorkflowOptions {
  /** What you call it. */
  name?: string | undefined;
  /** What a failed step means for those that do not wait for it: `continue`. */
  failurePolicy?: "continue" | "stop" | "compensate" | undefined;
  /** When all must have ended: a span after the submission, or a time. */
  deadline?: Duration | Date | undefined;
  /** The key of the operation. Without one, each call has its own. */
  idempotencyKey?: string | undefined;
}

/** A workflow as it stood when it was asked for. */
export interface WorkflowStatus {
  workflow_id: string;
  name: string;
  /** RUNNING, SUCCEEDED, FAILED or CANCELED. */
  state: string;
  progress: number;
  steps: WorkflowStep[];
  /** Whether it is held back until it is resumed. */
  paused?: boolean;
  deadline?: string;
  failure?: Record<string, unknown>;
}

export interface WorkflowStep {
  id: string;
  job_type: string | null;
  /** WAITING, then a state of its job, or SKIPPED. */
  state: string;
  depends_on: string[];
  job_id: string | null;
  error: string | null;
  /** Of a step that waits; `token` and `url` send the signal without a key. */
  wait?: { signal?: string; due_at?: string | null; token?: string; url?: string };
  /** Of a job for each element: how many stand where. */
  elements?: { total: number; waiting: number; active: number; succeeded: number; failed: number };
}

/** A handle of one workflow. */
export class Workflow {
  /** The workflow has a job of its own with the same id, whose end is its end. */
  private readonly job: Job;

  constructor(
    private readonly transport: Transport,
    readonly id: string,
  ) {
    this.job = new Job(transport, id);
  }

  /** Where it stands, with its steps. */
  status(): Promise<WorkflowStatus> {
    return this.transport.json({ method: "GET", path: this.path(), repeat: "harmless" });
  }

  /** Waits until it has ended, however that is. Throws a `TimeoutError` if it has not by then. */
  async wait(options: WaitOptions = {}): Promise<WorkflowStatus> {
    await this.job.wait(options);
    return this.status();
  }

  /** Waits for its end and returns the results of its steps by their names. Throws as the result of a job does. */
  async result(options: WaitOptions = {}): Promise<Record<string, unknown>> {
    await this.job.result(options);
    const results: Record<string, unknown> = {};
    for (const { id, job_id, state } of (await this.status()).steps) {
      if (state === "SUCCEEDED" && job_id) results[id] = await new Job(this.transport, job_id).result(options);
    }
    return results;
  }

  /** What happens to it as a whole, from the beginning to its end. */
  events(options: EventOptions = {}): AsyncGenerator<JobEvent, void, undefined> {
    return this.job.events(options);
  }

  /** Cancels what is left of it. Steps that succeeded are undone, as far as they say how, unless `compensate` is false. */
  async cancel(options: { compensate?: boolean } = {}): Promise<string> {
    return this.act("cancel", { compensate: options.compensate ?? true });
  }

  /** Tries again what failed, and what did not have its turn; or `from` and all that depends on it. */
  async retry(options: { from?: string } = {}): Promise<string> {
    return this.act("retry", { from: options.from ?? null });
  }

  /** Holds it back: no step starts until it is resumed. Steps that run go on. */
  async pause(): Promise<string> {
    return this.act("pause");
  }

  /** Ends the pause of it and of its steps. */
  async resume(): Promise<string> {
    return this.act("resume");
  }

  /**
   * Ends the step that waits for this signal; `payload`, any JSON, becomes the result of the step. A signal that comes before the wait
   * is kept, and the same one again changes nothing. Another payload, or one after the timeout, is a `ConflictError`; an unknown
   * name is a `ResourceError`.
   */
  async signal(name: string, payload: unknown = true): Promise<void> {
    const path = `${this.path()}/signals/${segment(name)}`;
    await this.transport.json({ method: "POST", path, jsonText: JSON.stringify(payload), repeat: "harmless" });
  }

  private async act(verb: string, json?: unknown): Promise<string> {
    const call = { method: "POST", path: `${this.path()}/${verb}`, json, repeat: "harmless" } as const;
    return (await this.transport.json<WorkflowStatus>(call)).state;
  }

  private path(): string {
    return `v1/workflows/${segment(this.id)}`;
  }
}

/** The body of `POST /v1/workflows`. */
export function workflowBody(flow: Flow, options: WorkflowOptions): Record<string, unknown> {
  return omitUndefined({ ...flow, name: options.name, failure_policy: options.failurePolicy, deadline: deadlineText(options.deadline) });
}

/** Begins a workflow. */
export async function startWorkflow(
  transport: Transport,
  flow: Flow,
  options: WorkflowOptions & { idempotencyKey: string },
): Promise<Workflow> {
  const { workflow_id } = await transport.json<{ workflow_id: string }>({
    method: "POST",
    path: "v1/workflows",
    json: workflowBody(flow, options),
    headers: { "idempotency-key": options.idempotencyKey },
    repeat: "harmless",
  });
  return new Workflow(transport, workflow_id);
}
