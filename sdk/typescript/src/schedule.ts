/** Schedules: a job again and again, by a cron expression. */

import { Job } from "./job.js";
import { jobOf, omitUndefined, type JobOptions } from "./submission.js";
import { segment, type Transport } from "./transport.js";

export interface ScheduleOptions extends Omit<JobOptions, "deadline"> {
  /** When: `0 3 * * *`, with seconds in front if you like, or `@daily`, `@every 1h30m`. */
  cron: string;
  /** What kind of work each tick submits. */
  type: string;
  input?: unknown;
  /** The time zone of the expression, such as `Europe/Berlin`: `UTC`. */
  timezone?: string | undefined;
  /** By when each job must have ended, after its tick. */
  deadline?: string | number | undefined;
  /** What happens while an earlier job has not ended: `skip`. */
  overlap?: "skip" | "allow" | "cancel_previous" | "enqueue" | undefined;
  /** What happens about ticks that were missed: `one`. */
  catchUp?: "none" | "one" | "all" | undefined;
  /** Jobs come up to so much after their tick. */
  jitterMs?: number | undefined;
  /** False pauses it. */
  enabled?: boolean | undefined;
  description?: string | undefined;
}

/** A schedule as it stood when it was asked for. */
export interface ScheduleStatus {
  name: string;
  cron: string;
  timezone: string;
  enabled: boolean;
  next_run_at: string | null;
  next_runs: string[];
  last_run_at: string | null;
  last_job_id: string | null;
  run_count: number;
}

/** A schedule, by its name. */
export class Schedule {
  constructor(
    private readonly transport: Transport,
    readonly name: string,
  ) {}

  /** Registers it, or changes it. An application may do so whenever it starts. */
  async set(options: ScheduleOptions): Promise<ScheduleStatus> {
    return this.transport.json({ method: "PUT", path: this.path(), json: scheduleBody(options), repeat: "harmless" });
  }

  async status(): Promise<ScheduleStatus> {
    return this.transport.json({ method: "GET", path: this.path(), repeat: "harmless" });
  }

  async pause(): Promise<ScheduleStatus> {
    return this.transport.json({ method: "POST", path: `${this.path()}/pause`, repeat: "harmless" });
  }

  async resume(): Promise<ScheduleStatus> {
    return this.transport.json({ method: "POST", path: `${this.path()}/resume`, repeat: "harmless" });
  }

  /** Makes a job now. Not repeated by itself, since a second call makes a second job. */
  async trigger(): Promise<Job> {
    const { job_id } = await this.transport.json<{ job_id: string }>({ method: "POST", path: `${this.path()}/trigger` });
    return new Job(this.transport, job_id);
  }

  /** Deletes it; its jobs stay. */
  async delete(): Promise<void> {
    await this.transport.json({ method: "DELETE", path: this.path(), repeat: "harmless" });
  }

  private path(): string {
    return `v1/schedules/${segment(this.name)}`;
  }
}

/** The body of `PUT /v1/schedules/{name}`. */
export function scheduleBody(options: ScheduleOptions): Record<string, unknown> {
  return omitUndefined({
    cron: options.cron,
    timezone: options.timezone,
    job: jobOf(options.type, options.input, options),
    overlap_policy: options.overlap,
    catch_up: options.catchUp,
    jitter_ms: options.jitterMs,
    enabled: options.enabled,
    description: options.description,
  });
}
