package forgerun_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	forgerun "github.com/forgerun/forgerun/sdk/go"
	"github.com/forgerun/forgerun/sdk/go/forgeruntest"
	"github.com/forgerun/forgerun/sdk/go/webhooks"
)

// These tests need a server: FORGERUN_BIN, or forgerun in PATH. Without one they fail; `go test -short` skips them.

func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T) *forgerun.Client {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a server")
	}
	return forgeruntest.DevServer(t).Client(t)
}

type handlers map[string]forgerun.HandlerFunc

// work starts a worker. It is stopped at the end of the test, or by the function that is returned, which waits for its end.
func work(t *testing.T, client *forgerun.Client, all handlers, options ...forgerun.WorkerOption) (stop func()) {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	options = append([]forgerun.WorkerOption{
		forgerun.WithoutSignals(), forgerun.Logger(quiet), forgerun.Lease(time.Second), forgerun.Drain(5 * time.Second),
	}, options...)
	worker := forgerun.NewWorker(client, options...)
	for jobType, do := range all {
		worker.Handle(jobType, do)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the worker ended with %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func submit(t *testing.T, client *forgerun.Client, jobType string, input any, options ...forgerun.JobOption) *forgerun.Handle {
	t.Helper()
	job, err := client.Submit(within(t, 30*time.Second), jobType, input, options...)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func result[T any](t *testing.T, job *forgerun.Handle) T {
	t.Helper()
	value, err := forgerun.Result[T](within(t, time.Minute), job)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func equal[T any](t *testing.T, got, want T) {
	t.Helper()
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if !bytes.Equal(g, w) {
		t.Fatalf("\n got %s\nwant %s", g, w)
	}
}

func TestResultsComeBackAsTheyWereReturned(t *testing.T) {
	client := start(t)
	type invoice struct {
		Customer string
		Amount   float64
	}
	large := strings.Repeat("x", 2<<20)
	work(t, client, handlers{
		"double": forgerun.Typed(func(_ context.Context, i invoice) (invoice, error) { return invoice{i.Customer, 2 * i.Amount}, nil }),
		"sum": forgerun.Typed(func(_ context.Context, numbers []float64) (sum float64, _ error) {
			for _, number := range numbers {
				sum += number
			}
			return sum, nil
		}),
		"echo":  func(_ context.Context, job *forgerun.Job) (any, error) { return job.Input, nil },
		"none":  func(context.Context, *forgerun.Job) (any, error) { return nil, nil },
		"large": func(context.Context, *forgerun.Job) (any, error) { return large, nil },
		"bytes": func(context.Context, *forgerun.Job) (any, error) { return []byte{0, 1, 2, 255}, nil },
		"file": func(context.Context, *forgerun.Job) (any, error) {
			return forgerun.Content{Type: "text/csv", FileName: "a.csv", Body: io.MultiReader(strings.NewReader("a,b\n"), strings.NewReader(large))}, nil
		},
	}, forgerun.Concurrency(4))
	equal(t, result[invoice](t, submit(t, client, "double", invoice{"Ada", 21})), invoice{"Ada", 42})
	equal(t, result[float64](t, submit(t, client, "sum", []int{1, 2, 3})), 6)
	equal(t, result[[]float64](t, submit(t, client, "echo", []int{5})), []float64{5})
	equal(t, result[any](t, submit(t, client, "echo", "Ada")), any("Ada"))
	equal(t, result[any](t, submit(t, client, "echo", nil)), nil)
	equal(t, string(result[json.RawMessage](t, submit(t, client, "echo", map[string]int{"a": 1}))), `{"a":1}`)
	equal(t, result[string](t, submit(t, client, "none", nil)), "")
	equal(t, result[string](t, submit(t, client, "large", nil)), large)
	equal(t, result[any](t, submit(t, client, "bytes", nil)), any([]byte{0, 1, 2, 255}))

	file := submit(t, client, "file", nil)
	if _, err := forgerun.Result[string](within(t, time.Minute), file); err == nil || !strings.Contains(err.Error(), "text/csv") {
		t.Fatalf("text was decoded as JSON: %v", err)
	}
	download, err := file.Open(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer download.Close()
	text, err := io.ReadAll(download)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, []any{download.ContentType, download.FileName, download.Size, string(text)},
		[]any{"text/csv", "a.csv", int64(4 + len(large)), "a,b\n" + large})
}

func TestAFailureHasItsReason(t *testing.T) {
	client := start(t)
	work(t, client, handlers{
		"fail": func(context.Context, *forgerun.Job) (any, error) {
			return nil, fmt.Errorf("could not print: %w", os.ErrNotExist)
		},
		"fatal": func(context.Context, *forgerun.Job) (any, error) {
			return nil, forgerun.Fatal(errors.New("no paper at all"))
		},
		"panic": func(context.Context, *forgerun.Job) (any, error) { panic("out of ink") },
		"exit":  func(context.Context, *forgerun.Job) (any, error) { runtime.Goexit(); return nil, nil },
		"later": func(_ context.Context, job *forgerun.Job) (any, error) {
			if job.Attempt == 1 {
				return nil, forgerun.RetryLater(10*time.Millisecond, nil)
			}
			return job.Attempt, nil
		},
		"shape": forgerun.Typed(func(_ context.Context, n int) (int, error) { return n, nil }),
		"wrong": func(context.Context, *forgerun.Job) (any, error) { return func() {}, nil },
		"mine":  func(context.Context, *forgerun.Job) (any, error) { return mine{}, nil },
	}, forgerun.Concurrency(1))
	failure := func(job *forgerun.Handle) *forgerun.JobFailed {
		t.Helper()
		_, err := forgerun.Result[any](within(t, time.Minute), job)
		var failed *forgerun.JobFailed
		if !errors.As(err, &failed) {
			t.Fatalf("no JobFailed but %v", err)
		}
		return failed
	}
	failed := failure(submit(t, client, "fail", nil, forgerun.MaxRetries(0)))
	equal(t, []any{failed.Message, failed.Canonical, failed.Class}, []any{"could not print: file does not exist", "HANDLER_ERROR", forgerun.ClassExecution})
	if !json.Valid(failed.Problem) {
		t.Error("there is no problem object")
	}
	fatal := submit(t, client, "fatal", nil)
	failed = failure(fatal)
	equal(t, []any{failed.Message, failed.Retryable}, []any{"no paper at all", false})
	status, err := fatal.Status(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, []any{status.State, status.Attempt, status.Error.Message}, []any{forgerun.Failed, 1, "no paper at all"})
	if failed = failure(submit(t, client, "panic", nil, forgerun.MaxRetries(0))); !strings.Contains(failed.Message, "out of ink") {
		t.Error(failed.Message)
	}
	if failed = failure(submit(t, client, "exit", nil, forgerun.MaxRetries(0))); !strings.Contains(failed.Message, "Goexit") {
		t.Error(failed.Message)
	}
	if failed = failure(submit(t, client, "mine", nil, forgerun.MaxRetries(0))); !strings.Contains(failed.Message, "out of paper") {
		t.Error(failed.Message)
	}
	equal(t, result[int](t, submit(t, client, "later", nil)), 2)
	for _, jobType := range []string{"shape", "wrong"} {
		if failed = failure(submit(t, client, jobType, "text")); failed.Retryable {
			t.Errorf("%s: %s is worth another try", jobType, failed.Message)
		}
	}
}

// mine is a result that panics when it is written.
type mine struct{}

func (mine) MarshalJSON() ([]byte, error) { panic("out of paper") }

func TestAFailedJobCanBeRetried(t *testing.T) {
	client := start(t)
	var mended atomic.Bool
	work(t, client, handlers{"mend": func(context.Context, *forgerun.Job) (any, error) {
		if !mended.Load() {
			return nil, forgerun.Fatal(errors.New("broken"))
		}
		return "fine", nil
	}})
	job := submit(t, client, "mend", nil)
	if status, err := job.Wait(within(t, time.Minute)); err != nil || status.State != forgerun.Failed {
		t.Fatal(status, err)
	}
	mended.Store(true)
	if err := job.Retry(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	equal(t, result[string](t, job), "fine")
	var validation *forgerun.ValidationError
	if err := job.Retry(within(t, time.Minute)); !errors.As(err, &validation) || validation.Canonical != "INVALID_STATE_TRANSITION" {
		t.Fatalf("a job that succeeded was retried: %v", err)
	}
	if report, err := job.Report(within(t, time.Minute)); err != nil || !bytes.Contains(report, []byte("SUCCESS")) {
		t.Fatal(string(report), err)
	}
}

func TestErrorsHaveTypes(t *testing.T) {
	client := start(t)
	ctx := within(t, time.Minute)
	var resource *forgerun.ResourceError
	_, err := client.Job("019a0000-0000-7000-8000-000000000000").Status(ctx)
	if !errors.As(err, &resource) || !forgerun.IsNotFound(err) || resource.RequestID == "" {
		t.Fatalf("%v", err)
	}
	submit(t, client, "unique", nil, forgerun.UniqueKey("u"))
	var conflict *forgerun.ConflictError
	var api *forgerun.APIError
	_, err = client.Submit(ctx, "unique", nil, forgerun.UniqueKey("u"))
	if !errors.As(err, &conflict) || !errors.As(err, &api) || api.Details["existing_job_id"] == nil || api.Retryable {
		t.Fatalf("%v", err)
	}
	var validation *forgerun.ValidationError
	if _, err = client.Submit(ctx, "a b", nil); !errors.As(err, &validation) {
		t.Fatalf("%v", err)
	}
	if _, err = client.SubmitMany(ctx, forgerun.NewJob("a", nil, forgerun.UniqueKey("u"))); !errors.As(err, &validation) {
		t.Fatalf("%v", err)
	}
	one := submit(t, client, "once", 1, forgerun.IdempotencyKey("k"))
	equal(t, submit(t, client, "once", 1, forgerun.IdempotencyKey("k")).ID, one.ID)
	if _, err = client.Submit(ctx, "once", 2, forgerun.IdempotencyKey("k")); !errors.As(err, &conflict) {
		t.Fatalf("%v", err)
	}
	short, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err = forgerun.Result[any](short, one); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
}

func TestACancelledJobEndsItsHandlersContext(t *testing.T) {
	client := start(t)
	begun, cause := make(chan struct{}), make(chan error, 1)
	work(t, client, handlers{"sleep": func(ctx context.Context, _ *forgerun.Job) (any, error) {
		close(begun)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil, ctx.Err()
	}})
	job := submit(t, client, "sleep", nil)
	<-begun
	if err := job.Cancel(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := <-cause; err != forgerun.ErrCancelled {
		t.Fatal(err)
	}
	var cancelled *forgerun.JobCancelled
	if _, err := forgerun.Result[any](within(t, time.Minute), job); !errors.As(err, &cancelled) {
		t.Fatal(err)
	}
}

func TestEventsAreFollowedToTheEnd(t *testing.T) {
	client := start(t)
	work(t, client, handlers{"walk": func(ctx context.Context, job *forgerun.Job) (any, error) {
		for _, percent := range []int{10, 90} {
			if err := job.Progress(ctx, percent, "on the way"); err != nil {
				return nil, err
			}
		}
		return "there", nil
	}})
	job := submit(t, client, "walk", nil)
	equal(t, result[string](t, job), "there")
	var names []string
	var ids []string
	job.Events(within(t, time.Minute)).All()(func(event forgerun.Event, err error) bool {
		if err != nil {
			t.Fatal(err)
		}
		names, ids = append(names, event.Name), append(ids, event.ID)
		return true
	})
	equal(t, names, []string{"job-created", "job-queued", "job-assigned", "job-started", "job-completed"})
	stream := job.Events(within(t, time.Minute)).After(ids[3])
	event, err := stream.Next()
	if err != nil || event.Name != "job-completed" || !json.Valid(event.Data) {
		t.Fatal(event, err)
	}
	if _, err := stream.Next(); err != io.EOF {
		t.Fatal(err)
	}
	if _, err := job.Events(within(t, time.Minute)).After(ids[4]).Next(); err != io.EOF {
		t.Fatalf("a stream behind the last event: %v", err)
	}
}

// freeAddress is an address that was free a moment ago, for servers that must come back at the same one.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestServersThatComeBackLoseNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server")
	}
	t.Setenv("FORGERUN_AUTH__MODE", "open")
	address, data := freeAddress(t), t.TempDir()
	serve := func() *forgeruntest.Server {
		return forgeruntest.StartServer(t, "serve", "--listen", address, "--data", data)
	}
	server := serve()
	client := server.Client(t)
	begun, leave := make(chan struct{}), make(chan struct{})
	var runs atomic.Int64
	work(t, client, handlers{"hold": func(context.Context, *forgerun.Job) (any, error) {
		runs.Add(1)
		close(begun)
		<-leave
		return "kept", nil
	}}, forgerun.Lease(30*time.Second))
	job := submit(t, client, "hold", nil)
	stream := job.Events(within(t, time.Minute))
	defer stream.Close()
	var names []string
	next := func() string {
		t.Helper()
		event, err := stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, event.Name)
		return event.Name
	}
	for next() != "job-started" {
	}
	<-begun
	server.Kill()
	close(leave) // the job ends while the server is away
	serve()
	for next() != "job-completed" {
	}
	equal(t, names, []string{"job-created", "job-queued", "job-assigned", "job-started", "job-completed"})
	equal(t, result[string](t, job), "kept")
	equal(t, runs.Load(), 1)
}

func TestAWorkflowHandsResultsOn(t *testing.T) {
	client := start(t)
	add := func(ctx context.Context, job *forgerun.Job) (any, error) {
		sum := 0
		if err := job.Bind(&sum); err != nil {
			return nil, err
		}
		for step := range job.Parents {
			result, err := forgerun.Parent[int](ctx, job, step)
			if err != nil {
				return nil, err
			}
			sum += result
		}
		return sum, nil
	}
	large := strings.Repeat("y", 100_000)
	work(t, client, handlers{
		"add":   add,
		"two":   func(context.Context, *forgerun.Job) (any, error) { return 2, nil },
		"large": func(context.Context, *forgerun.Job) (any, error) { return large, nil },
		"length": func(ctx context.Context, job *forgerun.Job) (any, error) {
			text, err := forgerun.Parent[string](ctx, job, "large")
			return len(text), err
		},
		"break": func(context.Context, *forgerun.Job) (any, error) { return nil, forgerun.Fatal(errors.New("broken")) },
	})
	ctx := within(t, time.Minute)
	run := func(workflow *forgerun.Workflow, last string, want forgerun.State) int {
		t.Helper()
		flow, err := client.SubmitWorkflow(ctx, workflow)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := flow.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		status, err := flow.Status(ctx)
		if err != nil || status.State != want {
			t.Fatalf("%+v %v", status, err)
		}
		job, err := flow.StepJob(ctx, last)
		if err != nil {
			t.Fatal(err)
		}
		return result[int](t, job)
	}
	one := forgerun.NewJob("add", 1)
	equal(t, run(forgerun.Chain(one, one, one), "2", forgerun.Succeeded), 3)
	equal(t, run(forgerun.Group(one, one).Named("two"), "1", forgerun.Succeeded), 1)
	graph := forgerun.NewWorkflow("sum").
		Step("a", forgerun.NewJob("add", 10)).
		Step("b", forgerun.NewJob("add", 20)).
		Step("c", one, forgerun.After("a", "b"))
	equal(t, run(graph, "c", forgerun.Succeeded), 31)
	long := forgerun.NewWorkflow("long").Step("large", forgerun.NewJob("large", nil)).Step("length", forgerun.NewJob("length", nil), forgerun.After("large"))
	equal(t, run(long, "length", forgerun.Succeeded), len(large))
	undone := forgerun.NewWorkflow("undone").OnFailure("compensate").
		Step("a", one, forgerun.Compensate(one)).
		Step("b", forgerun.NewJob("break", nil), forgerun.After("a")).
		Step("c", forgerun.NewJob("two", nil), forgerun.After("b"), forgerun.When("any_failed"))
	equal(t, run(undone, "c", forgerun.Failed), 2)
}

func TestASchedule(t *testing.T) {
	client := start(t)
	ctx := within(t, time.Minute)
	work(t, client, handlers{"report": forgerun.Typed(func(_ context.Context, of string) (string, error) { return "of " + of, nil })})
	schedule := forgerun.Schedule{Name: "nightly", Cron: "0 3 * * *", Timezone: "Europe/Berlin", Job: forgerun.NewJob("report", "yesterday"), Jitter: time.Second}
	for range 2 { // registering it again changes nothing
		status, err := client.PutSchedule(ctx, schedule)
		if err != nil || !status.Enabled || status.NextRunAt == nil {
			t.Fatal(status, err)
		}
	}
	if err := client.PauseSchedule(ctx, "nightly"); err != nil {
		t.Fatal(err)
	}
	if status, err := client.Schedule(ctx, "nightly"); err != nil || status.Enabled {
		t.Fatal(status, err)
	}
	if err := client.ResumeSchedule(ctx, "nightly"); err != nil {
		t.Fatal(err)
	}
	job, err := client.TriggerSchedule(ctx, "nightly")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, result[string](t, job), "of yesterday")
	if err := client.DeleteSchedule(ctx, "nightly"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Schedule(ctx, "nightly"); !forgerun.IsNotFound(err) {
		t.Fatal(err)
	}
	var validation *forgerun.ValidationError
	schedule.Cron = "0 25 * * *"
	if _, err := client.PutSchedule(ctx, schedule); !errors.As(err, &validation) || validation.Canonical != "INVALID_CRON_EXPRESSION" {
		t.Fatal(err)
	}
}

func TestALongSleepGivesTheJobBackAndCountsNoAttempt(t *testing.T) {
	client := start(t)
	var mu sync.Mutex
	var runs []int
	work(t, client, handlers{"nap": func(ctx context.Context, job *forgerun.Job) (any, error) {
		mu.Lock()
		runs = append(runs, job.Attempt)
		mu.Unlock()
		if err := forgerun.Sleep(ctx, "short", 20*time.Millisecond); err != nil {
			return nil, err
		}
		if err := forgerun.Sleep(ctx, "long", 2500*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wrapped: %w", err)
		}
		return "rested", nil
	}})
	equal(t, result[string](t, submit(t, client, "nap", nil)), "rested")
	equal(t, runs, []int{1, 1})
}

func TestRecordedStepsAreNotDoneAgain(t *testing.T) {
	client := start(t)
	var mu sync.Mutex
	var done []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		done = append(done, what)
	}
	work(t, client, handlers{"order": func(ctx context.Context, job *forgerun.Job) (any, error) {
		a, err := forgerun.Step(ctx, "a", func(context.Context) (int, error) { note("a"); return 1, nil })
		if err != nil {
			return nil, err
		}
		if job.Attempt == 1 {
			return nil, forgerun.RetryLater(time.Millisecond, errors.New("the process died here"))
		}
		b, err := forgerun.Step(ctx, "b", func(context.Context) (*int, error) { note("b"); return nil, nil })
		if err != nil {
			return nil, err
		}
		_, err = forgerun.Step(ctx, "b", func(context.Context) (*int, error) { note("b again"); return nil, nil })
		return []any{a, b}, err
	}})
	equal(t, result[[]any](t, submit(t, client, "order", nil)), []any{1.0, nil})
	equal(t, done, []string{"a", "b"})
}

func TestAThousandJobsAreEachDoneOnce(t *testing.T) {
	client := start(t)
	var mu sync.Mutex
	seen := map[string]int{}
	specs := make([]forgerun.JobSpec, 1500)
	for i := range specs {
		specs[i] = forgerun.NewJob("count", i, forgerun.Queue("many"), forgerun.Tags("x"))
	}
	jobs, err := client.SubmitMany(within(t, time.Minute), specs...)
	if err != nil || len(jobs) != len(specs) {
		t.Fatal(len(jobs), err)
	}
	done := make(chan struct{}, 2*len(jobs))
	stop := work(t, client, handlers{"c*t": func(_ context.Context, job *forgerun.Job) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[job.ID]++
		done <- struct{}{}
		return job.Input, nil
	}}, forgerun.Queues("none", "many"), forgerun.Concurrency(32))
	for i, job := range []*forgerun.Handle{jobs[0], jobs[999], jobs[1000], jobs[1499]} {
		equal(t, result[int](t, job), []int{0, 999, 1000, 1499}[i])
	}
	for all := 0; all < len(jobs); {
		select {
		case <-done:
			all++
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d jobs were done", all, len(jobs))
		}
	}
	stop()
	for i := 0; i < len(jobs); i += 100 {
		if status, err := jobs[i].Status(within(t, time.Minute)); err != nil || status.State != forgerun.Succeeded {
			t.Fatal(status, err)
		}
	}
	for _, job := range jobs {
		if seen[job.ID] != 1 {
			t.Fatalf("job %s was done %d times", job.ID, seen[job.ID])
		}
	}
}

func TestAWorkerThatStopsFinishesOrHandsBack(t *testing.T) {
	client := start(t)
	begun, leave := make(chan string, 4), make(chan struct{})
	var hung atomic.Int64
	stop := work(t, client, handlers{
		"finish": func(context.Context, *forgerun.Job) (any, error) {
			begun <- "finish"
			<-leave
			return "done", nil
		},
		"hang": func(ctx context.Context, _ *forgerun.Job) (any, error) {
			if hung.Add(1) > 1 {
				return "by another", nil
			}
			begun <- "hang"
			<-ctx.Done()
			close(leave)
			return nil, context.Cause(ctx)
		},
	}, forgerun.Drain(100*time.Millisecond), forgerun.Concurrency(2))
	finish, hang := submit(t, client, "finish", nil), submit(t, client, "hang", nil, forgerun.MaxRetries(0))
	<-begun
	<-begun
	stop()
	equal(t, result[string](t, finish), "done")
	status, err := hang.Status(within(t, time.Minute))
	if err != nil || status.State != forgerun.Queued {
		t.Fatalf("%+v %v", status, err)
	}
	work(t, client, handlers{"hang": func(context.Context, *forgerun.Job) (any, error) { return "by another", nil }})
	equal(t, result[string](t, hang), "by another")
	if status, err = hang.Status(within(t, time.Minute)); err != nil || status.Attempt != 1 {
		t.Fatalf("handing back counted an attempt: %+v %v", status, err)
	}
}

func TestAJobWithoutAHandlerIsLeftToAnotherWorker(t *testing.T) {
	client := start(t)
	stop := work(t, client, handlers{"known": func(context.Context, *forgerun.Job) (any, error) { return 1, nil }})
	unknown := submit(t, client, "unknown", nil)
	equal(t, result[int](t, submit(t, client, "known", nil)), 1)
	stop()
	work(t, client, handlers{"*": func(_ context.Context, job *forgerun.Job) (any, error) { return job.Attempt, nil }})
	equal(t, result[int](t, unknown), 1)
}

func TestARefusedWorkerEndsWithTheReason(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server")
	}
	server := forgeruntest.StartServer(t, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	worker := forgerun.NewWorker(server.Client(t), forgerun.WithoutSignals(), forgerun.Logger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	worker.Handle("*", func(context.Context, *forgerun.Job) (any, error) { return nil, nil })
	var auth *forgerun.AuthError
	if err := worker.Run(within(t, time.Minute)); !errors.As(err, &auth) {
		t.Fatal(err)
	}
}

func TestTheTraceGoesAlong(t *testing.T) {
	client := start(t)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	work(t, client, handlers{
		"outer": func(ctx context.Context, _ *forgerun.Job) (any, error) {
			inner, err := client.Submit(ctx, "inner", nil)
			if err != nil {
				return nil, err
			}
			return inner.ID, nil
		},
		"inner": func(_ context.Context, job *forgerun.Job) (any, error) { return job.Traceparent, nil },
	})
	outer, err := client.Submit(forgerun.WithTraceparent(within(t, time.Minute), trace), "outer", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := result[string](t, client.Job(result[string](t, outer)))
	if !strings.HasPrefix(got, trace[:36]) {
		t.Fatalf("%q does not continue %q", got, trace)
	}
}

func TestConstantsAreThoseOfTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server")
	}
	server := forgeruntest.DevServer(t)
	var api struct {
		Components struct {
			Schemas map[string]struct {
				Enum []string `json:"enum"`
			} `json:"schemas"`
		} `json:"components"`
	}
	fetch(t, server.URL+"/openapi.json", &api)
	states := []string{}
	for _, state := range []forgerun.State{
		forgerun.Created, forgerun.Queued, forgerun.Assigned, forgerun.Running, forgerun.Succeeded, forgerun.Failed, forgerun.Canceled,
	} {
		states = append(states, string(state))
	}
	equal(t, states, api.Components.Schemas["State"].Enum)

	var codes struct {
		Errors []struct {
			Code      string `json:"code"`
			Category  string `json:"category"`
			Retryable bool   `json:"retryable"`
		} `json:"errors"`
	}
	fetch(t, server.URL+"/ojs/errors", &codes)
	classes, retryable := forgerun.CodesForTest()
	n := 0
	for _, code := range codes.Errors {
		if code.Category == "" || code.Category == "custom" {
			continue
		}
		n++
		if !strings.EqualFold(strings.TrimSuffix(string(classes[code.Code]), "Error"), code.Category) || retryable[code.Code] != code.Retryable {
			t.Errorf("%s is %s and retryable %v, not %s and %v", code.Code, code.Category, code.Retryable, classes[code.Code], retryable[code.Code])
		}
	}
	if n != len(classes) {
		t.Errorf("the server knows %d codes, the SDK %d", n, len(classes))
	}
}

func fetch(t *testing.T, url string, into any) {
	t.Helper()
	request, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil || answer.StatusCode != 200 {
		t.Fatalf("%s: %d %v", url, answer.StatusCode, err)
	}
}

func TestOwnCodesAreThoseOfTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server")
	}
	server := forgeruntest.DevServer(t)
	var catalogue struct {
		Problems []struct {
			Codes []struct {
				Own       string `json:"rfa_code"`
				Canonical string `json:"ojs_code"`
			} `json:"codes"`
		} `json:"problems"`
	}
	fetch(t, server.URL+"/problems", &catalogue)
	known := map[string][]string{}
	classes, _ := forgerun.CodesForTest()
	for _, problem := range catalogue.Problems {
		for _, code := range problem.Codes {
			if _, canonical := classes[code.Canonical]; canonical {
				known[code.Own] = append(known[code.Own], code.Canonical)
			}
		}
	}
	own := forgerun.OwnCodesForTest()
	if len(known) == 0 || len(known) != len(own) {
		t.Errorf("the server has %d codes, the SDK %d", len(known), len(own))
	}
	for code, canonical := range own {
		if !slices.Contains(known[code], canonical) {
			t.Errorf("%s leads to %v, not to %s", code, known[code], canonical)
		}
	}
}

func TestJobsThatComeOverHTTP(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server")
	}
	server := forgeruntest.DevServer(t)
	client := server.Client(t)
	const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	worker := forgerun.NewWorker(client)
	worker.Handle("greet", forgerun.Typed(func(ctx context.Context, name string) (string, error) {
		return "hello " + name, forgerun.JobFrom(ctx).Progress(ctx, 50, "")
	}))
	worker.Handle("fail", func(context.Context, *forgerun.Job) (any, error) { return nil, forgerun.Fatal(errors.New("no paper")) })
	worker.Handle("later", func(_ context.Context, job *forgerun.Job) (any, error) {
		if job.Attempt == 1 {
			return nil, forgerun.RetryLater(time.Millisecond, nil)
		}
		return []byte("raw"), nil
	})
	handler := worker.HTTPHandler(secret, false)
	listening := httptest.NewServer(handler)
	t.Cleanup(listening.Close)
	bin := os.Getenv("FORGERUN_BIN")
	if bin == "" {
		bin = "forgerun"
	}
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, bin, "worker", "http", "--url", listening.URL, "--server", server.URL, "--queue", "default", "--secret", secret)
	command.Env = append(os.Environ(), "FORGERUN_URL="+server.URL)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = command.Wait() })
	equal(t, result[string](t, submit(t, client, "greet", "Ada")), "hello Ada")
	var failed *forgerun.JobFailed
	if _, err := forgerun.Result[any](within(t, time.Minute), submit(t, client, "fail", nil)); !errors.As(err, &failed) || failed.Message != "no paper" {
		t.Fatal(err)
	}
	equal(t, string(result[[]byte](t, submit(t, client, "later", nil))), "raw")

	unsigned := httptest.NewRecorder()
	handler.ServeHTTP(unsigned, httptest.NewRequest("POST", "/", strings.NewReader(`"Ada"`)))
	equal(t, unsigned.Code, 401)
	enveloped := httptest.NewRecorder()
	request := httptest.NewRequest("POST", "/", strings.NewReader(`{"job":{},"input":"Ada","parents":{}}`))
	request.Header.Set("Forgerun-Job-Type", "greet")
	worker.HTTPHandler("", true).ServeHTTP(enveloped, request)
	equal(t, enveloped.Body.String(), `"hello Ada"`)
	request.Header.Set("Forgerun-Job-Type", "nobody")
	unknown := httptest.NewRecorder()
	worker.HTTPHandler("", false).ServeHTTP(unknown, request)
	equal(t, []any{unknown.Code, unknown.Header().Get("Retry-After")}, []any{503, "5"})
}

func TestWebhooksOfTheServerHold(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server")
	}
	server := forgeruntest.DevServer(t)
	client := server.Client(t)
	arrived := make(chan error, 8)
	var secret webhooks.Secret
	var hookURL string
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer, err := http.Get(server.URL + "/.well-known/forgerun/webhook-keys")
		if err != nil {
			arrived <- err
			return
		}
		defer answer.Body.Close()
		set, _ := io.ReadAll(answer.Body)
		keys, err := webhooks.ReadKeys(set)
		delivery := webhooks.Delivery{Body: body, Header: r.Header, Method: r.Method, URL: hookURL}
		arrived <- errors.Join(err, webhooks.Verify(delivery, secret), webhooks.Verify(delivery, keys))
	}))
	t.Cleanup(listening.Close)
	hookURL = listening.URL + "/hook"
	answer, err := http.Post(server.URL+"/v1/webhooks", "application/json", strings.NewReader(fmt.Sprintf(`{"url":%q,"events":["job_created"]}`, hookURL)))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var made struct{ Secret webhooks.Secret }
	if err := json.NewDecoder(answer.Body).Decode(&made); err != nil || made.Secret == "" {
		t.Fatal(answer.Status, err)
	}
	secret = made.Secret
	submit(t, client, "hooked", nil)
	select {
	case err := <-arrived:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("no webhook arrived")
	}
}
