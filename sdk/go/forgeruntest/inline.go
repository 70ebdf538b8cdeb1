package forgeruntest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	forgerun "github.com/forgerun/forgerun/sdk/go"
	"github.com/forgerun/forgerun/sdk/go/internal/inline"
)

// Run is how a handler did that was run inline.
type Run struct {
	Result      json.RawMessage // nil if it returned nothing or an upload, or failed
	Upload      []byte          // what it uploaded instead
	UploadType  string
	Failure     *Failure      // nil if it succeeded
	RetryAfter  time.Duration // what RetryLater asked for
	Progress    []Progress
	Logs        []forgerun.LogLine
	Slept       []time.Duration            // how long it slept; nothing waits for that
	Steps       map[string]json.RawMessage // recorded by forgerun.Step
	description map[string]any
	mu          sync.Mutex
}

// Failure is why a handler failed, as it would be reported to the server.
type Failure struct {
	Code      string `json:"code"`
	Type      string `json:"type"`
	Message   string `json:"message"`
	Retryable *bool  `json:"retryable"` // nil leaves it to the retry policy of the job
}

// Progress is what a handler reported of its work.
type Progress struct {
	Percent int    `json:"percentage"`
	Message string `json:"message"`
}

// JobOption describes the job that a handler is given.
type JobOption func(*Run)

// JobType is the type of the job: `test`.
func JobType(name string) JobOption { return func(r *Run) { r.description["type"] = name } }

// Attempt is which attempt it is: 1.
func Attempt(n int) JobOption { return func(r *Run) { r.description["attempt"] = n } }

// Tags are the labels of the job.
func Tags(tags ...string) JobOption { return func(r *Run) { r.description["tags"] = tags } }

// Parent is the result of a step that the job waited for.
func Parent(step string, result any) JobOption {
	return func(r *Run) {
		steps, _ := r.description["parent_steps"].([]string)
		results, _ := r.description["parent_results"].([]any)
		r.description["parent_steps"], r.description["parent_results"] = append(steps, step), append(results, result)
	}
}

// RecordedStep is the result of a step that an earlier attempt recorded.
func RecordedStep(name string, result any) JobOption {
	return func(r *Run) {
		encoded, err := json.Marshal(result)
		if err != nil {
			panic(err)
		}
		r.Steps[name] = encoded
	}
}

// SentSignal is a signal that was sent to the job.
func SentSignal(name string, payload any) JobOption {
	return RecordedStep("signal:"+name, map[string]any{"signal": payload})
}

// RunInline runs a handler once, in the calling goroutine, and returns what it did. input is written as JSON, as a submission would.
// What the handler reports, records and uploads is kept in memory.
func RunInline(ctx context.Context, t testing.TB, do forgerun.HandlerFunc, input any, options ...JobOption) *Run {
	t.Helper()
	run := &Run{Steps: map[string]json.RawMessage{}, description: map[string]any{
		"id": "inline-1", "type": "test", "queue": "default", "attempt": 1, "lease_token": "inline", "args": []any{input}, "args_wrapped": true,
	}}
	for _, option := range options {
		option(run)
	}
	received, err := json.Marshal(run.description)
	if err != nil {
		t.Fatal(err)
	}
	server := &memory{inline: run}
	done, err := inline.Run(ctx, server.client(), received, do, func(span time.Duration) { run.Slept = append(run.Slept, span) })
	if err != nil {
		t.Fatal(err)
	}
	var end struct {
		Result  json.RawMessage `json:"result"`
		Error   *Failure        `json:"error"`
		DelayMS int64           `json:"delay_ms"`
	}
	if err := json.Unmarshal(done, &end); err != nil {
		t.Fatal(err)
	}
	run.Result, run.Failure, run.RetryAfter = end.Result, end.Error, time.Duration(end.DelayMS)*time.Millisecond
	return run
}

// Bind decodes the result. The test fails if the handler failed.
func (r *Run) Bind(t testing.TB, into any) {
	t.Helper()
	if r.Failure != nil {
		t.Fatalf("the handler failed: %s", r.Failure.Message)
	}
	if r.Result == nil {
		t.Fatal("the handler returned no JSON")
	}
	if err := json.Unmarshal(r.Result, into); err != nil {
		t.Fatal(err)
	}
}

// answer answers what a handler asks of the server.
func (r *Run) answer(request *http.Request, body []byte) (int, http.Header, []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := request.URL.Path
	switch {
	case path == "/ojs/v1/workers/progress":
		var progress Progress
		if err := json.Unmarshal(body, &progress); err != nil {
			return problem(http.StatusBadRequest, "INVALID_PAYLOAD", err.Error())
		}
		r.Progress = append(r.Progress, progress)
		return ok(http.StatusOK, map[string]any{"acknowledged": true})
	case path == "/ojs/v1/workers/logs":
		var logged struct {
			Lines []forgerun.LogLine `json:"lines"`
		}
		if err := json.Unmarshal(body, &logged); err != nil {
			return problem(http.StatusBadRequest, "INVALID_PAYLOAD", err.Error())
		}
		r.Logs = append(r.Logs, logged.Lines...)
		return ok(http.StatusOK, map[string]any{"accepted": len(logged.Lines)})
	case strings.HasSuffix(path, "/resume"):
		return ok(http.StatusOK, map[string]any{"has_checkpoint": len(r.Steps) > 0, "state": r.Steps, "steps": r.Steps})
	case strings.Contains(path, "/checkpoint/") && request.Method == http.MethodPut:
		_, step, _ := strings.Cut(path, "/checkpoint/")
		var recorded struct {
			Result json.RawMessage `json:"result"`
		}
		if err := json.Unmarshal(body, &recorded); err != nil {
			return problem(http.StatusBadRequest, "INVALID_PAYLOAD", err.Error())
		}
		if r.Steps[step] == nil {
			r.Steps[step] = recorded.Result
		}
		return ok(http.StatusCreated, map[string]any{})
	case strings.HasSuffix(path, "/result") && request.Method == http.MethodPut:
		r.Upload, r.UploadType = body, request.Header.Get("Content-Type")
		return ok(http.StatusOK, map[string]any{})
	}
	return problem(http.StatusNotImplemented, "UNSUPPORTED_FEATURE", "a handler that runs inline cannot do "+request.Method+" "+path)
}
