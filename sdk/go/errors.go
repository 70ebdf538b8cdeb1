package forgerun

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// APIError is what the server reported about a request or a job that failed. Calls return it as one of the types below; errors.As
// finds the specific type as well as *APIError.
type APIError struct {
	Class      Class
	Status     int            // the HTTP status; 0 if no answer came
	Code       string         // as the server wrote it; HTTP_ and the status where there was none
	Canonical  string         // the code of Open Job Spec; "" if there is none
	Message    string         // in English
	Retryable  bool           // whether the same request may succeed later
	Details    map[string]any // facts, by name
	RetryAfter time.Duration  // the least wait before that; negative if the server named none
	Problem    json.RawMessage
	RequestID  string // by which an operator finds the request in the log
	Err        error  // why no answer came; nil if one did

	notSent bool // no answer came, and the server has certainly not seen the request
}

func (e *APIError) Error() string { return fmt.Sprintf("%s (%s)", e.Message, e.Code) }

// Unwrap returns why no answer came.
func (e *APIError) Unwrap() error { return e.Err }

// The types of errors, one per class.
type (
	// ValidationError: the request must be corrected first.
	ValidationError struct{ *APIError }
	// ConflictError: something that exists already stands in the way.
	ConflictError struct{ *APIError }
	// AuthError: credentials or rights are missing.
	AuthError struct{ *APIError }
	// ResourceError: a limit, a queue, or a resource that does not exist.
	ResourceError struct{ *APIError }
	// BackendError: the server, or something it needs, failed, or no answer came (code UNREACHABLE).
	BackendError struct{ *APIError }
	// UnknownError: the server reported a code that this SDK does not know.
	UnknownError struct{ *APIError }
	// ExecutionError: a job did not succeed. JobFailed, JobTimedOut and JobCancelled say how.
	ExecutionError struct{ *APIError }
	// JobFailed: the job failed for good.
	JobFailed struct{ *ExecutionError }
	// JobTimedOut: the job ran longer than it may.
	JobTimedOut struct{ *ExecutionError }
	// JobCancelled: the job was cancelled.
	JobCancelled struct{ *ExecutionError }
)

// Unwrap leads to the *APIError.
func (e *ValidationError) Unwrap() error { return e.APIError }

// Unwrap leads to the *APIError.
func (e *ConflictError) Unwrap() error { return e.APIError }

// Unwrap leads to the *APIError.
func (e *AuthError) Unwrap() error { return e.APIError }

// Unwrap leads to the *APIError.
func (e *ResourceError) Unwrap() error { return e.APIError }

// Unwrap leads to the *APIError.
func (e *BackendError) Unwrap() error { return e.APIError }

// Unwrap leads to the *APIError.
func (e *UnknownError) Unwrap() error { return e.APIError }

// Unwrap leads to the *APIError.
func (e *ExecutionError) Unwrap() error { return e.APIError }

// Unwrap leads to the *ExecutionError.
func (e *JobFailed) Unwrap() error { return e.ExecutionError }

// Unwrap leads to the *ExecutionError.
func (e *JobTimedOut) Unwrap() error { return e.ExecutionError }

// Unwrap leads to the *ExecutionError.
func (e *JobCancelled) Unwrap() error { return e.ExecutionError }

// typed wraps an error in the type of its class.
func (e *APIError) typed() error {
	switch e.Class {
	case ClassValidation:
		return &ValidationError{e}
	case ClassConflict:
		return &ConflictError{e}
	case ClassAuth:
		return &AuthError{e}
	case ClassResource:
		return &ResourceError{e}
	case ClassExecution:
		return e.ofJob(e.Canonical == "HANDLER_TIMEOUT", e.Canonical == "JOB_CANCELLED")
	case ClassBackend:
		return &BackendError{e}
	default:
		return &UnknownError{e}
	}
}

// ofJob wraps the error of a job that did not succeed.
func (e *APIError) ofJob(timedOut, cancelled bool) error {
	execution := &ExecutionError{e}
	switch {
	case cancelled:
		return &JobCancelled{execution}
	case timedOut:
		return &JobTimedOut{execution}
	default:
		return &JobFailed{execution}
	}
}

// outcomeError is the error of a job that ended in this state without success, with its problem object if there is one. It is the job
// that failed, not a request, whatever the code.
func outcomeError(state State, header http.Header, problem []byte, now time.Time) error {
	e := newAPIError(0, header, problem, now)
	e.Class = ClassExecution
	if len(problem) == 0 {
		e.Message = "the job ended as " + string(state)
	}
	return e.ofJob(e.Canonical == "HANDLER_TIMEOUT", state == Canceled || e.Canonical == "JOB_CANCELLED")
}

// IsNotFound reports whether the server answered that the resource does not exist, or not any more.
func IsNotFound(err error) bool {
	api := apiError(err)
	return api != nil && (api.Canonical == "NOT_FOUND" || api.Status == http.StatusNotFound || api.Status == http.StatusGone)
}

func apiError(err error) *APIError {
	var api *APIError
	errors.As(err, &api)
	return api
}

// errorBody holds the members of all forms of an error: the flat one of problem details and of the catalogue, the one with an `error`
// object, and that of the async-operations pattern. Members are read one by one: one of the wrong type counts as absent.
type errorBody map[string]json.RawMessage

func (b errorBody) text(name string) string {
	var text string
	_ = json.Unmarshal(b[name], &text)
	return text
}

func (b errorBody) flag(name string) *bool {
	var flag *bool
	if json.Unmarshal(b[name], &flag) != nil {
		return nil
	}
	return flag
}

func (b errorBody) object(name string) errorBody {
	var object errorBody
	_ = json.Unmarshal(b[name], &object)
	return object
}

// newAPIError reads an answer that reports an error. The code in the body decides; without one the status only groups it. status is 0
// for what did not come as an answer of its own.
func newAPIError(status int, header http.Header, body []byte, now time.Time) *APIError {
	var top errorBody
	_ = json.Unmarshal(body, &top)
	nested := top.object("error")
	e := &APIError{Status: status, RetryAfter: -1, RequestID: header.Get("X-Request-Id")}
	if top != nil {
		e.Problem = json.RawMessage(body)
	}
	e.Code, e.Canonical = codesOf(top, nested)
	for _, text := range []string{
		top.text("message"), nested.text("message"), top.text("detail"), nested.text("detail"), top.text("title"), nested.text("title"),
	} {
		if e.Message == "" {
			e.Message = text
		}
	}
	if e.Message == "" {
		e.Message = http.StatusText(status)
	}
	if e.Message == "" {
		e.Message = "no reason given"
	}
	for _, members := range []errorBody{top, nested} {
		if e.Details == nil {
			_ = json.Unmarshal(members["details"], &e.Details)
		}
	}
	said := top.flag("retryable")
	if said == nil {
		said = nested.flag("retryable")
	}
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	switch {
	case e.Canonical != "":
		e.Class = canonicalCodes[e.Canonical].class
	case e.Code != "":
		e.Class = ClassUnknown
	default:
		e.Class = classOfStatus(status)
		e.Code = "HTTP_" + strconv.Itoa(status)
		if status == 0 {
			e.Code = "UNKNOWN"
		}
		if said == nil {
			waiting := retryableStatus(status)
			said = &waiting
		}
	}
	e.Retryable = isRetryable(e.Class, e.Canonical, said)
	var seconds *float64
	if json.Unmarshal(top["retryAfter"], &seconds) == nil && seconds != nil && *seconds >= 0 && *seconds < 1e9 {
		e.RetryAfter = time.Duration(*seconds * float64(time.Second))
	}
	if wait, ok := parseRetryAfter(header.Get("Retry-After"), now); ok {
		e.RetryAfter = wait
	}
	return e
}

// codesOf returns the code as written, and the canonical one. An exact canonical code anywhere goes before one that is looked up.
func codesOf(top, nested errorBody) (code, canonical string) {
	var codes []string
	for _, text := range []string{
		top.text("code"), top.text("ojs_code"), top.text("rfa_code"), nested.text("errorCode"), nested.text("code"), nested.text("canonical_code"),
	} {
		if text != "" {
			codes = append(codes, text)
		}
	}
	for _, text := range codes {
		if _, known := canonicalCodes[text]; known {
			return codes[0], text
		}
	}
	for _, text := range codes {
		if canonical := canonicalCode(text); canonical != "" {
			return codes[0], canonical
		}
	}
	if len(codes) > 0 {
		return codes[0], ""
	}
	return "", ""
}

func classOfStatus(status int) Class {
	switch {
	case status == 401 || status == 403:
		return ClassAuth
	case status == 409 || status == 412:
		return ClassConflict
	case status == 404 || status == 408 || status == 410 || status == 413 || status == 425 || status == 429:
		return ClassResource
	case status >= 400 && status < 500:
		return ClassValidation
	case status >= 500 && status < 600:
		return ClassBackend
	default:
		return ClassUnknown
	}
}

func retryableStatus(status int) bool {
	switch status {
	case 408, 425, 429, 500, 502, 503, 504:
		return true
	}
	return false
}

// parseRetryAfter reads seconds or a date.
func parseRetryAfter(text string, now time.Time) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(date.Sub(now), 0), true
	}
	return 0, false
}

// usageError reports a call that is wrong in itself; nothing was sent.
func usageError(format string, values ...any) error {
	e := &APIError{Class: ClassValidation, Code: "USAGE", RetryAfter: -1, Message: fmt.Sprintf(format, values...)}
	return e.typed()
}

// protocolError reports an answer that cannot be understood.
func protocolError(format string, values ...any) error {
	e := &APIError{Class: ClassUnknown, Code: "PROTOCOL", RetryAfter: -1, Message: "could not understand the server: " + fmt.Sprintf(format, values...)}
	return e.typed()
}
