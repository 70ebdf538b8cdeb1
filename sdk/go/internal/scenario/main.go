// Scenario lets the scenario suite drive this SDK: one JSON object per line on standard input, one per line on standard output.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"time"

	forgerun "github.com/forgerun/forgerun/sdk/go"
)

const lineBytesMax = 16 << 20

type request struct {
	ID         json.RawMessage `json:"id"`
	Do         string          `json:"do"`
	JobID      string          `json:"job_id"`
	WorkflowID string          `json:"workflow_id"`
	TimeoutMS  int64           `json:"timeout_ms"`
	Name       string          `json:"name"`
	Cron       string          `json:"cron"`
	Jobs       []spec          `json:"jobs"`
	Steps      []spec          `json:"steps"`
	Chain      []spec          `json:"chain"`
	Queues     []string        `json:"queues"`
	Concurrent int             `json:"concurrency"`
	LeaseMS    int64           `json:"lease_ms"`
	Payload    json.RawMessage `json:"payload"`
	Follow     bool            `json:"follow"`
	spec
}

type spec struct {
	Wait *struct {
		Signal  string `json:"signal"`
		Timeout string `json:"timeout"`
	} `json:"wait"`
	ForEach *struct {
		Over     string `json:"over"`
		Pointer  string `json:"pointer"`
		Parallel int    `json:"parallel"`
	} `json:"for_each"`
	StepID    string          `json:"id"`
	DependsOn []string        `json:"depends_on"`
	Type      string          `json:"type"`
	Args      json.RawMessage `json:"args"`
	Queue     string          `json:"queue"`
	Options   struct {
		MaxRetries     *int     `json:"max_retries"`
		Priority       int      `json:"priority"`
		DelayMS        int64    `json:"delay_ms"`
		Timeout        string   `json:"timeout"`
		TimeoutMS      int64    `json:"timeout_ms"`
		Deadline       string   `json:"deadline"`
		Tags           []string `json:"tags"`
		UniqueKey      string   `json:"unique_key"`
		IdempotencyKey string   `json:"idempotency_key"`
	} `json:"options"`
}

func (s spec) job() (forgerun.JobSpec, error) {
	o := s.Options
	options := []forgerun.JobOption{forgerun.Queue(s.Queue), forgerun.Priority(o.Priority), forgerun.Delay(ms(o.DelayMS)), forgerun.Tags(o.Tags...)}
	if o.MaxRetries != nil {
		options = append(options, forgerun.MaxRetries(*o.MaxRetries))
	}
	if o.TimeoutMS > 0 {
		options = append(options, forgerun.Timeout(ms(o.TimeoutMS)))
	}
	if o.Timeout != "" {
		limit, err := time.ParseDuration(o.Timeout)
		if err != nil {
			return forgerun.JobSpec{}, err
		}
		options = append(options, forgerun.Timeout(limit))
	}
	if limit, err := time.ParseDuration(o.Deadline); err == nil {
		options = append(options, forgerun.Deadline(limit))
	} else if at, err := time.Parse(time.RFC3339, o.Deadline); err == nil {
		options = append(options, forgerun.DeadlineAt(at))
	} else if o.Deadline != "" {
		return forgerun.JobSpec{}, err
	}
	if o.UniqueKey != "" {
		options = append(options, forgerun.UniqueKey(o.UniqueKey))
	}
	if o.IdempotencyKey != "" {
		options = append(options, forgerun.IdempotencyKey(o.IdempotencyKey))
	}
	var input any
	if len(s.Args) > 0 {
		input = s.Args
	}
	return forgerun.NewJob(s.Type, input, options...), nil
}

// work is what a step does.
func (s spec) work() (forgerun.Work, error) {
	switch {
	case s.Wait != nil:
		timeout, err := time.ParseDuration(s.Wait.Timeout)
		return forgerun.WaitSignal(s.Wait.Signal, timeout), err
	case s.ForEach != nil:
		each := forgerun.Each{
			Over: s.ForEach.Over, Pointer: s.ForEach.Pointer, Parallel: s.ForEach.Parallel, Options: []forgerun.JobOption{forgerun.Queue(s.Queue)},
		}
		err := json.Unmarshal(s.Args, &each.Args)
		return forgerun.ForEach(s.Type, each), err
	}
	return s.job()
}

func works(jobs []forgerun.JobSpec) []forgerun.Work {
	list := make([]forgerun.Work, len(jobs))
	for i, job := range jobs {
		list[i] = job
	}
	return list
}

func jobs(specs []spec) ([]forgerun.JobSpec, error) {
	list := make([]forgerun.JobSpec, len(specs))
	for i, s := range specs {
		var err error
		if list[i], err = s.job(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

type object = map[string]any

type adapter struct {
	client *forgerun.Client
	mu     sync.Mutex // of standard output, and of stop
	stop   func() error
}

func main() {
	client, err := forgerun.New()
	if err != nil {
		log.Fatal(err)
	}
	a := &adapter{client: client, stop: func() error { return nil }}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, lineBytesMax)
	var underWay sync.WaitGroup
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			log.Fatalf("%s: %v", lines.Bytes(), err)
		}
		underWay.Add(1)
		go func() {
			defer underWay.Done()
			a.answer(r)
		}()
	}
	if err := a.stopWorker(); err != nil {
		log.Fatal(err)
	}
}

func (a *adapter) answer(r request) {
	ctx := context.Background()
	if r.TimeoutMS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, ms(r.TimeoutMS))
		defer cancel()
	}
	ok, err := a.do(ctx, r)
	answer := object{"id": r.ID, "ok": ok}
	if err != nil {
		answer = object{"id": r.ID, "error": described(err)}
	}
	line, err := json.Marshal(answer)
	if err != nil {
		log.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Printf("%s\n", line)
}

func described(err error) object {
	var api *forgerun.APIError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return object{"class": "TimeoutError", "code": "TIMEOUT", "message": err.Error(), "retryable": true}
	case errors.As(err, &api):
		class := string(api.Class)
		var failed *forgerun.JobFailed
		var timedOut *forgerun.JobTimedOut
		var cancelled *forgerun.JobCancelled
		switch {
		case errors.As(err, &failed):
			class = "JobFailed"
		case errors.As(err, &timedOut):
			class = "JobTimedOut"
		case errors.As(err, &cancelled):
			class = "JobCancelled"
		}
		return object{"class": class, "code": api.Code, "message": api.Message, "retryable": api.Retryable}
	}
	return object{"class": "UnknownError", "code": "ADAPTER", "message": err.Error(), "retryable": false}
}

func (a *adapter) do(ctx context.Context, r request) (any, error) {
	job := a.client.Job(r.JobID)
	switch r.Do {
	case "submit":
		spec, err := r.spec.job()
		if err != nil {
			return nil, err
		}
		submitted, err := a.client.Submit(ctx, spec.Type, spec.Input, spec.Options...)
		if err != nil {
			return nil, err
		}
		return object{"job_id": submitted.ID}, nil
	case "submit_many":
		list, err := jobs(r.Jobs)
		if err != nil {
			return nil, err
		}
		submitted, err := a.client.SubmitMany(ctx, list...)
		ids := []string{}
		for _, one := range submitted {
			ids = append(ids, one.ID)
		}
		return object{"job_ids": ids}, err
	case "result":
		value, err := forgerun.Result[any](ctx, job)
		return object{"value": value}, err
	case "status":
		status, err := job.Status(ctx)
		if err != nil {
			return nil, err
		}
		return object{"state": status.State, "attempt": status.Attempt, "progress": status.Progress}, nil
	case "cancel":
		return object{}, job.Cancel(ctx)
	case "retry":
		return object{}, job.Retry(ctx)
	case "events":
		return events(job.Events(ctx))
	case "workflow":
		return a.workflow(ctx, r)
	case "workflow_status":
		status, err := a.client.Workflow(r.WorkflowID).Status(ctx)
		if err != nil {
			return nil, err
		}
		return object{"state": status.State, "steps": status.Steps}, nil
	case "signal":
		if r.JobID != "" {
			return object{}, job.Signal(ctx, r.Name, r.Payload)
		}
		return object{}, a.client.Signal(ctx, r.WorkflowID, r.Name, r.Payload)
	case "logs":
		lines := job.Logs(ctx)
		if r.Follow {
			lines.Follow()
		}
		return logLines(lines)
	case "schedule":
		spec, err := r.spec.job()
		if err != nil {
			return nil, err
		}
		_, err = a.client.PutSchedule(ctx, forgerun.Schedule{Name: r.Name, Cron: r.Cron, Job: spec})
		return object{}, err
	case "unschedule":
		return object{}, a.client.DeleteSchedule(ctx, r.Name)
	case "worker":
		return object{}, a.startWorker(r)
	case "stop_worker":
		return object{}, a.stopWorker()
	}
	return nil, fmt.Errorf("unknown verb %q", r.Do)
}

func events(stream *forgerun.EventStream) (any, error) {
	defer stream.Close()
	list := []object{}
	for {
		event, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return object{"events": list}, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, object{"id": event.ID, "name": event.Name})
	}
}

func logLines(stream *forgerun.LogStream) (any, error) {
	defer stream.Close()
	list := []object{}
	for {
		line, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return object{"lines": list}, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, object{"seq": line.Seq, "text": line.Text})
	}
}

func (a *adapter) workflow(ctx context.Context, r request) (any, error) {
	workflow := forgerun.NewWorkflow(r.Name)
	if len(r.Chain) > 0 {
		list, err := jobs(r.Chain)
		if err != nil {
			return nil, err
		}
		workflow = forgerun.Chain(works(list)...).Named(r.Name)
	}
	for _, step := range r.Steps {
		work, err := step.work()
		if err != nil {
			return nil, err
		}
		workflow.Step(step.StepID, work, forgerun.After(step.DependsOn...))
	}
	submitted, err := a.client.SubmitWorkflow(ctx, workflow)
	if err != nil {
		return nil, err
	}
	return object{"job_id": submitted.ID, "workflow_id": submitted.ID}, nil
}

func (a *adapter) startWorker(r request) error {
	options := []forgerun.WorkerOption{}
	if len(r.Queues) > 0 {
		options = append(options, forgerun.Queues(r.Queues...))
	}
	if r.Concurrent > 0 {
		options = append(options, forgerun.Concurrency(r.Concurrent))
	}
	if r.LeaseMS > 0 {
		options = append(options, forgerun.Lease(ms(r.LeaseMS)))
	}
	worker := forgerun.NewWorker(a.client, options...)
	for jobType, do := range handlers() {
		worker.Handle(jobType, logged(do))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		err := worker.Run(ctx)
		ended <- err
		if ctx.Err() == nil { // a signal, or a refusal
			if err != nil {
				log.Fatal(err)
			}
			os.Exit(0)
		}
	}()
	a.stop = func() error {
		cancel()
		return <-ended
	}
	return nil
}

func (a *adapter) stopWorker() error {
	a.mu.Lock()
	stop := a.stop
	a.stop = func() error { return nil }
	a.mu.Unlock()
	return stop()
}

// note appends a line to the log of handlers.
func note(job *forgerun.Job, phase string) {
	path := os.Getenv("FORGERUN_SCENARIO_LOG")
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "%s %s %d %s\n", job.Type, job.ID, job.Attempt, phase); err != nil {
		log.Fatal(err)
	}
}

func logged(do forgerun.HandlerFunc) forgerun.HandlerFunc {
	return func(ctx context.Context, job *forgerun.Job) (any, error) {
		note(job, "begin")
		result, err := do(ctx, job)
		if ctx.Err() != nil {
			note(job, "cancelled")
		} else {
			note(job, "end")
		}
		return result, err
	}
}

func handlers() map[string]forgerun.HandlerFunc {
	return map[string]forgerun.HandlerFunc{
		"echo": func(_ context.Context, job *forgerun.Job) (any, error) { return job.Input, nil },
		"add": forgerun.Typed(func(_ context.Context, numbers []float64) (sum float64, _ error) {
			for _, number := range numbers {
				sum += number
			}
			return sum, nil
		}),
		"fail": forgerun.Typed(func(_ context.Context, in struct {
			Message   string
			Retryable *bool
		}) (any, error) {
			if in.Retryable != nil && !*in.Retryable {
				return nil, forgerun.Fatal(errors.New(in.Message))
			}
			return nil, errors.New(in.Message)
		}),
		"flaky": func(_ context.Context, job *forgerun.Job) (any, error) {
			var in struct{ Failures int }
			if err := job.Bind(&in); err != nil {
				return nil, err
			}
			if job.Attempt <= in.Failures {
				return nil, fmt.Errorf("failure %d", job.Attempt)
			}
			return job.Attempt, nil
		},
		"progress": func(ctx context.Context, job *forgerun.Job) (any, error) {
			for _, percent := range []int{10, 50, 90} {
				if err := job.Progress(ctx, percent, ""); err != nil {
					return nil, err
				}
			}
			return "done", nil
		},
		"sleep": forgerun.Typed(func(ctx context.Context, in struct{ MS int64 }) (any, error) {
			select {
			case <-time.After(ms(in.MS)):
				return "slept", nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}),
		"say": func(_ context.Context, job *forgerun.Job) (any, error) {
			var texts []string
			if err := job.Bind(&texts); err != nil {
				return nil, err
			}
			for _, text := range texts {
				job.Log(text)
			}
			return nil, nil
		},
		"ask": func(ctx context.Context, _ *forgerun.Job) (any, error) {
			return forgerun.WaitForSignal[json.RawMessage](ctx, "approved", 10*time.Minute)
		},
		"plan": forgerun.Typed(func(ctx context.Context, in struct {
			Queue string
			Names []string
		}) (any, error) {
			added, queue := forgerun.NewWorkflow(""), forgerun.Queue(in.Queue)
			for _, name := range in.Names {
				added.Step(name, forgerun.NewJob("echo", name, queue), forgerun.After("plan"))
			}
			added.Step("last", forgerun.NewJob("parents", nil, queue), forgerun.After(in.Names...))
			return nil, forgerun.AddSteps(ctx, added)
		}),
		"parents": func(_ context.Context, job *forgerun.Job) (any, error) {
			parents := object{}
			for step, result := range job.Parents {
				parents[step] = result
			}
			return parents, nil
		},
		"steps": steps,
		"crash": func(_ context.Context, job *forgerun.Job) (any, error) {
			if job.Attempt == 1 {
				os.Exit(9)
			}
			return "survived", nil
		},
		"later": func(_ context.Context, job *forgerun.Job) (any, error) {
			if job.Attempt == 1 {
				return nil, forgerun.RetryLater(200*time.Millisecond, nil)
			}
			return "done", nil
		},
	}
}

func steps(ctx context.Context, job *forgerun.Job) (any, error) {
	step := func(name string, value int) (int, error) {
		return forgerun.Step(ctx, name, func(context.Context) (int, error) {
			note(job, "step-"+name)
			return value, nil
		})
	}
	a, err := step("a", 1)
	if err != nil {
		return nil, err
	}
	if job.Attempt == 1 {
		return nil, errors.New("the first attempt ends between two steps")
	}
	b, err := step("b", 2)
	return []int{a, b}, err
}
