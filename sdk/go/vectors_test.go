package forgerun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// readVectors reads a file of sdk/vectors and returns the members at its top.
func readVectors(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

type vectorError struct {
	Class        string         `json:"class"`
	Code         string         `json:"code"`
	Canonical    *string        `json:"canonical"`
	Message      string         `json:"message"`
	Retryable    bool           `json:"retryable"`
	RetryAfterMS *int64         `json:"retry_after_ms"`
	Details      map[string]any `json:"details"`
	RequestID    *string        `json:"request_id"`
}

func headerOf(pairs map[string]string) http.Header {
	header := http.Header{}
	for name, value := range pairs {
		header.Set(name, value)
	}
	return header
}

// className is what all SDKs call the type of an error.
func className(err error) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", err), "*forgerun.")
}

func described(err error) vectorError {
	api := apiError(err)
	d := vectorError{Class: className(err), Code: api.Code, Message: api.Message, Retryable: api.Retryable, Details: api.Details}
	if api.Canonical != "" {
		d.Canonical = &api.Canonical
	}
	if api.RetryAfter >= 0 {
		ms := api.RetryAfter.Milliseconds()
		d.RetryAfterMS = &ms
	}
	if api.RequestID != "" {
		d.RequestID = &api.RequestID
	}
	return d
}

func compare(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		t.Errorf("\n got %s\nwant %s", g, w)
	}
}

func needCases(t *testing.T, n int) {
	t.Helper()
	if n == 0 {
		t.Fatal("the file has no cases")
	}
}

func TestVectorsErrors(t *testing.T) {
	var file struct {
		Now   int64
		Cases []struct {
			Name    string
			Status  *int
			Headers map[string]string
			Body    string
			Expect  *vectorError
		}
	}
	readVectors(t, "errors.json", &file)
	needCases(t, len(file.Cases))
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			now := time.Unix(file.Now, 0)
			if c.Status == nil {
				compare(t, described(newAPIError(0, headerOf(c.Headers), []byte(c.Body), now).typed()), *c.Expect)
				return
			}
			client := answering(t, func(int, *http.Request) *http.Response { return answer(*c.Status, c.Headers, c.Body) })
			client.now = func() time.Time { return now }
			_, err := client.sendOnce(context.Background(), get("/v1/jobs/1"))
			if c.Expect == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			compare(t, described(err), *c.Expect)
		})
	}
}

func TestVectorsOutcomes(t *testing.T) {
	var file struct {
		Cases []struct {
			Name    string
			State   State
			Problem *string
			Expect  vectorError
		}
	}
	readVectors(t, "outcomes.json", &file)
	needCases(t, len(file.Cases))
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			client := answering(t, func(n int, r *http.Request) *http.Response {
				if r.Header.Get("Accept") == "application/problem+json" && c.Problem != nil {
					return answer(200, map[string]string{"content-type": "application/problem+json"}, *c.Problem)
				}
				status := map[State]string{Failed: "FAILED", Canceled: "CANCELLED"}[c.State]
				body := fmt.Sprintf(`{"job_id":"7","state":%q,"jobStatus":%q}`, c.State, status)
				return answer(200, map[string]string{"content-type": "application/json"}, body)
			})
			_, err := Result[any](context.Background(), client.Job("7"))
			got := described(err)
			got.Canonical, got.RetryAfterMS, got.RequestID = nil, nil, nil
			compare(t, got, c.Expect)
			var execution *ExecutionError
			if !errors.As(err, &execution) {
				t.Error("it is no ExecutionError")
			}
		})
	}
}

func TestVectorsRetries(t *testing.T) {
	var file struct {
		Cases []struct {
			Name    string
			Failure struct {
				Status      int
				Headers     map[string]string
				Body        string
				Unreachable *struct {
					MaybeSent bool `json:"maybe_sent"`
				}
			}
			Repeat       string
			RetriesMade  int `json:"retries_made"`
			Random       float64
			ExpectWaitMS *int64 `json:"expect_wait_ms"`
		}
	}
	readVectors(t, "retries.json", &file)
	needCases(t, len(file.Cases))
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			failed := newAPIError(c.Failure.Status, headerOf(c.Failure.Headers), []byte(c.Failure.Body), time.Unix(0, 0))
			if c.Failure.Unreachable != nil {
				failed = &APIError{Class: ClassBackend, Code: "UNREACHABLE", Retryable: true, RetryAfter: -1}
				failed.notSent = !c.Failure.Unreachable.MaybeSent
			}
			var got *int64
			if wait, ok := DefaultRetryPolicy.next(failed, c.Repeat == "harmless", c.RetriesMade, c.Random); ok {
				ms := wait.Milliseconds()
				got = &ms
			}
			compare(t, got, c.ExpectWaitMS)
		})
	}
}

func TestVectorsPolling(t *testing.T) {
	var file struct {
		Cases []struct {
			Name      string
			TimeoutMS int64 `json:"timeout_ms"`
			Answers   []struct {
				RetryAfterMS *int64 `json:"retry_after_ms"`
				Ended        bool
			}
			ExpectWaitsMS []int64 `json:"expect_waits_ms"`
			Ends          string
		}
	}
	readVectors(t, "polling.json", &file)
	needCases(t, len(file.Cases))
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			total, waited, retryAfter := time.Duration(c.TimeoutMS)*time.Millisecond, time.Duration(0), time.Duration(0)
			waits, ends := []int64{}, "timed_out"
			for polls := 0; ; polls++ {
				wait, ok := pollWait(polls, waited, retryAfter, total)
				if !ok {
					break
				}
				waits, waited = append(waits, wait.Milliseconds()), waited+wait
				if polls == len(c.Answers) {
					t.Fatal("the case has too few answers")
				}
				if c.Answers[polls].Ended {
					ends = "ended"
					break
				}
				retryAfter = 0
				if ms := c.Answers[polls].RetryAfterMS; ms != nil {
					retryAfter = time.Duration(*ms) * time.Millisecond
				}
			}
			compare(t, waits, c.ExpectWaitsMS)
			compare(t, ends, c.Ends)
		})
	}
}

func TestVectorsIdempotency(t *testing.T) {
	var file struct {
		Cases []struct {
			Name       string
			Events     []string
			ExpectKeys []string `json:"expect_keys"`
		}
	}
	readVectors(t, "idempotency.json", &file)
	needCases(t, len(file.Cases))
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			var keys []string
			letters := map[string]string{}
			events := c.Events
			client := answering(t, func(_ int, r *http.Request) *http.Response {
				key := r.Header.Get("Idempotency-Key")
				if _, known := letters[key]; !known {
					letters[key] = string(rune('A' + len(letters)))
				}
				keys = append(keys, letters[key])
				event := events[0]
				events = events[1:]
				switch {
				case event == "unreachable":
					return nil
				case event == "accepted":
					return answer(202, nil, `{"job_id":"7"}`)
				}
				var status int
				if _, err := fmt.Sscanf(event, "status %d", &status); err != nil {
					t.Fatalf("unknown event %q", event)
				}
				return answer(status, nil, "")
			})
			for len(events) > 0 {
				name, key, _ := strings.Cut(events[0], " ")
				if name != "submit" {
					t.Fatalf("%q without a submission", events[0])
				}
				events = events[1:]
				var options []JobOption
				if key != "" {
					letters[key] = key
					options = append(options, IdempotencyKey(key))
				}
				_, _ = client.Submit(context.Background(), "t", nil, options...)
			}
			compare(t, keys, c.ExpectKeys)
		})
	}
}

type vectorOptions struct {
	Queue          *string
	Priority       *int
	MaxRetries     *int `json:"max_retries"`
	Timeout        *string
	TimeoutMS      *int64 `json:"timeout_ms"`
	Deadline       *string
	Tags           []string
	UniqueKey      *string `json:"unique_key"`
	IdempotencyKey *string `json:"idempotency_key"`
	DelayMS        *int64  `json:"delay_ms"`
	At             *time.Time
}

func (o vectorOptions) list(t *testing.T) []JobOption {
	var list []JobOption
	if o.Queue != nil {
		list = append(list, Queue(*o.Queue))
	}
	if o.Priority != nil {
		list = append(list, Priority(*o.Priority))
	}
	if o.MaxRetries != nil {
		list = append(list, MaxRetries(*o.MaxRetries))
	}
	if o.Timeout != nil {
		limit, err := time.ParseDuration(*o.Timeout)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, Timeout(limit))
	}
	if o.TimeoutMS != nil {
		list = append(list, Timeout(time.Duration(*o.TimeoutMS)*time.Millisecond))
	}
	if o.Deadline != nil {
		if limit, err := time.ParseDuration(*o.Deadline); err == nil {
			list = append(list, Deadline(limit))
		} else if at, err := time.Parse(time.RFC3339, *o.Deadline); err == nil {
			list = append(list, DeadlineAt(at))
		} else {
			t.Fatal(err)
		}
	}
	if o.Tags != nil {
		list = append(list, Tags(o.Tags...))
	}
	if o.UniqueKey != nil {
		list = append(list, UniqueKey(*o.UniqueKey))
	}
	if o.IdempotencyKey != nil {
		list = append(list, IdempotencyKey(*o.IdempotencyKey))
	}
	if o.DelayMS != nil {
		list = append(list, Delay(time.Duration(*o.DelayMS)*time.Millisecond))
	}
	if o.At != nil {
		list = append(list, At(*o.At))
	}
	return list
}

type vectorRequest struct {
	Method  string
	Path    string
	Body    any
	Headers map[string]string
}

func TestVectorsEnvelopes(t *testing.T) {
	var file struct {
		Now         time.Time
		Submissions []struct {
			Name    string
			Type    string
			Args    json.RawMessage
			Options vectorOptions
			Expect  vectorRequest
		}
		Batches []struct {
			Name string
			Jobs []struct {
				Type    string
				Args    json.RawMessage
				Queue   *string
				Options vectorOptions
			}
			Expect vectorRequest
		}
		Received []struct {
			Name   string
			Job    json.RawMessage
			Expect struct {
				ID          string
				Type        string
				Queue       string
				Attempt     int
				Tags        []string
				Meta        map[string]any
				Input       any
				Parents     map[string]any
				Traceparent *string
				LeaseToken  string `json:"lease_token"`
			}
		}
	}
	readVectors(t, "envelopes.json", &file)
	needCases(t, min(len(file.Submissions), len(file.Batches), len(file.Received)))
	sent := func(t *testing.T, want vectorRequest, reply string, submit func(*Client) error) {
		requests := 0
		client := answering(t, func(_ int, r *http.Request) *http.Response {
			requests++
			var body any
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Fatal(err)
			}
			if batch, ok := body.(map[string]any)["jobs"].([]any); ok {
				for _, job := range batch {
					delete(job.(map[string]any), "id")
				}
			}
			compare(t, []any{r.Method, r.URL.Path, body}, []any{want.Method, want.Path, want.Body})
			for name, value := range want.Headers {
				compare(t, r.Header.Get(name), value)
			}
			if r.Header.Get("Idempotency-Key") == "" {
				t.Error("no Idempotency-Key")
			}
			return answer(202, nil, reply)
		})
		client.now = func() time.Time { return file.Now }
		if err := submit(client); err != nil {
			t.Fatal(err)
		}
		compare(t, requests, 1)
	}
	for _, c := range file.Submissions {
		t.Run(c.Name, func(t *testing.T) {
			sent(t, c.Expect, `{"job_id":"7"}`, func(client *Client) error {
				_, err := client.Submit(context.Background(), c.Type, c.Args, c.Options.list(t)...)
				return err
			})
		})
	}
	for _, c := range file.Batches {
		t.Run(c.Name, func(t *testing.T) {
			var specs []JobSpec
			for _, job := range c.Jobs {
				if job.Queue != nil {
					job.Options.Queue = job.Queue
				}
				specs = append(specs, NewJob(job.Type, job.Args, job.Options.list(t)...))
			}
			reply := `{"jobs":[` + strings.TrimSuffix(strings.Repeat(`{"id":"7"},`, len(specs)), ",") + `]}`
			sent(t, c.Expect, reply, func(client *Client) error {
				_, err := client.SubmitMany(context.Background(), specs...)
				return err
			})
		})
	}
	for _, c := range file.Received {
		t.Run(c.Name, func(t *testing.T) {
			var received receivedJob
			if err := json.Unmarshal(c.Job, &received); err != nil {
				t.Fatal(err)
			}
			job := received.job(nil, "w")
			var input any
			if err := job.Bind(&input); err != nil {
				t.Fatal(err)
			}
			parents := map[string]any{}
			for step, result := range job.Parents {
				var value any
				if err := json.Unmarshal(result, &value); err != nil {
					t.Fatal(err)
				}
				parents[step] = value
			}
			traceparent := ""
			if c.Expect.Traceparent != nil {
				traceparent = *c.Expect.Traceparent
			}
			meta := job.Meta
			if meta == nil {
				meta = map[string]any{}
			}
			want := c.Expect
			compare(t, []any{job.ID, job.Type, job.Queue, job.Attempt, job.Tags, meta, input, parents, job.Traceparent, job.leaseToken},
				[]any{want.ID, want.Type, want.Queue, want.Attempt, want.Tags, want.Meta, want.Input, want.Parents, traceparent, want.LeaseToken})
		})
	}
}

// answering returns a client whose requests are answered by a function, without a network and without waiting; nil breaks the
// connection.
func answering(t *testing.T, reply func(n int, r *http.Request) *http.Response) *Client {
	t.Helper()
	n := 0
	client, err := New(URL("http://server.test"), HTTPClient(&http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		n++
		answer := reply(n, r)
		if answer == nil {
			return nil, io.ErrUnexpectedEOF
		}
		answer.Request = r
		return answer, nil
	})}))
	if err != nil {
		t.Fatal(err)
	}
	client.sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	client.random = func() float64 { return 0 }
	return client
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, headers map[string]string, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: headerOf(headers), Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}
