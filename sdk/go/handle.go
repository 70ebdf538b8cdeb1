package forgerun

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"time"
)

// Handle is a job that was submitted.
type Handle struct {
	ID     string
	client *Client
}

// Job returns the handle of a job by its id. It asks the server nothing.
func (c *Client) Job(id string) *Handle { return &Handle{ID: id, client: c} }

// Status is a job as it stands.
type Status struct {
	ID          string     `json:"job_id"`
	Type        string     `json:"job_type"`
	State       State      `json:"state"`
	JobStatus   string     `json:"jobStatus"` // TIMED_OUT where State is only FAILED
	Queue       string     `json:"queue"`
	Attempt     int        `json:"attempt"`  // from 1
	Progress    int        `json:"progress"` // percent, as last reported
	Tags        []string   `json:"tags"`
	Paused      bool       `json:"paused"`         // held back until it is resumed
	Awaits      string     `json:"awaited_signal"` // the signal that its handler waits for; "" for none
	CreatedAt   time.Time  `json:"created_at"`
	UpdatedAt   time.Time  `json:"updated_at"`
	CompletedAt *time.Time `json:"completedAt"`
	Error       *Failure   `json:"error"` // why it did not succeed
	RetriesLeft *int       `json:"retries_left"`
}

// Failure is why a job did not succeed.
type Failure struct {
	Type      string `json:"type"`
	Code      string `json:"errorCode"`
	Title     string `json:"message"`
	Message   string `json:"detail"`
	Retryable bool   `json:"retryable"`
}

// Ended reports whether the job will not go on by itself.
func (s *Status) Ended() bool {
	switch s.JobStatus {
	case "COMPLETED", "COMPLETED_WITH_ERRORS", "FAILED", "TIMED_OUT", "CANCELLED":
		return true
	}
	return false
}

func (h *Handle) path(rest string) string { return "/v1/jobs/" + segment(h.ID) + rest }

// Status asks where the job stands.
func (h *Handle) Status(ctx context.Context) (*Status, error) {
	var status Status
	if err := h.client.fetch(ctx, get(h.path("")), &status); err != nil {
		return nil, err
	}
	return &status, nil
}

// Cancel cancels the job. It changes nothing about a job that has ended.
func (h *Handle) Cancel(ctx context.Context) error {
	return h.client.fetch(ctx, post(h.path("/cancel")).safe(), nil)
}

// Retry begins a failed job again.
func (h *Handle) Retry(ctx context.Context) error {
	return h.client.fetch(ctx, post(h.path("/retry")).safe(), nil)
}

// Pause holds the job back: no worker gets it until it is resumed. One that runs goes on.
func (h *Handle) Pause(ctx context.Context) error {
	return h.client.fetch(ctx, post(h.path("/pause")).safe(), nil)
}

// Resume ends a pause.
func (h *Handle) Resume(ctx context.Context) error {
	return h.client.fetch(ctx, post(h.path("/resume")).safe(), nil)
}

// Report returns how the job went, as the server describes it. It is there once the job has ended.
func (h *Handle) Report(ctx context.Context) (json.RawMessage, error) {
	var report json.RawMessage
	err := h.client.fetch(ctx, get(h.path("/report")), &report)
	return report, err
}

// Wait waits until the job has ended or ctx is done. A job that failed is no error: see its State.
func (h *Handle) Wait(ctx context.Context) (*Status, error) {
	c := h.client
	for polls := 0; ; {
		request := get(h.path(""))
		request.held = holdLongest
		if deadline, ok := ctx.Deadline(); ok {
			request.held = min(request.held, max(time.Until(deadline), 0))
		}
		request.set("Prefer", fmt.Sprintf("wait=%d", max(1, int(request.held.Seconds()))))
		asked := c.now()
		answer, err := c.send(ctx, request)
		retryAfter := time.Duration(0)
		held := false
		switch {
		case err == nil:
			body, err := readAll(answer, answerBytesMax)
			if err != nil {
				return nil, c.broken(ctx, err)
			}
			var status Status
			if err := json.Unmarshal(body, &status); err != nil {
				return nil, protocolError("the status of a job: %v", err)
			}
			if status.Ended() {
				return &status, nil
			}
			retryAfter, _ = parseRetryAfter(answer.Header.Get("Retry-After"), c.now())
			// A server that held the answer was asked politely: it is asked again at once.
			held = strings.HasPrefix(answer.Header.Get("Preference-Applied"), "wait") && c.now().Sub(asked) >= time.Second
		case apiError(err) == nil || !apiError(err).Retryable:
			return nil, err
		default:
			// The request was repeated already. The job goes on meanwhile, so the wait does too.
			retryAfter = max(apiError(err).RetryAfter, 0)
		}
		if held {
			polls = 0
			continue
		}
		wait, _ := pollWait(polls, 0, retryAfter, 1<<62)
		polls++
		if err := c.sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// Result waits until the job has ended and returns what it left. JSON is decoded into T; []byte and json.RawMessage get the bytes
// as they are. A job that left nothing gives the zero value. A job that did not succeed is a *JobFailed, *JobTimedOut or *JobCancelled.
//
// ctx bounds the wait; without a deadline it is unbounded.
func Result[T any](ctx context.Context, h *Handle) (T, error) {
	var value T
	status, err := h.Wait(ctx)
	if err != nil {
		return value, err
	}
	if status.State != Succeeded {
		return value, h.failure(ctx, status)
	}
	download, err := h.Open(ctx)
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

func decodeResult(body []byte, contentType string, into any) error {
	switch into := into.(type) {
	case *[]byte:
		*into = body
		return nil
	case *any:
		if !isJSON(contentType) {
			*into = body
			return nil
		}
	}
	if !isJSON(contentType) {
		return usageError("the result is %s and not JSON: use Result[[]byte], or Open", contentType)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return usageError("the result does not fit: %v", err)
	}
	return nil
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// failure returns the error of a job that did not succeed, with the whole problem object.
func (h *Handle) failure(ctx context.Context, status *Status) error {
	answer, err := h.client.send(ctx, get(h.path("")).set("Accept", "application/problem+json"))
	if err != nil {
		return err
	}
	body, err := readAll(answer, answerBytesMax)
	if err != nil {
		return h.client.broken(ctx, err)
	}
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/problem+json") {
		body = nil // a job of another kind, which has no failure object
	}
	return outcomeError(status.State, answer.Header, body, h.client.now())
}
