/** The client of ForgeRun. Works in Node and in browsers; nothing here needs Node. */

export { canonicalJson } from "./canonical.js";
export { Client, type ListOptions } from "./client.js";
export { JOB_STATES, type Category, type JobState } from "./codes.js";
export type { Duration } from "./durations.js";
export {
  AuthError, BackendError, ConflictError, ExecutionError, ForgeRunError, JobCancelled, JobFailed, JobTimedOut,
  ResourceError, UnknownError, UnreachableError, ValidationError, type ErrorFacts,
} from "./errors.js";
export type { EventOptions, JobEvent } from "./events.js";
export { Job, type JobReport, type JobStatus, type WaitOptions } from "./job.js";
export type { LogLevel, LogLine, LogReadOptions, StoredLine } from "./lines.js";
export { submitIn, type Queryable } from "./outbox.js";
export type { ResultStream } from "./result.js";
export type { RetryPolicy } from "./retry.js";
export { Schedule, type ScheduleOptions, type ScheduleStatus } from "./schedule.js";
export type { JobOptions, NewJob, SubmitOptions } from "./submission.js";
export type { ClientOptions } from "./transport.js";
export {
  batch, chain, forEach, graph, group, nested, step, wait, Workflow, type Flow, type ForEachOptions, type NestedOptions, type Step,
  type StepOptions, type WaitStep, type WorkflowOptions, type WorkflowStatus, type WorkflowStep,
} from "./workflow.js";
