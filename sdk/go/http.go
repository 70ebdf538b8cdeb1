package forgerun

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/forgerun/forgerun/sdk/go/webhooks"
)

const httpBodyBytesMax = 16 << 20 // of a job that comes over HTTP

// HTTPHandler does jobs that `forgerun worker http --url` posts, with the handlers of this worker. secret is that of --secret; with ""
// requests are not verified. envelope must be true if and only if `worker http` is started with --envelope, which adds the results of
// parents. Run is not needed. Such jobs report no progress and record no steps.
func (w *Worker) HTTPHandler(secret webhooks.Secret, envelope bool) http.Handler {
	return http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(to, r.Body, httpBodyBytesMax))
		if err != nil {
			writeProblem(to, http.StatusBadRequest, "the body could not be read: "+err.Error(), nil, 0)
			return
		}
		if secret != "" {
			if err := webhooks.Verify(webhooks.Delivery{Body: body, Header: r.Header}, secret); err != nil {
				writeProblem(to, http.StatusUnauthorized, "the request is not signed as it should be: "+err.Error(), nil, 0)
				return
			}
		}
		attempt, _ := strconv.Atoi(r.Header.Get("Forgerun-Attempt"))
		job := &Job{
			ID: r.Header.Get("Forgerun-Job-Id"), Type: r.Header.Get("Forgerun-Job-Type"), Queue: r.Header.Get("Forgerun-Queue"),
			Attempt: attempt, Traceparent: r.Header.Get("Traceparent"), Input: body, client: w.client,
		}
		if envelope {
			var enveloped struct {
				Input   json.RawMessage            `json:"input"`
				Parents map[string]json.RawMessage `json:"parents"`
			}
			if err := json.Unmarshal(body, &enveloped); err != nil {
				writeProblem(to, http.StatusBadRequest, "the envelope: "+err.Error(), nil, 0)
				return
			}
			job.Input, job.Parents = enveloped.Input, enveloped.Parents
		}
		do := w.handler(job.Type)
		if do == nil {
			again := true
			writeProblem(to, http.StatusServiceUnavailable, "no handler for jobs of type "+job.Type, &again, noHandlerDelay)
			return
		}
		result, err := callHandler(handlerContext(r.Context(), job), job, do)
		if err != nil {
			writeFailure(to, newFailure(err))
			return
		}
		writeResult(to, result)
	})
}

func writeFailure(to http.ResponseWriter, f *failure) {
	status := http.StatusInternalServerError
	switch {
	case f.Retryable != nil && !*f.Retryable:
		status = http.StatusUnprocessableEntity
	case f.delay > 0:
		status = http.StatusServiceUnavailable
	}
	writeProblem(to, status, f.Message, f.Retryable, f.delay)
}

func writeProblem(to http.ResponseWriter, status int, detail string, retryable *bool, after time.Duration) {
	problem := map[string]any{"title": "Job Failed", "status": status, "detail": detail}
	if retryable != nil {
		problem["retryable"] = *retryable
	}
	to.Header().Set("Content-Type", "application/problem+json")
	if after > 0 {
		seconds := int64(math.Ceil(after.Seconds()))
		problem["retryAfter"] = seconds
		to.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	to.WriteHeader(status)
	_ = json.NewEncoder(to).Encode(problem)
}

func writeResult(to http.ResponseWriter, result any) {
	encoded, content, err := encodeResult(result)
	switch {
	case err != nil:
		writeFailure(to, newFailure(err))
	case content != nil:
		to.Header().Set("Content-Type", content.media())
		if _, err := io.Copy(to, content.Body); err != nil {
			panic(http.ErrAbortHandler) // the worker must not take a part for the whole
		}
		if closer, ok := content.Body.(io.Closer); ok {
			closer.Close()
		}
	case encoded == nil:
		to.WriteHeader(http.StatusNoContent)
	default:
		to.Header().Set("Content-Type", "application/json")
		_, _ = to.Write(encoded)
	}
}
