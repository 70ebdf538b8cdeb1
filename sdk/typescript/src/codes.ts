/**
 * The constants that the API documents define: error codes and their groups, states, statuses. The only place of them in
 * this package; a test compares them with `/openapi.json` of a running server.
 */

/** The groups of errors. */
export type Category = "validation" | "conflict" | "auth" | "resource" | "execution" | "backend" | "unknown";

/** The canonical codes of the Open Job Spec by their group. A closed set. */
const CODES_BY_CATEGORY: Record<Exclude<Category, "unknown">, readonly string[]> = {
  validation: [
    "INVALID_PAYLOAD", "INVALID_JOB_TYPE", "INVALID_QUEUE", "INVALID_ARGS", "INVALID_METADATA",
    "INVALID_STATE_TRANSITION", "INVALID_RETRY_POLICY", "INVALID_CRON_EXPRESSION", "SCHEMA_VALIDATION_FAILED",
  ],
  conflict: ["DUPLICATE_JOB", "JOB_ALREADY_COMPLETED", "JOB_ALREADY_CANCELLED"],
  auth: ["UNAUTHENTICATED", "PERMISSION_DENIED", "TOKEN_EXPIRED", "TENANT_ACCESS_DENIED"],
  resource: [
    "NOT_FOUND", "QUEUE_PAUSED", "QUEUE_FULL", "RATE_LIMITED", "PAYLOAD_TOO_LARGE", "METADATA_TOO_LARGE",
    "QUEUE_NAME_TOO_LONG", "JOB_TYPE_TOO_LONG", "CHECKSUM_MISMATCH", "UNSUPPORTED_FEATURE", "UNSUPPORTED_COMPRESSION",
  ],
  execution: ["HANDLER_ERROR", "HANDLER_TIMEOUT", "HANDLER_PANIC", "NON_RETRYABLE_ERROR", "JOB_CANCELLED"],
  backend: ["BACKEND_ERROR", "BACKEND_UNAVAILABLE", "REPLICATION_LAG", "BACKEND_TIMEOUT"],
};

/** Codes that are worth another try by default, beside those of the backend. */
const RETRYABLE = new Set([
  "QUEUE_PAUSED", "QUEUE_FULL", "RATE_LIMITED", "HANDLER_ERROR", "HANDLER_TIMEOUT", "HANDLER_PANIC",
]);

/** The canonical code behind each of ForgeRun's own codes; `null` if there is none. */
export const FORGERUN_CODES: Readonly<Record<string, string | null>> = {
  RFA_AUTH_API_KEY_DISABLED: "PERMISSION_DENIED",
  RFA_AUTH_FORBIDDEN: "PERMISSION_DENIED",
  RFA_AUTH_INVALID_CREDENTIALS: "UNAUTHENTICATED",
  RFA_AUTH_TOKEN_EXPIRED: "TOKEN_EXPIRED",
  RFA_CONFIG_INVALID: "BACKEND_UNAVAILABLE",
  RFA_DEPENDENCY_TIMEOUT: "BACKEND_TIMEOUT",
  RFA_EXEC_BATCH_PARTIAL: null,
  RFA_EXEC_IDEMPOTENCY_CONFLICT: "DUPLICATE_JOB",
  RFA_EXEC_JOB_FAILED: "HANDLER_ERROR",
  RFA_EXEC_QUEUE_FULL: "QUEUE_FULL",
  RFA_EXEC_TIMEOUT: "BACKEND_TIMEOUT",
  RFA_EXEC_WORKER_UNAVAILABLE: "BACKEND_UNAVAILABLE",
  RFA_INTERNAL: "BACKEND_ERROR",
  RFA_JOB_CONFLICT: "INVALID_STATE_TRANSITION",
  RFA_JOB_NOT_FOUND: "NOT_FOUND",
  RFA_JOB_VALIDATION_FAILED: "INVALID_ARGS",
  RFA_REQUEST_MALFORMED: "INVALID_PAYLOAD",
  RFA_REQUEST_METHOD_NOT_ALLOWED: null,
  RFA_REQUEST_NOT_ACCEPTABLE: null,
  RFA_REQUEST_PAYLOAD_TOO_LARGE: "PAYLOAD_TOO_LARGE",
  RFA_REQUEST_PRECONDITION_FAILED: null,
  RFA_REQUEST_RATE_LIMITED: "RATE_LIMITED",
  RFA_REQUEST_ROUTE_NOT_FOUND: "NOT_FOUND",
  RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE: "INVALID_PAYLOAD",
  RFA_STORAGE_CONTENT_UNREADABLE: null,
  RFA_STORAGE_DB_ERROR: "BACKEND_ERROR",
  RFA_STORAGE_UNAVAILABLE: "BACKEND_UNAVAILABLE",
};

/** Names of other Open Job Spec servers for canonical codes that are not merely their lower case. */
const ALIASES: Readonly<Record<string, string>> = {
  invalid_request: "INVALID_PAYLOAD",
  validation_error: "INVALID_RETRY_POLICY",
  schema_validation: "SCHEMA_VALIDATION_FAILED",
  conflict: "INVALID_STATE_TRANSITION",
  duplicate: "DUPLICATE_JOB",
  unsupported: "UNSUPPORTED_FEATURE",
  timeout: "HANDLER_TIMEOUT",
  cancelled: "JOB_CANCELLED",
  internal_error: "BACKEND_ERROR",
};

/** The group of each canonical code. */
export const CANONICAL_CODES: ReadonlyMap<string, Category> = new Map(
  Object.entries(CODES_BY_CATEGORY).flatMap(([category, codes]) =>
    codes.map((code): [string, Category] => [code, category as Category]),
  ),
);

/** The canonical code that `code` stands for; `undefined` if it is not known. */
export function canonicalCode(code: string): string | undefined {
  // Other servers write canonical codes in lower case.
  const upper = code.toUpperCase();
  if (CANONICAL_CODES.has(upper)) return upper;
  return own(FORGERUN_CODES, code) ?? own(ALIASES, code);
}

function own(table: Readonly<Record<string, string | null>>, code: string): string | undefined {
  return Object.hasOwn(table, code) ? (table[code] ?? undefined) : undefined;
}

/**
 * Whether an error is worth another try. Errors of the caller never are, even if the server says so; what the server says
 * comes next, then the default of the code. An unknown code is final unless the server says otherwise.
 */
export function isRetryable(category: Category, canonical: string | undefined, reported: boolean | undefined): boolean {
  switch (category) {
    case "validation":
    case "conflict":
    case "auth":
      return false;
    case "resource":
    case "execution":
      return reported ?? (canonical !== undefined && RETRYABLE.has(canonical));
    case "backend":
      return reported ?? true;
    case "unknown":
      return reported === true;
  }
}

/** The states of a job on `/v1`. */
export const JOB_STATES = [
  "CREATED", "QUEUED", "ASSIGNED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED",
] as const;

/** Where a job stands. A newer server may have further states. */
export type JobState = (typeof JOB_STATES)[number] | (string & {});

/** The statuses of an execution, and whether each is an end. An unknown status is no end. */
export const JOB_STATUSES: Readonly<Record<string, boolean>> = {
  ACCEPTED: false,
  PROCESSING: false,
  COMPLETED: true,
  COMPLETED_WITH_ERRORS: true,
  FAILED: true,
  TIMED_OUT: true,
  CANCELLED: true,
};

/** Events after which a job does not go on by itself. */
export const END_EVENTS: ReadonlySet<string> = new Set([
  "job-completed", "job-completed-with-errors", "job-failed", "job-timed-out", "job-cancelled",
]);
