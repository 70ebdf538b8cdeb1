package forgerun

import "strings"

// State is where a job stands, in the words of /v1.
type State string

// The states of a job. Succeeded, Failed and Canceled are the ends.
const (
	Created   State = "CREATED"
	Queued    State = "QUEUED"
	Assigned  State = "ASSIGNED"
	Running   State = "RUNNING"
	Succeeded State = "SUCCEEDED"
	Failed    State = "FAILED"
	Canceled  State = "CANCELED"
)

// Class is the group of an error, as all SDKs call it.
type Class string

// The classes of errors.
const (
	ClassValidation Class = "ValidationError" // the request must be corrected first
	ClassConflict   Class = "ConflictError"   // something that exists already stands in the way
	ClassAuth       Class = "AuthError"       // credentials or rights are missing
	ClassResource   Class = "ResourceError"   // a limit, a queue, or a resource that does not exist
	ClassExecution  Class = "ExecutionError"  // the run of a job went wrong
	ClassBackend    Class = "BackendError"    // the server, or something it needs, failed
	ClassUnknown    Class = "UnknownError"    // a code that this SDK does not know
)

type codeFacts struct {
	class     Class
	retryable bool // unless the server says otherwise
}

// canonicalCodes is the closed set of Open Job Spec. A test compares it with /ojs/errors of the server.
var canonicalCodes = map[string]codeFacts{
	"INVALID_PAYLOAD":          {ClassValidation, false},
	"INVALID_JOB_TYPE":         {ClassValidation, false},
	"INVALID_QUEUE":            {ClassValidation, false},
	"INVALID_ARGS":             {ClassValidation, false},
	"INVALID_METADATA":         {ClassValidation, false},
	"INVALID_STATE_TRANSITION": {ClassValidation, false},
	"INVALID_RETRY_POLICY":     {ClassValidation, false},
	"INVALID_CRON_EXPRESSION":  {ClassValidation, false},
	"SCHEMA_VALIDATION_FAILED": {ClassValidation, false},
	"DUPLICATE_JOB":            {ClassConflict, false},
	"JOB_ALREADY_COMPLETED":    {ClassConflict, false},
	"JOB_ALREADY_CANCELLED":    {ClassConflict, false},
	"UNAUTHENTICATED":          {ClassAuth, false},
	"PERMISSION_DENIED":        {ClassAuth, false},
	"TOKEN_EXPIRED":            {ClassAuth, false},
	"TENANT_ACCESS_DENIED":     {ClassAuth, false},
	"NOT_FOUND":                {ClassResource, false},
	"QUEUE_PAUSED":             {ClassResource, true},
	"QUEUE_FULL":               {ClassResource, true},
	"RATE_LIMITED":             {ClassResource, true},
	"PAYLOAD_TOO_LARGE":        {ClassResource, false},
	"METADATA_TOO_LARGE":       {ClassResource, false},
	"QUEUE_NAME_TOO_LONG":      {ClassResource, false},
	"JOB_TYPE_TOO_LONG":        {ClassResource, false},
	"CHECKSUM_MISMATCH":        {ClassResource, false},
	"UNSUPPORTED_FEATURE":      {ClassResource, false},
	"UNSUPPORTED_COMPRESSION":  {ClassResource, false},
	"HANDLER_ERROR":            {ClassExecution, true},
	"HANDLER_TIMEOUT":          {ClassExecution, true},
	"HANDLER_PANIC":            {ClassExecution, true},
	"NON_RETRYABLE_ERROR":      {ClassExecution, false},
	"JOB_CANCELLED":            {ClassExecution, false},
	"BACKEND_ERROR":            {ClassBackend, true},
	"BACKEND_UNAVAILABLE":      {ClassBackend, true},
	"REPLICATION_LAG":          {ClassBackend, true},
	"BACKEND_TIMEOUT":          {ClassBackend, true},
}

// ownCodes leads from ForgeRun's own codes to canonical ones, for answers that carry only the former. A test compares it with
// /problems of the server.
var ownCodes = map[string]string{
	"RFA_AUTH_API_KEY_DISABLED":          "PERMISSION_DENIED",
	"RFA_AUTH_FORBIDDEN":                 "PERMISSION_DENIED",
	"RFA_AUTH_INVALID_CREDENTIALS":       "UNAUTHENTICATED",
	"RFA_AUTH_TOKEN_EXPIRED":             "TOKEN_EXPIRED",
	"RFA_CONFIG_INVALID":                 "BACKEND_UNAVAILABLE",
	"RFA_DEPENDENCY_TIMEOUT":             "BACKEND_TIMEOUT",
	"RFA_EXEC_IDEMPOTENCY_CONFLICT":      "DUPLICATE_JOB",
	"RFA_EXEC_JOB_FAILED":                "HANDLER_ERROR",
	"RFA_EXEC_QUEUE_FULL":                "QUEUE_FULL",
	"RFA_EXEC_TIMEOUT":                   "BACKEND_TIMEOUT",
	"RFA_EXEC_WORKER_UNAVAILABLE":        "BACKEND_UNAVAILABLE",
	"RFA_INTERNAL":                       "BACKEND_ERROR",
	"RFA_JOB_CONFLICT":                   "INVALID_STATE_TRANSITION",
	"RFA_JOB_NOT_FOUND":                  "NOT_FOUND",
	"RFA_JOB_VALIDATION_FAILED":          "INVALID_ARGS",
	"RFA_REQUEST_MALFORMED":              "INVALID_PAYLOAD",
	"RFA_REQUEST_PAYLOAD_TOO_LARGE":      "PAYLOAD_TOO_LARGE",
	"RFA_REQUEST_RATE_LIMITED":           "RATE_LIMITED",
	"RFA_REQUEST_ROUTE_NOT_FOUND":        "NOT_FOUND",
	"RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE": "INVALID_PAYLOAD",
	"RFA_STORAGE_DB_ERROR":               "BACKEND_ERROR",
	"RFA_STORAGE_UNAVAILABLE":            "BACKEND_UNAVAILABLE",
}

// aliasCodes are names that other Open Job Spec servers use, as far as they are not the lower case of a canonical code.
var aliasCodes = map[string]string{
	"invalid_request":   "INVALID_PAYLOAD",
	"validation_error":  "INVALID_RETRY_POLICY",
	"schema_validation": "SCHEMA_VALIDATION_FAILED",
	"conflict":          "INVALID_STATE_TRANSITION",
	"duplicate":         "DUPLICATE_JOB",
	"unsupported":       "UNSUPPORTED_FEATURE",
	"timeout":           "HANDLER_TIMEOUT",
	"cancelled":         "JOB_CANCELLED",
	"internal_error":    "BACKEND_ERROR",
}

// canonicalCode returns the canonical code behind a code, or "" if there is none.
func canonicalCode(code string) string {
	if _, known := canonicalCodes[code]; known {
		return code
	}
	if upper := strings.ToUpper(code); upper != code {
		if _, known := canonicalCodes[upper]; known {
			return upper
		}
	}
	if canonical, known := ownCodes[code]; known {
		return canonical
	}
	return aliasCodes[code]
}

// isRetryable decides whether the same request may succeed later. Errors of the caller never may, whatever the server says; then the
// server decides; then the default of the code. said is nil if the server said nothing.
func isRetryable(class Class, canonical string, said *bool) bool {
	switch class {
	case ClassValidation, ClassConflict, ClassAuth:
		return false
	case ClassResource, ClassExecution:
		if said != nil {
			return *said
		}
		return canonicalCodes[canonical].retryable
	case ClassBackend:
		return said == nil || *said
	default:
		return said != nil && *said
	}
}
