package forgerun

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const (
	concurrencyMax = 1000 // one heartbeat lists all jobs that are held, and the server bounds it
	leaseMin       = time.Second
)

// HandlerFunc does a job. Its result is written as JSON unless it is nil, []byte, io.Reader or Content, which are uploaded as they are; so
// is JSON over 1 MiB. Its error fails the attempt, and the retry policy of the job decides what follows; see RetryLater and Fatal.
//
// ctx ends when the job is cancelled or lost, or when the worker stops and will not wait any longer; context.Cause says which.
type HandlerFunc func(ctx context.Context, job *Job) (any, error)

// Typed makes a handler of a function that takes the decoded input and returns the result.
func Typed[In, Out any](do func(ctx context.Context, input In) (Out, error)) HandlerFunc {
	return func(ctx context.Context, job *Job) (any, error) {
		var input In
		if err := job.Bind(&input); err != nil {
			return nil, err
		}
		return do(ctx, input)
	}
}

// Worker takes jobs from queues and does them.
type Worker struct {
	client      *Client
	queues      []string
	concurrency int
	lease       time.Duration
	drain       time.Duration
	grace       time.Duration
	id          string
	log         *slog.Logger
	signals     bool
	handlers    []handler
}

type handler struct {
	pattern string
	do      HandlerFunc
}

// WorkerOption configures a worker.
type WorkerOption func(*Worker)

// Queues names the queues to take jobs from; the first one goes first. The default is `default`.
func Queues(names ...string) WorkerOption { return func(w *Worker) { w.queues = names } }

// Concurrency is how many jobs are done at once: 10.
func Concurrency(n int) WorkerOption { return func(w *Worker) { w.concurrency = n } }

// Lease is how long a job stays with the worker without a sign of life: 30 s. Heartbeats come at a third of it.
func Lease(lease time.Duration) WorkerOption { return func(w *Worker) { w.lease = lease } }

// Drain is how long a worker that stops waits for its handlers before it ends their contexts: 30 s.
func Drain(drain time.Duration) WorkerOption { return func(w *Worker) { w.drain = drain } }

// Grace is how long handlers then may take to return before their jobs are handed back: 10 s.
func Grace(grace time.Duration) WorkerOption { return func(w *Worker) { w.grace = grace } }

// WorkerID is what the worker is called; a random name otherwise.
func WorkerID(id string) WorkerOption { return func(w *Worker) { w.id = id } }

// Logger is where the worker reports; slog.Default() otherwise.
func Logger(log *slog.Logger) WorkerOption { return func(w *Worker) { w.log = log } }

// WithoutSignals leaves SIGTERM and SIGINT alone: only the context of Run stops the worker.
func WithoutSignals() WorkerOption { return func(w *Worker) { w.signals = false } }

// NewWorker returns a worker. Add handlers, then call Run.
func NewWorker(client *Client, options ...WorkerOption) *Worker {
	w := &Worker{
		client: client, queues: []string{"default"}, concurrency: 10, lease: 30 * time.Second, drain: 30 * time.Second,
		grace: 10 * time.Second, log: slog.Default(), signals: true, id: "go-" + newKey(),
	}
	for _, option := range options {
		option(w)
	}
	return w
}

// Handle does jobs whose type fits: a name, or a pattern in which * stands for any text. The first handler that fits counts. A job that
// no handler fits is handed back, for another worker of the queue.
func (w *Worker) Handle(pattern string, do HandlerFunc) {
	w.handlers = append(w.handlers, handler{pattern, do})
}

func (w *Worker) handler(jobType string) HandlerFunc {
	for _, h := range w.handlers {
		if fits(h.pattern, jobType) {
			return h.do
		}
	}
	return nil
}

// fits reports whether a type fits a pattern.
func fits(pattern, jobType string) bool {
	pieces := strings.Split(pattern, "*")
	if len(pieces) == 1 {
		return pattern == jobType
	}
	rest, ok := strings.CutPrefix(jobType, pieces[0])
	if !ok {
		return false
	}
	last := len(pieces) - 1
	for _, piece := range pieces[1:last] {
		at := strings.Index(rest, piece)
		if at < 0 {
			return false
		}
		rest = rest[at+len(piece):]
	}
	return strings.HasSuffix(rest, pieces[last])
}

func (w *Worker) check() error {
	switch {
	case len(w.handlers) == 0:
		return usageError("a worker needs a handler: call Handle first")
	case w.concurrency < 1 || w.concurrency > concurrencyMax:
		return usageError("Concurrency is 1 to %d, not %d", concurrencyMax, w.concurrency)
	case w.lease < leaseMin:
		return usageError("Lease is at least %s, not %s", leaseMin, w.lease)
	case len(w.queues) == 0:
		return usageError("a worker needs a queue")
	}
	return nil
}

// Run works until ctx ends, SIGTERM or SIGINT comes, or an operator asks the worker to terminate. Then it takes no more jobs, waits for
// its handlers as Drain says, ends their contexts, hands back what is left, and returns nil. A second signal skips the waiting. A server
// that is away is waited for; a server that refuses the worker ends it with the error.
//
// Handlers see the values of ctx, but not its end.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.check(); err != nil {
		return err
	}
	r := newRun(w, context.WithoutCancel(ctx))
	var signals chan os.Signal
	if w.signals {
		signals = make(chan os.Signal, 2)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
		defer signal.Stop(signals)
	}
	return r.loop(ctx.Done(), signals)
}

// callHandler runs the handler of a job. A panic is an error.
func callHandler(ctx context.Context, job *Job, do HandlerFunc) (result any, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value, stack()}
		}
	}()
	return do(ctx, job)
}

// handlerContext is what a handler of the job gets.
func handlerContext(ctx context.Context, job *Job) context.Context {
	if job.Traceparent != "" {
		ctx = WithTraceparent(ctx, job.Traceparent)
	}
	return context.WithValue(ctx, jobKey{}, job)
}
