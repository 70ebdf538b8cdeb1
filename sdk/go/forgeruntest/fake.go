package forgeruntest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	forgerun "github.com/forgerun/forgerun/sdk/go"
)

var _ forgerun.Submitter = (*Fake)(nil)

// Fake is a client without a server: it records what is submitted. Its Client is a real one, whose requests are answered in memory, so
// it can be used wherever a *forgerun.Client or a forgerun.Submitter is wanted.
//
// Jobs are QUEUED until Succeed, Fail or Cancel ends them. Workflows and signals are recorded, and nothing comes of them. Schedules, events
// and workers need a DevServer.
type Fake struct {
	*forgerun.Client
	server *memory
}

// Submission is a job as it was submitted.
type Submission struct {
	ID             string
	Type           string
	Input          json.RawMessage
	Queue          string // "" for the default
	Priority       int
	MaxRetries     int
	Timeout        string
	Deadline       string
	Tags           []string
	UniqueKey      string
	IdempotencyKey string
	NotBefore      time.Time // zero for at once
}

// Bind decodes the input.
func (s Submission) Bind(into any) error { return json.Unmarshal(s.Input, into) }

// NewFake returns a fake client.
func NewFake() *Fake {
	server := &memory{byID: map[string]*fakeJob{}, byKey: map[string]string{}, paused: map[string]bool{}, changed: make(chan struct{})}
	return &Fake{server.client(), server}
}

// Submitted returns what was submitted, in order: jobs of these types, or all if none is named.
func (f *Fake) Submitted(types ...string) []Submission {
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	var found []Submission
	for _, job := range f.server.jobs {
		if len(types) == 0 || contains(types, job.Type) {
			found = append(found, job.Submission)
		}
	}
	return found
}

func contains(list []string, text string) bool {
	for _, one := range list {
		if one == text {
			return true
		}
	}
	return false
}

// Succeed ends a job with a result.
func (f *Fake) Succeed(t testing.TB, jobID string, result any) {
	t.Helper()
	encoded, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	f.end(t, jobID, forgerun.Succeeded, func(job *fakeJob) { job.result = encoded })
}

// Fail ends a job with a failure.
func (f *Fake) Fail(t testing.TB, jobID, message string) {
	t.Helper()
	f.end(t, jobID, forgerun.Failed, func(job *fakeJob) { job.message = message })
}

// Cancel ends a job as cancelled.
func (f *Fake) Cancel(t testing.TB, jobID string) {
	t.Helper()
	f.end(t, jobID, forgerun.Canceled, func(job *fakeJob) { job.message = "the job was cancelled" })
}

func (f *Fake) end(t testing.TB, jobID string, state forgerun.State, set func(*fakeJob)) {
	t.Helper()
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	job := f.server.byID[jobID]
	if job == nil {
		t.Fatalf("no job %s was submitted", jobID)
	}
	job.state = state
	set(job)
	f.server.notify()
}

// AssertSubmitted fails the test unless exactly one job of this type was submitted for which match holds, if it is given.
func (f *Fake) AssertSubmitted(t testing.TB, jobType string, match ...func(Submission) bool) Submission {
	t.Helper()
	var found []Submission
	for _, submission := range f.Submitted(jobType) {
		fits := true
		for _, holds := range match {
			fits = fits && holds(submission)
		}
		if fits {
			found = append(found, submission)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d jobs of type %s fit, not one; submitted were %s", len(found), jobType, f.list())
	}
	return found[0]
}

// AssertNothingSubmitted fails the test if a job of one of these types was submitted, or any job if none is named.
func (f *Fake) AssertNothingSubmitted(t testing.TB, types ...string) {
	t.Helper()
	if len(f.Submitted(types...)) > 0 {
		t.Fatalf("jobs were submitted: %s", f.list())
	}
}

func (f *Fake) list() string {
	var all []string
	for _, submission := range f.Submitted() {
		all = append(all, fmt.Sprintf("%s %s", submission.Type, submission.Input))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// memory answers requests as a server would, as far as a fake client and a handler that runs inline need it.
type memory struct {
	mu      sync.Mutex
	jobs    []*fakeJob
	byID    map[string]*fakeJob
	byKey   map[string]string
	changed chan struct{} // closed and replaced whenever a job ends
	inline  *Run          // the run of a handler; nil for a fake client

	workflows []json.RawMessage
	signals   []Signal
	paused    map[string]bool // jobs and workflows
}

type fakeJob struct {
	Submission
	state   forgerun.State
	result  json.RawMessage
	message string
	lines   []forgerun.StoredLine
}

func (m *memory) client() *forgerun.Client {
	client, err := forgerun.New(forgerun.URL("http://fake.invalid"), forgerun.Key(""), forgerun.HTTPClient(&http.Client{Transport: m}))
	if err != nil {
		panic(err) // the options are constant
	}
	return client
}

func (m *memory) notify() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// RoundTrip answers a request.
func (m *memory) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		defer r.Body.Close()
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	status, header, answer := m.answer(r, body)
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/json")
	}
	return &http.Response{
		StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(answer)), ContentLength: int64(len(answer)), Request: r,
	}, r.Context().Err()
}

func problem(status int, code, message string) (int, http.Header, []byte) {
	body, _ := json.Marshal(map[string]any{"title": http.StatusText(status), "status": status, "code": code, "message": message})
	return status, http.Header{"Content-Type": {"application/problem+json"}}, body
}

func ok(status int, body any) (int, http.Header, []byte) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return problem(http.StatusInternalServerError, "BACKEND_ERROR", err.Error())
	}
	return status, http.Header{}, encoded
}

func (m *memory) answer(r *http.Request, body []byte) (int, http.Header, []byte) {
	if m.inline != nil {
		return m.inline.answer(r, body)
	}
	id, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/jobs/"), "/")
	switch {
	case r.URL.Path == "/v1/jobs" && r.Method == http.MethodPost:
		return m.submit(r, body)
	case r.URL.Path == "/ojs/v1/jobs/batch":
		return m.submitMany(body)
	case r.URL.Path == "/v1/workflows" || strings.HasPrefix(r.URL.Path, "/v1/workflows/"):
		return m.flow(strings.TrimPrefix(r.URL.Path, "/v1/workflows"), body)
	case strings.HasPrefix(r.URL.Path, "/v1/jobs/"):
		return m.job(r, id, rest)
	}
	return problem(http.StatusNotImplemented, "UNSUPPORTED_FEATURE", "the fake client does not do "+r.Method+" "+r.URL.Path+"; use DevServer")
}

func (m *memory) add(s Submission) *fakeJob {
	if s.ID == "" {
		s.ID = fmt.Sprintf("fake-%d", len(m.jobs)+1)
	}
	job := &fakeJob{Submission: s, state: forgerun.Queued}
	m.jobs, m.byID[s.ID] = append(m.jobs, job), job
	return job
}

func (m *memory) submit(r *http.Request, body []byte) (int, http.Header, []byte) {
	var sent struct {
		JobType     string          `json:"job_type"`
		Payload     json.RawMessage `json:"payload"`
		Queue       string          `json:"queue"`
		Priority    int             `json:"priority"`
		MaxRetries  int             `json:"max_retries"`
		Timeout     string          `json:"timeout"`
		Deadline    string          `json:"deadline"`
		Tags        []string        `json:"tags"`
		UniqueKey   string          `json:"unique_key"`
		ExecutionAt time.Time       `json:"execution_at"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return problem(http.StatusBadRequest, "INVALID_PAYLOAD", err.Error())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	if id, known := m.byKey[key]; known {
		return ok(http.StatusAccepted, map[string]any{"job_id": id})
	}
	for _, job := range m.jobs {
		if sent.UniqueKey != "" && job.UniqueKey == sent.UniqueKey && job.state == forgerun.Queued {
			return problem(http.StatusConflict, "DUPLICATE_JOB", "There is such a job already.")
		}
	}
	job := m.add(Submission{
		Type: sent.JobType, Input: sent.Payload, Queue: sent.Queue, Priority: sent.Priority, MaxRetries: sent.MaxRetries,
		Timeout: sent.Timeout, Deadline: sent.Deadline, Tags: sent.Tags, UniqueKey: sent.UniqueKey, IdempotencyKey: key,
		NotBefore: sent.ExecutionAt,
	})
	m.byKey[key] = job.ID
	return ok(http.StatusAccepted, map[string]any{"job_id": job.ID})
}

func (m *memory) submitMany(body []byte) (int, http.Header, []byte) {
	var sent struct {
		Jobs []struct {
			ID      string            `json:"id"`
			Type    string            `json:"type"`
			Args    []json.RawMessage `json:"args"`
			Options struct {
				Queue    string   `json:"queue"`
				Priority int      `json:"priority"`
				Timeout  string   `json:"timeout"`
				Deadline string   `json:"deadline"`
				Tags     []string `json:"tags"`
				Retry    struct {
					MaxAttempts int `json:"max_attempts"`
				} `json:"retry"`
				ScheduledAt time.Time `json:"scheduled_at"`
			} `json:"options"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return problem(http.StatusBadRequest, "INVALID_PAYLOAD", err.Error())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	answered := []map[string]any{}
	for _, job := range sent.Jobs {
		if m.byID[job.ID] == nil {
			input := json.RawMessage("null")
			switch len(job.Args) {
			case 0:
			case 1:
				input = job.Args[0]
			default:
				input, _ = json.Marshal(job.Args)
			}
			o := job.Options
			m.add(Submission{
				ID: job.ID, Type: job.Type, Input: input, Queue: o.Queue, Priority: o.Priority, MaxRetries: o.Retry.MaxAttempts - 1,
				Timeout: o.Timeout, Deadline: o.Deadline, Tags: o.Tags, NotBefore: o.ScheduledAt,
			})
		}
		answered = append(answered, map[string]any{"id": job.ID})
	}
	return ok(http.StatusCreated, map[string]any{"jobs": answered})
}

func (m *memory) job(r *http.Request, id, rest string) (int, http.Header, []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	job := m.byID[id]
	if job == nil {
		return problem(http.StatusNotFound, "NOT_FOUND", "There is no job "+id+".")
	}
	switch {
	case rest == "cancel":
		if job.state == forgerun.Queued {
			job.state, job.message = forgerun.Canceled, "the job was cancelled"
			m.notify()
		}
		return ok(http.StatusOK, map[string]any{"job_id": id, "state": job.state})
	case rest == "retry":
		if job.state != forgerun.Failed {
			return problem(http.StatusConflict, "INVALID_STATE_TRANSITION", "only a failed job can be retried")
		}
		job.state = forgerun.Queued
		return ok(http.StatusOK, map[string]any{"job_id": id, "state": job.state})
	case rest == "pause" || rest == "resume":
		return m.pause(job, rest == "pause")
	case rest == "logs":
		return m.logs(r, job)
	case rest == "result" && job.state == forgerun.Succeeded:
		return http.StatusOK, http.Header{}, job.result
	case rest != "":
		return problem(http.StatusConflict, "INVALID_STATE_TRANSITION", "the fake client has no "+rest+" of this job")
	}
	if r.Header.Get("Prefer") != "" {
		m.wait(r.Context(), job)
	}
	if job.message != "" && r.Header.Get("Accept") == "application/problem+json" {
		code := map[forgerun.State]string{forgerun.Canceled: "JOB_CANCELLED"}[job.state]
		if code == "" {
			code = "HANDLER_ERROR"
		}
		_, header, body := problem(http.StatusInternalServerError, code, job.message)
		return http.StatusOK, header, body
	}
	status := map[forgerun.State]string{
		forgerun.Succeeded: "COMPLETED", forgerun.Failed: "FAILED", forgerun.Canceled: "CANCELLED",
	}[job.state]
	return ok(http.StatusOK, map[string]any{
		"job_id": id, "job_type": job.Type, "state": job.state, "jobStatus": status, "queue": job.Queue, "attempt": 1, "tags": job.Tags,
		"paused": m.paused[id],
	})
}

// wait returns when the job has ended or the caller has given up. mu is held before and after.
func (m *memory) wait(ctx context.Context, job *fakeJob) {
	for job.state == forgerun.Queued && ctx.Err() == nil {
		changed := m.changed
		m.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		m.mu.Lock()
	}
}
