package forgerun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Job is a job that a worker does.
type Job struct {
	ID          string
	Type        string
	Queue       string
	Attempt     int // from 1
	Tags        []string
	Meta        map[string]any
	Traceparent string                     // the trace it belongs to; "" if none
	Input       json.RawMessage            // what was submitted
	Parents     map[string]json.RawMessage // results of the steps it waited for, by their names; null if one left nothing; read them with Parent, which fetches large ones

	client     *Client
	workerID   string
	leaseToken string
	workflowID string // "" if it is no step of a workflow
	parentJobs map[string]string
	logs       logBuffer
	slept      func(time.Duration) // set where a test runs the handler: nothing waits

	steps recordedSteps
}

// receivedJob is a job as the server hands it out.
type receivedJob struct {
	ID            string            `json:"id"`
	Type          string            `json:"type"`
	Queue         string            `json:"queue"`
	Attempt       int               `json:"attempt"`
	Args          json.RawMessage   `json:"args"`
	ArgsWrapped   *bool             `json:"args_wrapped"`
	Tags          []string          `json:"tags"`
	Meta          json.RawMessage   `json:"meta"`
	LeaseToken    string            `json:"lease_token"`
	WorkflowID    string            `json:"workflow_id"`
	Traceparent   string            `json:"traceparent"`
	ParentSteps   []string          `json:"parent_steps"`
	ParentJobs    []string          `json:"parent_jobs"`
	ParentResults []json.RawMessage `json:"parent_results"`
}

func (r *receivedJob) job(client *Client, workerID string) *Job {
	j := &Job{
		ID: r.ID, Type: r.Type, Queue: r.Queue, Attempt: r.Attempt, Tags: r.Tags, Traceparent: r.Traceparent,
		Input: r.input(), client: client, workerID: workerID, leaseToken: r.LeaseToken, workflowID: r.WorkflowID,
	}
	if len(r.Meta) > len("{}") {
		// Metadata that cannot be read must not keep a worker from its job.
		_ = json.Unmarshal(r.Meta, &j.Meta)
		if text, ok := j.Meta["traceparent"].(string); ok && j.Traceparent == "" {
			j.Traceparent = text
		}
	}
	if len(r.ParentSteps) > 0 {
		j.Parents, j.parentJobs = map[string]json.RawMessage{}, map[string]string{}
	}
	for i, step := range r.ParentSteps {
		j.Parents[step] = json.RawMessage("null")
		if i < len(r.ParentResults) && len(r.ParentResults[i]) > 0 {
			j.Parents[step] = r.ParentResults[i]
		}
		if i < len(r.ParentJobs) {
			j.parentJobs[step] = r.ParentJobs[i]
		}
	}
	return j
}

// input is what was submitted: the list itself if it was one, the one argument, or null without any.
func (r *receivedJob) input() json.RawMessage {
	if r.ArgsWrapped != nil && !*r.ArgsWrapped {
		return r.Args
	}
	switch n, inner := elements(r.Args); n {
	case 0:
		return json.RawMessage("null")
	case 1:
		return inner
	default:
		return r.Args
	}
}

// elements counts the elements of a JSON list, up to two, and returns what is between the brackets. The text is valid JSON; one that is
// no list counts as two, one that is empty as none.
func elements(list json.RawMessage) (int, json.RawMessage) {
	text := bytes.TrimSpace(list)
	if len(text) == 0 {
		return 0, nil
	}
	if text[0] != '[' {
		return 2, nil
	}
	inner := bytes.TrimSpace(text[1 : len(text)-1])
	if len(inner) == 0 {
		return 0, nil
	}
	depth := 0
	for i := 0; i < len(inner); i++ {
		switch inner[i] {
		case '"':
			for i++; inner[i] != '"'; i++ {
				if inner[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 0 {
				return 2, nil
			}
		}
	}
	return 1, inner
}

// Bind decodes the input. An input that does not fit fails the job for good.
func (j *Job) Bind(into any) error {
	if err := json.Unmarshal(j.Input, into); err != nil {
		return Fatal(fmt.Errorf("the input does not fit: %w", err))
	}
	return nil
}

// Parent decodes the result of a step that the job waited for. One that was too large to come with the job is fetched.
func Parent[T any](ctx context.Context, j *Job, step string) (T, error) {
	var value T
	result, ok := j.Parents[step]
	if !ok {
		return value, usageError("job %s did not wait for a step %q", j.ID, step)
	}
	if string(result) != "null" || j.parentJobs[step] == "" {
		body, media, err := j.client.whole(ctx, result, 0)
		if err != nil {
			return value, err
		}
		return value, decodeResult(body, media, &value)
	}
	download, err := j.client.download(ctx, "/ojs/v1/jobs/"+segment(j.parentJobs[step])+"/result")
	if err != nil {
		if IsNotFound(err) {
			return value, nil
		}
		return value, err
	}
	defer download.Close()
	body, err := download.bytes(resultsBytesMax)
	if err != nil {
		return value, err
	}
	return value, decodeResult(body, download.ContentType, &value)
}

type progressBody struct {
	JobID      string `json:"job_id"`
	WorkerID   string `json:"worker_id"`
	LeaseToken string `json:"lease_token"`
	Percentage int    `json:"percentage"`
	Message    string `json:"message,omitempty"`
}

// Progress reports how far the work is, from 0 to 100 percent. message may be empty. Progress that is lost is no reason to fail. A job
// that came over HTTP (Worker.HTTPHandler) cannot report any: then nothing is sent.
func (j *Job) Progress(ctx context.Context, percent int, message string) error {
	if j.leaseToken == "" {
		return nil
	}
	request, err := post("/ojs/v1/workers/progress").safe().json(
		progressBody{j.ID, j.workerID, j.leaseToken, min(max(percent, 0), 100), message})
	if err != nil {
		return err
	}
	return j.client.fetch(ctx, request.set("Prefer", "return=minimal"), nil)
}

type jobKey struct{}

// JobFrom returns the job whose handler has this context; nil outside of a handler.
func JobFrom(ctx context.Context) *Job {
	job, _ := ctx.Value(jobKey{}).(*Job)
	return job
}

// Content is a result that is not JSON, or large. It is uploaded before the job ends.
type Content struct {
	Type     string    // its media type; application/octet-stream if empty
	FileName string    // under which it is saved; may be empty
	Body     io.Reader // closed after the upload if it is an io.Closer
	Size     int64     // of Body; 0 or less if unknown
}

// Reasons why the context of a handler ends (context.Cause).
var (
	ErrCancelled     = errors.New("the job was cancelled, or ran out of time")
	ErrLeaseLost     = errors.New("the job was given to another worker")
	ErrWorkerStopped = errors.New("the worker stops")
)

// retryLater is an error that asks for another attempt.
type retryLater struct {
	after time.Duration
	err   error
}

func (e *retryLater) Error() string { return e.err.Error() }
func (e *retryLater) Unwrap() error { return e.err }

// RetryLater fails the attempt and asks for another one after this long, if the job has a retry left. err says why; it may be nil.
func RetryLater(after time.Duration, err error) error {
	if err == nil {
		err = fmt.Errorf("the handler asked for another attempt after %s", after)
	}
	return &retryLater{after, err}
}

type fatal struct{ err error }

func (e *fatal) Error() string { return e.err.Error() }
func (e *fatal) Unwrap() error { return e.err }

// Fatal fails the job for good: the same input would fail in the same way.
func Fatal(err error) error {
	if err == nil {
		err = errors.New("failed for good")
	}
	return &fatal{err}
}
