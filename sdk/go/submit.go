package forgerun

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"
)

// DefaultMaxRetries is how often the server retries a job by itself unless MaxRetries says otherwise.
const DefaultMaxRetries = 3

const (
	batchJobsMax  = 1000    // jobs in one request of SubmitMany
	batchBytesMax = 4 << 20 // and their bytes
)

// Submitter is what code that only submits jobs needs. *Client is one, and so is the fake of package forgeruntest.
type Submitter interface {
	Submit(ctx context.Context, jobType string, input any, options ...JobOption) (*Handle, error)
	SubmitMany(ctx context.Context, jobs ...JobSpec) ([]*Handle, error)
}

// JobSpec describes a job: for SubmitMany, workflows and schedules.
type JobSpec struct {
	Type    string
	Input   any // any value that encoding/json can write; nil is null
	Options []JobOption
}

// NewJob describes a job.
func NewJob(jobType string, input any, options ...JobOption) JobSpec {
	return JobSpec{Type: jobType, Input: input, Options: options}
}

// JobOption sets an option of a job.
type JobOption func(*jobOptions)

type jobOptions struct {
	queue      string
	priority   int
	fair       *fairKey
	maxRetries int
	timeout    string
	deadline   string
	tags       []string
	uniqueKey  string
	key        string
	at         time.Time
	delay      time.Duration
}

// Queue is where the job waits: `default`.
func Queue(name string) JobOption { return func(o *jobOptions) { o.queue = name } }

// Priority is −100 to 100; higher goes first.
func Priority(priority int) JobOption { return func(o *jobOptions) { o.priority = priority } }

// Fair lets the jobs of a queue take turns by key, weight (1 to 100) turns at a time.
func Fair(key string, weight int) JobOption {
	return func(o *jobOptions) { o.fair = &fairKey{key, weight} }
}

type fairKey struct {
	Key    string `json:"key"`
	Weight int    `json:"weight"`
}

// MaxRetries is how often the server retries the job by itself: DefaultMaxRetries.
func MaxRetries(retries int) JobOption { return func(o *jobOptions) { o.maxRetries = retries } }

// Timeout bounds one attempt.
func Timeout(limit time.Duration) JobOption {
	return func(o *jobOptions) { o.timeout = formatDuration(limit) }
}

// Deadline bounds the whole job, retries included, counted from its submission.
func Deadline(limit time.Duration) JobOption {
	return func(o *jobOptions) { o.deadline = formatDuration(limit) }
}

// DeadlineAt is the time by which the job must have ended.
func DeadlineAt(at time.Time) JobOption { return func(o *jobOptions) { o.deadline = formatTime(at) } }

// Tags are labels by which jobs are found: up to 16.
func Tags(tags ...string) JobOption { return func(o *jobOptions) { o.tags = append(o.tags, tags...) } }

// UniqueKey refuses a second job with this key (ConflictError) until the first has ended.
func UniqueKey(key string) JobOption { return func(o *jobOptions) { o.uniqueKey = key } }

// IdempotencyKey names the operation: two submissions with one key are one job. The default is a new random key per submission, which
// stays the same however often the request has to be sent.
func IdempotencyKey(key string) JobOption { return func(o *jobOptions) { o.key = key } }

// At is the time before which the job does not begin.
func At(at time.Time) JobOption { return func(o *jobOptions) { o.at = at } }

// Delay is how long after its submission the job begins at the earliest.
func Delay(delay time.Duration) JobOption { return func(o *jobOptions) { o.delay = delay } }

func (spec JobSpec) options() jobOptions {
	o := jobOptions{maxRetries: DefaultMaxRetries}
	for _, option := range spec.Options {
		option(&o)
	}
	return o
}

// notBefore returns the time before which the job does not begin; zero for at once.
func (o *jobOptions) notBefore(now time.Time) time.Time {
	if o.at.IsZero() && o.delay > 0 {
		return now.Add(o.delay)
	}
	return o.at
}

// submission is the body of POST /v1/jobs.
type submission struct {
	Type        string          `json:"type"`
	JobType     string          `json:"job_type"`
	Payload     json.RawMessage `json:"payload"`
	Queue       string          `json:"queue,omitempty"`
	Priority    int             `json:"priority,omitempty"`
	Fair        *fairKey        `json:"fair,omitempty"`
	MaxRetries  int             `json:"max_retries"`
	Timeout     string          `json:"timeout,omitempty"`
	Deadline    string          `json:"deadline,omitempty"`
	Tags        []string        `json:"tags,omitempty"`
	UniqueKey   string          `json:"unique_key,omitempty"`
	ExecutionAt string          `json:"execution_at,omitempty"`
}

func (spec JobSpec) submission(now time.Time) (*submission, jobOptions, error) {
	o := spec.options()
	payload, err := encodeInput(spec)
	if err != nil {
		return nil, o, err
	}
	body := &submission{
		Type: "EXECUTE", JobType: spec.Type, Payload: payload, Queue: o.queue, Priority: o.priority, Fair: o.fair,
		MaxRetries: o.maxRetries,
		Timeout:    o.timeout, Deadline: o.deadline, Tags: o.tags, UniqueKey: o.uniqueKey,
	}
	if at := o.notBefore(now); !at.IsZero() {
		body.Type, body.ExecutionAt = "DEFERRED", formatTime(at)
	}
	return body, o, nil
}

// envelope is a job in the words of Open Job Spec, as batches and workflows take it.
type envelope struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Args    json.RawMessage `json:"args"`
	Options envelopeOptions `json:"options"`
}

type envelopeOptions struct {
	Queue       string        `json:"queue,omitempty"`
	Priority    int           `json:"priority,omitempty"`
	Fair        *fairKey      `json:"fair,omitempty"`
	Retry       envelopeRetry `json:"retry"`
	Timeout     string        `json:"timeout,omitempty"`
	Deadline    string        `json:"deadline,omitempty"`
	Tags        []string      `json:"tags,omitempty"`
	ScheduledAt string        `json:"scheduled_at,omitempty"`
}

type envelopeRetry struct {
	MaxAttempts int `json:"max_attempts"`
}

func (spec JobSpec) envelope(now time.Time) (*envelope, error) {
	o := spec.options()
	if o.uniqueKey != "" || o.key != "" {
		return nil, usageError("%s: UniqueKey and IdempotencyKey belong to Submit; jobs of a batch or workflow take neither", spec.Type)
	}
	args, err := encodeInput(spec)
	if err != nil {
		return nil, err
	}
	body := &envelope{Type: spec.Type, Args: asArgs(args), Options: envelopeOptions{
		Queue: o.queue, Priority: o.priority, Fair: o.fair, Retry: envelopeRetry{o.maxRetries + 1}, Timeout: o.timeout,
		Deadline: o.deadline, Tags: o.tags,
	}}
	if at := o.notBefore(now); !at.IsZero() {
		body.Options.ScheduledAt = formatTime(at)
	}
	return body, nil
}

// asArgs makes the list of arguments of an input: a list of two or more is the list, null is no argument, anything else is one.
func asArgs(input json.RawMessage) json.RawMessage {
	if string(input) == "null" {
		return json.RawMessage("[]")
	}
	if input[0] == '[' {
		if n, _ := elements(input); n == 2 {
			return input
		}
	}
	return append(append([]byte{'['}, input...), ']')
}

func encodeInput(spec JobSpec) (json.RawMessage, error) {
	payload, err := json.Marshal(spec.Input)
	if err != nil {
		return nil, usageError("the input of %s cannot be written as JSON: %v", spec.Type, err)
	}
	return payload, nil
}

// Submit submits a job. Sent again after trouble, it is still one job.
func (c *Client) Submit(ctx context.Context, jobType string, input any, options ...JobOption) (*Handle, error) {
	body, o, err := NewJob(jobType, input, options...).submission(c.now())
	if err != nil {
		return nil, err
	}
	if o.key == "" {
		o.key = newKey()
	}
	request, err := post("/v1/jobs").keyed(o.key).json(body)
	if err != nil {
		return nil, err
	}
	var submitted struct {
		JobID string `json:"job_id"`
	}
	if err := c.fetch(ctx, request, &submitted); err != nil {
		return nil, err
	}
	return c.Job(submitted.JobID), nil
}

// SubmitMany submits jobs in as few requests as possible, in order. Of each request (1,000 jobs, 4 MiB) the server takes all jobs or
// none; after an error the handles of those that were taken are returned with it. Sent again after trouble, they are still the same jobs.
func (c *Client) SubmitMany(ctx context.Context, jobs ...JobSpec) ([]*Handle, error) {
	now := c.now()
	handles := make([]*Handle, 0, len(jobs))
	var chunk []json.RawMessage
	bytes := 0
	flush := func() error {
		if len(chunk) == 0 {
			return nil
		}
		ids, err := c.submitChunk(ctx, chunk)
		for _, id := range ids {
			handles = append(handles, c.Job(id))
		}
		chunk, bytes = chunk[:0], 0
		return err
	}
	for _, spec := range jobs {
		envelope, err := spec.envelope(now)
		if err != nil {
			return handles, err
		}
		envelope.ID = newJobID(now)
		encoded, err := json.Marshal(envelope)
		if err != nil {
			return handles, usageError("%s: %v", spec.Type, err)
		}
		if len(chunk) == batchJobsMax || bytes+len(encoded) > batchBytesMax {
			if err := flush(); err != nil {
				return handles, err
			}
		}
		chunk = append(chunk, encoded)
		bytes += len(encoded)
	}
	return handles, flush()
}

func (c *Client) submitChunk(ctx context.Context, chunk []json.RawMessage) ([]string, error) {
	// The key lets the server recognise a repetition; the ids keep it from making the jobs twice even after the key is forgotten.
	request, err := post("/ojs/v1/jobs/batch").keyed(newKey()).json(map[string]any{"jobs": chunk})
	if err != nil {
		return nil, err
	}
	var submitted struct {
		Jobs []struct {
			ID string `json:"id"`
		} `json:"jobs"`
	}
	if err := c.fetch(ctx, request, &submitted); err != nil {
		return nil, err
	}
	if len(submitted.Jobs) != len(chunk) {
		return nil, protocolError("%d jobs were sent and %d answered", len(chunk), len(submitted.Jobs))
	}
	ids := make([]string, len(chunk))
	for i, job := range submitted.Jobs {
		ids[i] = job.ID
	}
	return ids, nil
}

// formatDuration writes a duration as the server reads it: 1h30m, 90s, 1500ms.
func formatDuration(d time.Duration) string {
	hours, minutes := d/time.Hour, d%time.Hour/time.Minute
	switch {
	case d <= 0 || d%time.Second != 0:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d%time.Minute != 0:
		return fmt.Sprintf("%ds", d/time.Second)
	case hours == 0:
		return fmt.Sprintf("%dm", minutes)
	case minutes == 0:
		return fmt.Sprintf("%dh", hours)
	default:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	}
}

func formatTime(at time.Time) string {
	if at = at.UTC().Truncate(time.Millisecond); at.Nanosecond() == 0 {
		return at.Format(time.RFC3339)
	}
	return at.Format("2006-01-02T15:04:05.000Z")
}

// newKey makes an idempotency key: a random UUID.
func newKey() string {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return formatUUID(id, 4)
}

// newJobID makes a UUID of version 7, which begins with the time.
func newJobID(now time.Time) string {
	var id [16]byte
	_, _ = rand.Read(id[6:])
	ms := uint64(now.UnixMilli())
	binary.BigEndian.PutUint16(id[0:], uint16(ms>>32))
	binary.BigEndian.PutUint32(id[2:], uint32(ms))
	return formatUUID(id, 7)
}

func formatUUID(id [16]byte, version byte) string {
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
