/** The client: where the server is, and who is calling. */

import { uuid7 } from "./clock.js";
import { followEvents, type EventOptions, type JobEvent } from "./events.js";
import { Job, statusOf, type JobStatus } from "./job.js";
import { BATCH_CHARS_MAX, BATCH_JOBS_MAX } from "./limits.js";
import { Schedule, type ScheduleOptions } from "./schedule.js";
import { envelope, submission, type NewJob, type SubmitOptions } from "./submission.js";
import { Transport, type ClientOptions } from "./transport.js";
import { startWorkflow, Workflow, type Flow, type WorkflowOptions } from "./workflow.js";

/** Which jobs to list. */
export interface ListOptions {
  state?: string | readonly string[] | undefined;
  queue?: string | undefined;
  /** With all of these tags. */
  tags?: readonly string[] | undefined;
  /** How many, 1 to 200: 50. */
  limit?: number | undefined;
  /** Where the page before ended. */
  cursor?: string | undefined;
}

/** A client of one server. Connections are kept and shared by all that it does. */
export class Client {
  /** @internal */
  readonly transport: Transport;

  constructor(options: ClientOptions = {}) {
    this.transport = new Transport(options);
  }

  /** Submits a job. However often the request has to be sent, it is one job. */
  async submit<T = unknown>(type: string, input?: unknown, options: SubmitOptions = {}): Promise<Job<T>> {
    const { job_id } = await this.transport.json<{ job_id: string }>({
      method: "POST",
      path: "v1/jobs",
      // Made once: a repetition must not have another time in it.
      jsonText: JSON.stringify(submission(type, input, options, this.transport.clock.now())),
      headers: { "idempotency-key": options.idempotencyKey ?? this.newKey(), traceparent: options.traceparent },
      repeat: "harmless",
      signal: options.signal,
    });
    return new Job<T>(this.transport, job_id);
  }

  /**
   * Submits many jobs with few requests: handles in the order of the jobs. Each request is taken as a whole or not at all; if one
   * of several is refused, those before it were taken, and the error says how many in `details.submitted`.
   */
  async submitMany(jobs: readonly NewJob[]): Promise<Job[]> {
    for (const job of jobs as readonly SubmitOptions[]) {
      if (job.uniqueKey ?? job.idempotencyKey) throw new TypeError("submitMany takes no uniqueKey and no idempotencyKey; use submit");
    }
    const handles: Job[] = [];
    for (const chunk of this.chunks(jobs)) {
      try {
        await this.transport.json({
          method: "POST",
          path: "ojs/v1/jobs/batch",
          jsonText: `{"jobs":[${chunk.map(({ text }) => text).join(",")}]}`,
          headers: { "idempotency-key": this.newKey() },
          repeat: "harmless",
        });
      } catch (error) {
        const details = (error as { details?: Record<string, unknown> }).details;
        if (details) details["submitted"] = handles.length;
        throw error;
      }
      for (const { id } of chunk) handles.push(new Job(this.transport, id));
    }
    return handles;
  }

  /** A handle of a job that was submitted earlier. */
  job<T = unknown>(id: string): Job<T> {
    return new Job<T>(this.transport, id);
  }

  /** A page of your jobs, newest first. Only a missing `nextCursor` means the end. */
  async jobs(options: ListOptions = {}): Promise<{ jobs: JobStatus[]; nextCursor: string | undefined }> {
    const { state, queue, tags: tag, limit, cursor } = options;
    const page = await this.transport.json<{ jobs: Record<string, unknown>[]; next_cursor: string | null }>({
      method: "GET",
      path: "v1/jobs",
      query: { state, queue, tag, limit, cursor },
      repeat: "harmless",
    });
    return { jobs: page.jobs.map(statusOf), nextCursor: page.next_cursor ?? undefined };
  }

  /** All that happens to your jobs from now on, or after an event. Ends only with its signal, or when you leave the loop. */
  events(options: EventOptions = {}): AsyncGenerator<JobEvent, void, undefined> {
    return followEvents(this.transport, "v1/events", { ...options, ends: new Set() });
  }

  /** Begins a workflow that `chain`, `group`, `batch` or `graph` describes. */
  startWorkflow(flow: Flow, options: WorkflowOptions = {}): Promise<Workflow> {
    return startWorkflow(this.transport, flow, { ...options, idempotencyKey: options.idempotencyKey ?? this.newKey() });
  }

  /** A handle of a workflow that was begun earlier. */
  workflow(id: string): Workflow {
    return new Workflow(this.transport, id);
  }

  /** Ends the step of a workflow that waits for this signal. See `Workflow.signal`. */
  signal(workflowId: string, name: string, payload: unknown = true): Promise<void> {
    return this.workflow(workflowId).signal(name, payload);
  }

  /** Registers a schedule, or changes the one of that name. */
  async setSchedule(name: string, options: ScheduleOptions): Promise<Schedule> {
    const schedule = this.schedule(name);
    await schedule.set(options);
    return schedule;
  }

  /** A handle of a schedule. */
  schedule(name: string): Schedule {
    return new Schedule(this.transport, name);
  }

  private newKey(): string {
    return uuid7(this.transport.clock.now());
  }

  /** Envelopes with ids of their own, as many in one request as it may have. */
  private *chunks(jobs: readonly NewJob[]): Generator<{ id: string; text: string }[]> {
    const now = this.transport.clock.now();
    let chunk: { id: string; text: string }[] = [];
    let size = 0;
    for (const { type, input, ...options } of jobs) {
      const id = uuid7(now);
      const text = JSON.stringify({ id, ...envelope(type, input, options, now) });
      if (chunk.length === BATCH_JOBS_MAX || (chunk.length > 0 && size + text.length > BATCH_CHARS_MAX)) {
        yield chunk;
        chunk = [];
        size = 0;
      }
      chunk.push({ id, text });
      size += text.length;
    }
    if (chunk.length > 0) yield chunk;
  }
}
