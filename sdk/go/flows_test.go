package forgerun_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	forgerun "github.com/forgerun/forgerun/sdk/go"
	"github.com/forgerun/forgerun/sdk/go/forgeruntest"
)

func linesOf(t *testing.T, stream *forgerun.LogStream) []forgerun.StoredLine {
	t.Helper()
	var lines []forgerun.StoredLine
	stream.All()(func(line forgerun.StoredLine, err error) bool {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
		return true
	})
	return lines
}

func wait(t *testing.T, job *forgerun.Handle) {
	t.Helper()
	if _, err := job.Wait(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
}

func TestEveryLineArrivesInItsOrderHoweverManyAndLong(t *testing.T) {
	client := start(t)
	long := "x" + strings.Repeat("😀", 10_000)
	work(t, client, handlers{"say": func(_ context.Context, job *forgerun.Job) (any, error) {
		for k := 0; k < 3000; k++ {
			job.Log(fmt.Sprint("line ", k))
		}
		job.LogLine(forgerun.LogLine{Level: "warn", Stream: "output", Text: long})
		job.Log("")
		job.LogLine(forgerun.LogLine{Level: "no level", Stream: "no stream", Text: "\xff"})
		return nil, nil
	}})
	job := submit(t, client, "say", nil)
	wait(t, job)
	lines := linesOf(t, job.Logs(within(t, time.Minute)))
	whole := ""
	for n, line := range lines {
		equal(t, line.Seq, uint64(n+1))
		switch {
		case n < 3000:
			equal(t, line.Text, fmt.Sprint("line ", n))
		case line.Stream == "output":
			if len(line.Text) > 16<<10 || line.Level != "warn" {
				t.Fatal(len(line.Text), line.Level)
			}
			whole += line.Text
		}
	}
	equal(t, whole, long)
	equal(t, len(lines), 3005)
	last := lines[3004]
	equal(t, []string{lines[3003].Text, last.Text, last.Level, last.Stream}, []string{"", "\uFFFD", "info", "log"})
}

func TestLogsAreReadByStreamAttemptAndPlace(t *testing.T) {
	client := start(t)
	work(t, client, handlers{"twice": func(_ context.Context, job *forgerun.Job) (any, error) {
		job.Log(fmt.Sprint("try ", job.Attempt))
		job.LogLine(forgerun.LogLine{Stream: "output", Text: "token"})
		if job.Attempt == 1 {
			return nil, forgerun.RetryLater(time.Millisecond, nil)
		}
		return nil, nil
	}})
	job := submit(t, client, "twice", nil)
	wait(t, job)
	ctx := within(t, time.Minute)
	cases := []struct {
		of   func() *forgerun.LogStream
		want []string
	}{
		{func() *forgerun.LogStream { return job.Logs(ctx) }, []string{"1 1 try 1", "2 1 token", "3 2 try 2", "4 2 token"}},
		{func() *forgerun.LogStream { return job.Logs(ctx).Stream("output") }, []string{"2 1 token", "4 2 token"}},
		{func() *forgerun.LogStream { return job.Logs(ctx).Attempt(2) }, []string{"3 2 try 2", "4 2 token"}},
		{func() *forgerun.LogStream { return job.Logs(ctx).After(3) }, []string{"4 2 token"}},
		{func() *forgerun.LogStream { return job.Logs(ctx).After(4) }, []string{}},
	}
	for _, one := range cases {
		for _, stream := range []*forgerun.LogStream{one.of(), one.of().Follow()} {
			texts := []string{}
			for _, line := range linesOf(t, stream) {
				texts = append(texts, fmt.Sprint(line.Seq, " ", line.Attempt, " ", line.Text))
			}
			equal(t, texts, one.want)
		}
	}
	if _, err := client.Job("01890a5d-ac96-7001-bcce-b302099a8057").Logs(ctx).Next(); !forgerun.IsNotFound(err) {
		t.Fatal(err)
	}
}

// breaking ends the first stream of log lines after its first event, like a server that stops.
type breaking struct {
	mu    sync.Mutex
	asked []string
}

func (b *breaking) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/logs") {
		return answer, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asked = append(b.asked, r.Header.Get("Last-Event-Id")); len(b.asked) > 1 {
		return answer, nil
	}
	defer answer.Body.Close()
	var seen bytes.Buffer
	one := make([]byte, 1)
	for !strings.Contains(seen.String(), "data:") || !strings.HasSuffix(seen.String(), "\n\n") {
		if _, err := answer.Body.Read(one); err != nil {
			return nil, err
		}
		seen.Write(one)
	}
	answer.Body = io.NopCloser(&seen)
	return answer, nil
}

func TestLogsAreFollowedWhileTheJobRunsAndGoOnAfterABreak(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server")
	}
	server := forgeruntest.DevServer(t)
	client := server.Client(t)
	carry := make(chan struct{})
	work(t, client, handlers{"slow": func(_ context.Context, job *forgerun.Job) (any, error) {
		job.Log("before")
		<-carry
		job.Log("after")
		return nil, nil
	}})
	broken := &breaking{}
	follower, err := forgerun.New(forgerun.URL(server.URL), forgerun.HTTPClient(&http.Client{Transport: broken}))
	if err != nil {
		t.Fatal(err)
	}
	lines := follower.Job(submit(t, client, "slow", nil).ID).Logs(within(t, time.Minute)).Follow()
	defer lines.Close()
	line, err := lines.Next()
	close(carry)
	if err != nil || line.Text != "before" {
		t.Fatal(line, err)
	}
	if line, err = lines.Next(); err != nil || line.Text != "after" {
		t.Fatal(line, err)
	}
	if _, err := lines.Next(); err != io.EOF {
		t.Fatal(err)
	}
	equal(t, broken.asked, []string{"", "1"})
}

func TestWhatIsPausedWaitsUntilItIsResumed(t *testing.T) {
	client, ctx := start(t), within(t, time.Minute)
	job := submit(t, client, "echo", 1)
	flow, err := client.SubmitWorkflow(ctx, forgerun.Chain(forgerun.NewJob("echo", 1), forgerun.NewJob("echo", 2)))
	if err := errors.Join(err, job.Pause(ctx), flow.Pause(ctx)); err != nil {
		t.Fatal(err)
	}
	work(t, client, handlers{"echo": func(_ context.Context, job *forgerun.Job) (any, error) { return job.Input, nil }})
	equal(t, result[int](t, submit(t, client, "echo", 2)), 2)
	status, err := job.Status(ctx)
	if err != nil || !status.Paused || status.State != forgerun.Queued {
		t.Fatal(status, err)
	}
	if status, err := flow.Status(ctx); err != nil || !status.Paused || status.Steps[0].State != forgerun.Queued {
		t.Fatal(status, err)
	}
	if err := errors.Join(job.Resume(ctx), flow.Resume(ctx)); err != nil {
		t.Fatal(err)
	}
	equal(t, result[int](t, job), 1)
	wait(t, flow.Handle)
	var refused *forgerun.ValidationError
	if err := job.Pause(ctx); !errors.As(err, &refused) {
		t.Fatal(err)
	}
}

// parents returns the results of all parents.
func parents(ctx context.Context, job *forgerun.Job) (any, error) {
	all := map[string]any{}
	for step := range job.Parents {
		value, err := forgerun.Parent[any](ctx, job, step)
		if err != nil {
			return nil, err
		}
		all[step] = value
	}
	return all, nil
}

// lastResult is the result of a step of a workflow that succeeds.
func lastResult(t *testing.T, flow *forgerun.WorkflowHandle, step string) any {
	t.Helper()
	wait(t, flow.Handle)
	ctx := within(t, time.Minute)
	status, err := flow.Status(ctx)
	if err != nil || status.State != forgerun.Succeeded {
		t.Fatalf("%+v %v", status, err)
	}
	job, err := flow.StepJob(ctx, step)
	if err != nil {
		t.Fatal(err)
	}
	return result[any](t, job)
}

func begin(t *testing.T, client *forgerun.Client, workflow *forgerun.Workflow) *forgerun.WorkflowHandle {
	t.Helper()
	flow, err := client.SubmitWorkflow(within(t, time.Minute), workflow)
	if err != nil {
		t.Fatal(err)
	}
	return flow
}

func TestASignalEndsAWaitAndIsItsResult(t *testing.T) {
	client, ctx := start(t), within(t, time.Minute)
	work(t, client, handlers{"parents": parents})
	type answer struct {
		OK any `json:"ok"`
	}
	schema := map[string]any{"type": "object", "required": []string{"ok"}, "properties": map[string]any{"ok": map[string]any{"type": "boolean"}}}
	flow := begin(t, client, forgerun.NewWorkflow("order").Deadline(7*24*time.Hour).
		Step("approval", forgerun.WaitSignal("approved", 24*time.Hour).Schema(schema)).
		Step("cool-off", forgerun.WaitFor(50*time.Millisecond), forgerun.After("approval")).
		Step("late", forgerun.WaitUntil(time.Now().Add(50*time.Millisecond))).
		Step("ship", forgerun.NewJob("parents", nil), forgerun.After("approval", "cool-off")))
	status, err := flow.Status(ctx)
	if err != nil || status.Deadline == nil || status.Steps[0].Wait == nil || status.Steps[0].Wait.URL == "" {
		t.Fatalf("%+v %v", status, err)
	}
	var invalid *forgerun.ValidationError
	if err := flow.Signal(ctx, "approved", answer{"maybe"}); !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	if err := flow.Signal(ctx, "denied", true); !forgerun.IsNotFound(err) {
		t.Fatal(err)
	}
	if err := errors.Join(client.Signal(ctx, flow.ID, "approved", answer{true}), flow.Signal(ctx, "approved", answer{true})); err != nil {
		t.Fatal(err)
	}
	var conflict *forgerun.ConflictError
	if err := flow.Signal(ctx, "approved", answer{false}); !errors.As(err, &conflict) {
		t.Fatal(err)
	}
	equal[any](t, lastResult(t, flow, "ship"), map[string]any{"approval": answer{true}, "cool-off": nil})
	late := begin(t, client, forgerun.Chain(forgerun.WaitSignal("never", time.Minute)).Deadline(50*time.Millisecond))
	wait(t, late.Handle)
	if status, err := late.Status(ctx); err != nil || status.State != forgerun.Failed {
		t.Fatal(status, err)
	}
}

func TestEachElementOfAListHasAJobAndAWorkflowIsAStep(t *testing.T) {
	client := start(t)
	large := strings.Repeat("y", 100_000)
	work(t, client, handlers{
		"parents": parents,
		"echo":    func(_ context.Context, job *forgerun.Job) (any, error) { return job.Input, nil },
		"large":   func(context.Context, *forgerun.Job) (any, error) { return large, nil },
		"lengths": func(ctx context.Context, job *forgerun.Job) (any, error) {
			one, err := forgerun.Parent[string](ctx, job, "large")
			if err != nil {
				return nil, err
			}
			each, err := forgerun.Parent[[]string](ctx, job, "each")
			total := 0
			for _, text := range each {
				total += len(text)
			}
			return []int{len(one), len(each), total}, err
		},
	})
	images := []int{10, 11, 12, 13, 14}
	each := func(args ...any) forgerun.Each {
		return forgerun.Each{Over: "list", Pointer: "/images", Args: args, Parallel: 2}
	}
	inner := forgerun.NewWorkflow("inner").Step("a", forgerun.NewJob("echo", 1)).Step("b", forgerun.NewJob("echo", 2), forgerun.After("a"))
	flow := begin(t, client, forgerun.NewWorkflow("album").
		Step("list", forgerun.NewJob("echo", map[string]any{"images": images})).
		Step("both", forgerun.ForEach("echo", each("$item", "$index"))).
		Step("one", forgerun.ForEach("echo", each())).
		Step("in", forgerun.Nested(inner)).
		Step("report", forgerun.NewJob("parents", nil), forgerun.After("both", "one", "in")).
		Step("large", forgerun.NewJob("large", nil)).
		Step("each", forgerun.ForEach("large", each())).
		Step("lengths", forgerun.NewJob("lengths", nil), forgerun.After("large", "each")))
	equal[any](t, lastResult(t, flow, "report"), map[string]any{
		"both": [][]int{{10, 0}, {11, 1}, {12, 2}, {13, 3}, {14, 4}}, "one": images, "in": map[string]int{"a": 1, "b": 2},
	})
	equal[any](t, lastResult(t, flow, "lengths"), []int{100_000, 5, 500_000})
	status, err := flow.Status(within(t, time.Minute))
	if err != nil || status.Steps[1].Elements == nil || status.Steps[1].Elements.Succeeded != 5 {
		t.Fatal(status, err)
	}
}

// taken remembers the lease tokens of jobs, which handlers are not shown.
type taken struct{ tokens sync.Map }

func (k *taken) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || !strings.HasPrefix(r.URL.Path, "/ojs/v1/workers/") {
		return answer, err
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	answer.Body = io.NopCloser(bytes.NewReader(body))
	var jobs struct {
		Jobs []struct {
			ID    string `json:"id"`
			Token string `json:"lease_token"`
		} `json:"jobs"`
	}
	_ = json.Unmarshal(body, &jobs)
	for _, job := range jobs.Jobs {
		k.tokens.Store(job.ID, job.Token)
	}
	return answer, err
}

func TestTheFirstResultOfAStepCountsAndWhatWasSavedAsAWholeIsStillRead(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server")
	}
	server, held := forgeruntest.DevServer(t), &taken{}
	client, err := forgerun.New(forgerun.URL(server.URL), forgerun.HTTPClient(&http.Client{Transport: held}))
	if err != nil {
		t.Fatal(err)
	}
	put := func(job *forgerun.Job, path, body string) error {
		request, _ := http.NewRequest(http.MethodPut, server.URL+path, strings.NewReader(body))
		token, _ := held.tokens.Load(job.ID)
		request.Header.Set("Lease-Token", token.(string))
		request.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode > 201 {
			return fmt.Errorf("%s: status %d", path, answer.StatusCode)
		}
		return nil
	}
	step := func(ctx context.Context, name, text string) string {
		value, err := forgerun.Step(ctx, name, func(context.Context) (string, error) { return text, nil })
		if err != nil {
			return err.Error()
		}
		return value
	}
	work(t, client, handlers{
		"raced": func(ctx context.Context, job *forgerun.Job) (any, error) {
			first, err := forgerun.Step(ctx, "charge/1", func(context.Context) (string, error) {
				// Another worker records the step just before this one.
				return "second", put(job, "/ojs/v1/jobs/"+job.ID+"/checkpoint/charge%2F1", `{"result": "first"}`)
			})
			return []string{first, step(ctx, "charge/1", "third")}, err
		},
		"old": func(ctx context.Context, job *forgerun.Job) (any, error) {
			if job.Attempt == 1 {
				err := put(job, "/ojs/v1/checkpoints/"+job.ID, `{"state": {"a": "old", "b": "old"}}`)
				return nil, forgerun.RetryLater(time.Millisecond, err)
			}
			return []string{step(ctx, "a", "new"), step(ctx, "b", "new"), step(ctx, "c", "new")}, nil
		},
		"large": func(ctx context.Context, job *forgerun.Job) (any, error) {
			total := 0
			for _, name := range []string{"a", "b", "c"} {
				total += len(step(ctx, name, strings.Repeat("x", 200_000)))
			}
			if job.Attempt == 1 {
				return nil, forgerun.RetryLater(time.Millisecond, nil)
			}
			return total, nil
		},
	})
	equal(t, result[[]string](t, submit(t, client, "raced", nil)), []string{"first", "first"})
	equal(t, result[[]string](t, submit(t, client, "old", nil)), []string{"old", "old", "new"})
	equal(t, result[int](t, submit(t, client, "large", nil)), 600_000)
}

// old is a server that knows no single steps.
type old struct{}

func (old) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/resume") {
		return answer, err
	}
	defer answer.Body.Close()
	var body map[string]any
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		return nil, err
	}
	delete(body, "steps")
	encoded, err := json.Marshal(body)
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(encoded)), int64(len(encoded))
	return answer, err
}

func TestAServerThatKnowsNoSingleStepsKeepsThemAsAWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server")
	}
	server := forgeruntest.DevServer(t)
	client, err := forgerun.New(forgerun.URL(server.URL), forgerun.HTTPClient(&http.Client{Transport: old{}}))
	if err != nil {
		t.Fatal(err)
	}
	work(t, client, handlers{"twice": func(ctx context.Context, job *forgerun.Job) (any, error) {
		found := map[string]string{}
		for _, name := range []string{"a", "b"} {
			value, err := forgerun.Step(ctx, name, func(context.Context) (string, error) { return fmt.Sprint(name, " ", job.Attempt), nil })
			if err != nil {
				return nil, err
			}
			found[name] = value
		}
		if job.Attempt > 1 {
			return found, nil
		}
		answer, err := http.Get(server.URL + "/ojs/v1/checkpoints/" + job.ID + "/resume")
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		var saved struct{ State, Steps map[string]string }
		if err := json.NewDecoder(answer.Body).Decode(&saved); err != nil || len(saved.State) != 2 || len(saved.Steps) != 0 {
			return nil, forgerun.Fatal(fmt.Errorf("%v %v", saved, err))
		}
		return nil, forgerun.RetryLater(time.Millisecond, nil)
	}})
	equal(t, result[map[string]string](t, submit(t, client, "twice", nil)), map[string]string{"a": "a 1", "b": "b 1"})
}
