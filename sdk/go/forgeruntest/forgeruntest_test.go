package forgeruntest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	forgerun "github.com/forgerun/forgerun/sdk/go"
	"github.com/forgerun/forgerun/sdk/go/forgeruntest"
)

// order is code under test: it only submits.
func order(ctx context.Context, jobs forgerun.Submitter, id int) error {
	_, err := jobs.Submit(ctx, "order.charge", id, forgerun.Queue("orders"), forgerun.Tags("a"), forgerun.Delay(time.Hour))
	return err
}

func TestAFakeRecordsWhatIsSubmitted(t *testing.T) {
	fake := forgeruntest.NewFake()
	fake.AssertNothingSubmitted(t)
	if err := order(context.Background(), fake, 17); err != nil {
		t.Fatal(err)
	}
	if _, err := fake.SubmitMany(context.Background(), forgerun.NewJob("mail", []int{1, 2}), forgerun.NewJob("mail", nil, forgerun.MaxRetries(7))); err != nil {
		t.Fatal(err)
	}
	charged := fake.AssertSubmitted(t, "order.charge", func(s forgeruntest.Submission) bool { return s.Queue == "orders" })
	var id int
	if err := charged.Bind(&id); err != nil || id != 17 || charged.Tags[0] != "a" || time.Until(charged.NotBefore) < 59*time.Minute {
		t.Fatalf("%+v %v", charged, err)
	}
	mails := fake.Submitted("mail")
	if len(mails) != 2 || string(mails[0].Input) != "[1,2]" || mails[1].MaxRetries != 7 || mails[0].MaxRetries != 3 {
		t.Fatalf("%+v", mails)
	}
	fake.AssertNothingSubmitted(t, "other")
}

// failing notes what an assertion says instead of ending the test.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}
func (f *failing) Fatalf(format string, values ...any) {
	f.said = fmt.Sprintf(format, values...)
	panic(f)
}

func says(t *testing.T, want string, assert func(testing.TB)) {
	t.Helper()
	f := &failing{TB: t}
	defer func() {
		if value := recover(); value != nil && value != f {
			panic(value)
		}
		if !strings.Contains(f.said, want) {
			t.Errorf("it said %q, not %q", f.said, want)
		}
	}()
	assert(f)
}

func TestAssertionsFailWithWhatWasSubmitted(t *testing.T) {
	fake := forgeruntest.NewFake()
	says(t, "0 jobs of type a fit", func(tb testing.TB) { fake.AssertSubmitted(tb, "a") })
	for range 2 {
		if _, err := fake.Submit(context.Background(), "a", "x"); err != nil {
			t.Fatal(err)
		}
	}
	says(t, `submitted were [a "x", a "x"]`, func(tb testing.TB) { fake.AssertSubmitted(tb, "a") })
	says(t, "jobs were submitted", func(tb testing.TB) { fake.AssertNothingSubmitted(tb, "a") })
	says(t, "no job nobody", func(tb testing.TB) { fake.Succeed(tb, "nobody", 1) })
}

func TestHandlesOfAFakeEndAsTheTestSays(t *testing.T) {
	fake, ctx := forgeruntest.NewFake(), context.Background()
	job, err := fake.Submit(ctx, "a", nil, forgerun.UniqueKey("u"))
	if err != nil {
		t.Fatal(err)
	}
	var conflict *forgerun.ConflictError
	if _, err := fake.Submit(ctx, "a", nil, forgerun.UniqueKey("u")); !errors.As(err, &conflict) {
		t.Fatal(err)
	}
	got := make(chan int)
	go func() {
		value, err := forgerun.Result[int](ctx, job)
		if err != nil {
			value = -1
		}
		got <- value
	}()
	fake.Succeed(t, job.ID, 42)
	if value := <-got; value != 42 {
		t.Fatal(value)
	}
	failed, _ := fake.Submit(ctx, "a", nil)
	fake.Fail(t, failed.ID, "no paper")
	var jobFailed *forgerun.JobFailed
	if _, err := forgerun.Result[any](ctx, failed); !errors.As(err, &jobFailed) || jobFailed.Message != "no paper" {
		t.Fatal(err)
	}
	if err := failed.Retry(ctx); err != nil {
		t.Fatal(err)
	}
	if err := failed.Cancel(ctx); err != nil {
		t.Fatal(err)
	}
	var cancelled *forgerun.JobCancelled
	if _, err := forgerun.Result[any](ctx, failed); !errors.As(err, &cancelled) {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	waiting, _ := fake.Submit(ctx, "a", nil)
	if _, err := waiting.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if _, err := fake.Job("nobody").Status(ctx); !forgerun.IsNotFound(err) {
		t.Fatal(err)
	}
	if err := fake.DeleteSchedule(ctx, "nightly"); err == nil || !strings.Contains(err.Error(), "DevServer") {
		t.Fatal(err)
	}
}

func TestAFakeKnowsSignalsPausesAndLogs(t *testing.T) {
	fake, ctx := forgeruntest.NewFake(), context.Background()
	flow, err := fake.SubmitWorkflow(ctx, forgerun.Chain(forgerun.WaitSignal("approved", time.Hour)))
	if err != nil || len(fake.Workflows()) != 1 {
		t.Fatal(err, fake.Workflows())
	}
	if err := errors.Join(fake.Client.Signal(ctx, flow.ID, "approved", true), flow.Pause(ctx), flow.Resume(ctx)); err != nil {
		t.Fatal(err)
	}
	if sent := fake.Signals(); len(sent) != 1 || sent[0].Name != "approved" || string(sent[0].Payload) != "true" {
		t.Fatal(sent)
	}
	if err := fake.Client.Signal(ctx, "other", "approved", true); !forgerun.IsNotFound(err) {
		t.Fatal(err)
	}
	job, _ := fake.Submit(ctx, "mail", nil)
	if err := job.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	if status, err := job.Status(ctx); err != nil || !status.Paused {
		t.Fatal(status, err)
	}
	fake.Log(t, job.ID, forgerun.LogLine{Stream: "log", Text: "a"})
	fake.Log(t, job.ID, forgerun.LogLine{Stream: "output", Text: "b"})
	for _, lines := range []*forgerun.LogStream{job.Logs(ctx).After(1), job.Logs(ctx).Stream("output").Follow()} {
		if line, err := lines.Next(); err != nil || line.Text != "b" || line.Seq != 2 {
			t.Fatal(line, err)
		}
		if _, err := lines.Next(); err != io.EOF {
			t.Fatal(err)
		}
	}
	fake.Succeed(t, job.ID, 1)
	if job.Pause(ctx) == nil {
		t.Fatal("a job that has ended was paused")
	}
}

func TestAHandlerRunsInline(t *testing.T) {
	ctx := context.Background()
	run := forgeruntest.RunInline(ctx, t, func(ctx context.Context, job *forgerun.Job) (any, error) {
		n, err := forgerun.Parent[int](ctx, job, "before")
		if err != nil {
			return nil, err
		}
		old, err := forgerun.Step(ctx, "old", func(context.Context) (int, error) { return 0, errors.New("it was done before") })
		if err != nil {
			return nil, err
		}
		added, err := forgerun.Step(ctx, "new", func(context.Context) (int, error) { return n + 1, nil })
		if err != nil {
			return nil, err
		}
		return []any{job.Type, job.Attempt, job.Tags, old + added}, job.Progress(ctx, 50, "half of it")
	}, nil, forgeruntest.JobType("add"), forgeruntest.Attempt(2), forgeruntest.Tags("x"), forgeruntest.Parent("before", 3),
		forgeruntest.RecordedStep("old", 10))
	if string(run.Result) != `["add",2,["x"],14]` || run.Progress[0] != (forgeruntest.Progress{Percent: 50, Message: "half of it"}) {
		t.Fatalf("%s %+v %+v", run.Result, run.Progress, run.Failure)
	}
	if string(run.Steps["new"]) != "4" || len(run.Steps) != 2 {
		t.Fatalf("%s", run.Steps)
	}

	var greeting string
	forgeruntest.RunInline(ctx, t, forgerun.Typed(func(_ context.Context, name string) (string, error) { return "hello " + name, nil }), "Ada").Bind(t, &greeting)
	if greeting != "hello Ada" {
		t.Fatal(greeting)
	}

	upload := forgeruntest.RunInline(ctx, t, func(context.Context, *forgerun.Job) (any, error) {
		return forgerun.Content{Type: "text/plain", Body: io.LimitReader(strings.NewReader("hello"), 4)}, nil
	}, nil)
	if string(upload.Upload) != "hell" || upload.UploadType != "text/plain" || upload.Failure != nil || upload.Result != nil {
		t.Fatalf("%+v", upload)
	}

	for want, err := range map[string]error{
		"later 3s": forgerun.RetryLater(3*time.Second, errors.New("later")),
		"never 0s": forgerun.Fatal(errors.New("never")),
		"plain 0s": errors.New("plain"),
	} {
		failed := forgeruntest.RunInline(ctx, t, func(context.Context, *forgerun.Job) (any, error) { return nil, err }, nil)
		if got := fmt.Sprint(failed.Failure.Message, " ", failed.RetryAfter); got != want {
			t.Errorf("%q is not %q", got, want)
		}
		if retryable := failed.Failure.Retryable; (retryable == nil) != (want == "plain 0s") || (retryable != nil && *retryable != (want == "later 3s")) {
			t.Errorf("%s: retryable is %v", want, retryable)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	stopped := forgeruntest.RunInline(cancelled, t, func(ctx context.Context, _ *forgerun.Job) (any, error) { return nil, ctx.Err() }, nil)
	if stopped.Failure == nil || stopped.Failure.Message != "context canceled" {
		t.Fatalf("%+v", stopped.Failure)
	}
	panicked := forgeruntest.RunInline(ctx, t, func(context.Context, *forgerun.Job) (any, error) { panic("oh") }, nil)
	if panicked.Failure.Code != "panic" || !strings.Contains(panicked.Failure.Message, "oh") {
		t.Fatalf("%+v", panicked.Failure)
	}
	says(t, "the handler failed: ", func(tb testing.TB) { panicked.Bind(tb, &greeting) })
}

func TestLogsAndSleepsOfAHandlerAreRecordedAndNothingWaits(t *testing.T) {
	run := forgeruntest.RunInline(context.Background(), t, func(ctx context.Context, job *forgerun.Job) (any, error) {
		job.LogLine(forgerun.LogLine{Level: "debug", Text: "begins"})
		if err := forgerun.Sleep(ctx, "night", 8*time.Hour); err != nil {
			return nil, err
		}
		job.Log("ends")
		return nil, nil
	}, nil)
	if run.Failure != nil || len(run.Slept) != 1 || run.Slept[0].Round(time.Hour) != 8*time.Hour || run.Steps["sleep:night"] == nil {
		t.Fatalf("%+v", run)
	}
	var lines []string
	for _, line := range run.Logs {
		lines = append(lines, line.Level+" "+line.Stream+" "+line.Text)
	}
	if got := strings.Join(lines, ", "); got != "debug log begins, info log ends" {
		t.Fatal(got)
	}
}
