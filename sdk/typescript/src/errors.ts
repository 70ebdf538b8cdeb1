/** Why a call failed, typed by group. The code in the body decides; the HTTP status only groups what has no code. */

import { canonicalCode, CANONICAL_CODES, isRetryable, type Category } from "./codes.js";

/** What the server said about a request that failed, or about a job that did. */
export interface ErrorFacts {
  /** The code as the server wrote it; `HTTP_` and the status where there was none. */
  code: string;
  /** The canonical code of the Open Job Spec, where there is one. */
  canonical: string | undefined;
  /** What happened, in English. */
  message: string;
  /** Whether the same call may succeed later. Never true for errors of the caller. */
  retryable: boolean;
  /** Facts about it. */
  details: Record<string, unknown>;
  /** How long to wait before another try, if the server said so. */
  retryAfterMs: number | undefined;
  /** The whole problem object, if the body was an object. */
  problem: Record<string, unknown> | undefined;
  /** What an operator finds the request by. */
  requestId: string | undefined;
  /** The HTTP status; `undefined` if no answer came. */
  status: number | undefined;
}

/** Something went wrong. Every error of this package but wrong arguments and timeouts is one. */
export class ForgeRunError extends Error implements ErrorFacts {
  override name = "ForgeRunError";
  readonly code: string;
  readonly canonical: string | undefined;
  readonly retryable: boolean;
  readonly details: Record<string, unknown>;
  readonly retryAfterMs: number | undefined;
  readonly problem: Record<string, unknown> | undefined;
  readonly requestId: string | undefined;
  readonly status: number | undefined;

  constructor(facts: Partial<ErrorFacts> & { code: string; message: string }, options?: { cause?: unknown }) {
    super(facts.message, options);
    this.code = facts.code;
    this.canonical = facts.canonical;
    this.retryable = facts.retryable ?? false;
    this.details = facts.details ?? {};
    this.retryAfterMs = facts.retryAfterMs;
    this.problem = facts.problem;
    this.requestId = facts.requestId;
    this.status = facts.status;
  }
}

/** The input must be corrected first. */
export class ValidationError extends ForgeRunError {
  override name = "ValidationError";
}
/** Something that exists already stands in the way. */
export class ConflictError extends ForgeRunError {
  override name = "ConflictError";
}
/** Credentials or rights are missing. */
export class AuthError extends ForgeRunError {
  override name = "AuthError";
}
/** A limit, a queue, or something that is not there. */
export class ResourceError extends ForgeRunError {
  override name = "ResourceError";
}
/** The run of a job went wrong. */
export class ExecutionError extends ForgeRunError {
  override name = "ExecutionError";
}
/** The server, or something it needs, failed. */
export class BackendError extends ForgeRunError {
  override name = "BackendError";
}
/** The server reported a code that is not known here. */
export class UnknownError extends ForgeRunError {
  override name = "UnknownError";
}

/** A job failed. */
export class JobFailed extends ExecutionError {
  override name = "JobFailed";
}
/** A job ran out of time. */
export class JobTimedOut extends ExecutionError {
  override name = "JobTimedOut";
}
/** A job was cancelled. */
export class JobCancelled extends ExecutionError {
  override name = "JobCancelled";
}

/** No answer came. */
export class UnreachableError extends BackendError {
  override name = "UnreachableError";
  /** Whether the request may have reached the server all the same. */
  readonly maybeSent: boolean;

  constructor(host: string, reason: string, maybeSent: boolean, cause?: unknown) {
    super({ code: "UNREACHABLE", message: `could not reach ${host}: ${reason}`, retryable: true }, { cause });
    this.maybeSent = maybeSent;
  }
}

const CLASSES: Record<Exclude<Category, "execution">, typeof ForgeRunError> = {
  validation: ValidationError,
  conflict: ConflictError,
  auth: AuthError,
  resource: ResourceError,
  backend: BackendError,
  unknown: UnknownError,
};

/** Reads the answer to a request that failed. `now` is in milliseconds since 1970, for dates in `Retry-After`. */
export function errorOfAnswer(
  status: number | undefined,
  headers: { get(name: string): string | null },
  body: string,
  now: number,
): ForgeRunError {
  const parsed = parseObject(body);
  const { facts, category } = readFacts(parsed ?? {}, status);
  return new (classOf(category, facts.canonical))({
    ...facts,
    retryAfterMs: parseRetryAfter(headers.get("retry-after"), now) ?? facts.retryAfterMs,
    problem: parsed,
    requestId: headers.get("x-request-id") ?? undefined,
  });
}

/** The error behind a problem object that is part of an answer, such as an entry of an exchange. */
export function errorOfProblem(problem: Record<string, unknown> | undefined, status: number): ForgeRunError {
  const { facts, category } = readFacts(problem ?? {}, status);
  return new (classOf(category, facts.canonical))({ ...facts, problem });
}

/** The error behind a job that ended in `state` without success, with its failure object if it left one. */
export function errorOfJob(state: string, failure: Record<string, unknown> | undefined): ExecutionError {
  const { facts } = readFacts(failure ?? {}, undefined);
  const canonical = state === "CANCELED" ? "JOB_CANCELLED" : facts.canonical;
  const message = facts.message === NO_REASON ? `the job ended as ${state}` : facts.message;
  // Whatever went wrong, it is the job that failed, and not this request.
  return new (executionClass(canonical))({ ...facts, canonical, message, problem: failure });
}

function classOf(category: Category, canonical: string | undefined): typeof ForgeRunError {
  return category === "execution" ? executionClass(canonical) : CLASSES[category];
}

function executionClass(canonical: string | undefined): typeof ExecutionError {
  if (canonical === "HANDLER_TIMEOUT") return JobTimedOut;
  return canonical === "JOB_CANCELLED" ? JobCancelled : JobFailed;
}

const NO_REASON = "no reason given";

function readFacts(body: Record<string, unknown>, status: number | undefined): { facts: ErrorFacts; category: Category } {
  const nested = isObject(body["error"]) ? body["error"] : {};
  const codes = [
    body["code"], body["ojs_code"], body["rfa_code"], nested["errorCode"], nested["code"], nested["canonical_code"],
  ].filter((code): code is string => typeof code === "string");
  // An exact canonical code anywhere goes before one that has to be looked up.
  const canonical =
    codes.find((code) => CANONICAL_CODES.has(code)) ??
    codes.map(canonicalCode).find((code) => code !== undefined);
  const category = canonical ? CANONICAL_CODES.get(canonical)! : codes.length > 0 ? "unknown" : categoryOfStatus(status);
  const text = (name: string) => [body[name], nested[name]].find((value) => typeof value === "string") as string | undefined;
  const flag = [body["retryable"], nested["retryable"]].find((value) => typeof value === "boolean") as boolean | undefined;
  // Without a code the status stands in for one: only where waiting helps.
  const reported = flag ?? (codes.length === 0 && status !== undefined ? PASSING_STATUSES.has(status) : undefined);
  const seconds = body["retryAfter"];
  const facts: ErrorFacts = {
    code: codes[0] ?? (status === undefined ? "UNKNOWN" : `HTTP_${status}`),
    canonical,
    message:
      text("message") ?? text("detail") ?? text("title") ?? (status === undefined ? undefined : STATUS_TEXTS[status]) ?? NO_REASON,
    retryable: isRetryable(category, canonical, reported),
    details: [body["details"], nested["details"]].find(isObject) ?? {},
    retryAfterMs: typeof seconds === "number" && seconds >= 0 ? seconds * 1000 : undefined,
    problem: undefined,
    requestId: undefined,
    status,
  };
  return { facts, category };
}

const PASSING_STATUSES = new Set([408, 425, 429, 500, 502, 503, 504]);

const STATUS_TEXTS: Record<number, string> = {
  400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
  406: "Not Acceptable", 408: "Request Timeout", 409: "Conflict", 410: "Gone", 412: "Precondition Failed",
  413: "Payload Too Large", 415: "Unsupported Media Type", 422: "Unprocessable Entity", 425: "Too Early",
  429: "Too Many Requests", 500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway",
  503: "Service Unavailable", 504: "Gateway Timeout", 507: "Insufficient Storage",
};

function categoryOfStatus(status: number | undefined): Category {
  if (status === undefined) return "unknown";
  if (status === 401 || status === 403) return "auth";
  if (status === 409 || status === 412) return "conflict";
  if ([404, 408, 410, 413, 425, 429].includes(status)) return "resource";
  if (status >= 400 && status < 500) return "validation";
  return status >= 500 && status < 600 ? "backend" : "unknown";
}

/** `Retry-After` in milliseconds: seconds, or a date. `undefined` if it is absent or cannot be read. */
export function parseRetryAfter(text: string | null, now: number): number | undefined {
  const trimmed = text?.trim();
  if (!trimmed) return undefined;
  if (/^\d+$/.test(trimmed)) return Number(trimmed) * 1000;
  // Only dates as HTTP writes them: `Date.parse` would also take "-3".
  const date = /^[A-Z][a-z]{2,8},? /.test(trimmed) ? Date.parse(trimmed) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
