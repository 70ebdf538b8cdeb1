package forgerun

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
)

// The loop of a worker.
//
// Up to two requests are under way. Each reports the ends that gathered since the one before and asks for as many jobs as there is room
// for. The first of the two waits for jobs at the server; the second is sent only if there are ends, so that these need not wait.
//
// Where jobs are short, up to as many again are taken ahead, because a handler would wait longer for its next job than it works.

const (
	requestsMax     = 2                      // under way at once
	entriesMax      = 500                    // ends in one request; the server takes 1,000
	entryBytesMax   = 8 << 20                // and their bytes, unless one alone has more; the server takes 16 MiB
	holdWait        = 20 * time.Second       // how long the server is asked to hold a request; proxies cut idle ones after a minute
	gatherWait      = time.Millisecond       // how long an end waits for others while handlers run
	shortJob        = 50 * time.Millisecond  // jobs that take less are taken ahead
	aheadWait       = time.Second            // a job that was taken ahead and waits longer goes back
	awayFirst       = 200 * time.Millisecond // the first wait for a server that is away, doubling
	awayLongest     = 5 * time.Second
	emptyPause      = time.Second            // between requests to a server that does not hold them
	noHandlerDelay  = 5 * time.Second        // before a job without a handler is handed out again
	stopGrace       = 300 * time.Millisecond // how long a request for jobs may still take when the worker stops
	lastReportsWait = 5 * time.Second        // how long a worker that stops tries to report what is left
)

// heldJob is a job from its arrival until the server knows its end.
type heldJob struct {
	job    *Job
	do     HandlerFunc
	ctx    context.Context
	cancel context.CancelCauseFunc
	since  time.Time // when it arrived
	ended  bool      // its handler has returned, or never will begin
}

type run struct {
	*Worker
	base context.Context // of handlers
	wake chan struct{}   // something changed; capacity 1

	mu       sync.Mutex
	held     map[string]*heldJob // by id
	waiting  []*heldJob          // taken ahead, in order
	running  int
	ends     []end
	endsFrom time.Time // when the first of ends came
	meanWork time.Duration
	asked    []int // jobs asked for by the requests under way
	quiet    bool  // an operator wants no more jobs to be taken
	failures int
	resumeAt time.Time // no request before
	askAt    time.Time // no request for jobs before
	oneByOne bool      // a request with several ends was refused as a whole
	stopping bool
	finished bool // nothing is to be reported any more
	refused  error
	noticed  map[string]bool // types without a handler that were logged

	asking     context.Context // of requests for jobs
	stopAsking context.CancelFunc
	beatNow    chan string // a heartbeat with this state, at once
}

func newRun(w *Worker, base context.Context) *run {
	r := &run{
		Worker: w, base: base, wake: make(chan struct{}, 1), held: map[string]*heldJob{}, meanWork: shortJob,
		noticed: map[string]bool{}, beatNow: make(chan string, 1),
	}
	r.asking, r.stopAsking = context.WithCancel(base)
	return r
}

func (r *run) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// loop runs until the worker has stopped.
func (r *run) loop(done <-chan struct{}, signals <-chan os.Signal) error {
	background, stopBackground := context.WithCancel(r.base)
	var heartbeats sync.WaitGroup
	heartbeats.Add(1)
	go func() {
		defer heartbeats.Done()
		r.heartbeats(background)
	}()
	defer heartbeats.Wait()
	defer stopBackground()
	defer r.stopAsking()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var stop stopping
	for {
		r.mu.Lock()
		now := time.Now()
		if r.stopping && stop.at.IsZero() {
			r.beginStop(&stop, now)
		}
		if r.stopping && r.advanceStop(&stop, now) {
			r.finished = true
			defer r.mu.Unlock()
			return r.refused
		}
		wait := r.advance(now)
		if !stop.at.IsZero() {
			wait = min(wait, stop.next.Sub(now))
		}
		r.mu.Unlock()
		timer.Reset(max(wait, 0))
		select {
		case <-r.wake:
		case <-timer.C:
		case <-done:
			done = nil
			r.stop()
		case <-signals:
			stop.hurried = r.stop()
		}
	}
}

// advance sends what is due and returns how long nothing else will be.
func (r *run) advance(now time.Time) time.Duration {
	wait := time.Hour
	for len(r.waiting) > 0 {
		due := r.waiting[0].since.Add(aheadWait)
		if now.Before(due) {
			wait = min(wait, due.Sub(now))
			break
		}
		// Another worker may be free. Nothing more is taken ahead until jobs are seen to be short again.
		r.end(requeueEnd(r.waiting[0], 0))
		r.waiting = r.waiting[1:]
		r.meanWork = shortJob
	}
	for len(r.asked) < requestsMax {
		if now.Before(r.resumeAt) {
			return min(wait, r.resumeAt.Sub(now))
		}
		count := 0
		if pause := r.askAt.Sub(now); pause <= 0 {
			count = r.room()
		} else {
			wait = min(wait, pause)
		}
		if len(r.ends) == 0 {
			if count == 0 || len(r.asked) > 0 {
				return wait
			}
		} else if due := r.endsFrom.Add(gatherWait); now.Before(due) && r.running > 0 && len(r.ends) < r.concurrency {
			return min(wait, due.Sub(now))
		}
		r.send(count)
	}
	return wait
}

// room is how many jobs to ask for.
func (r *run) room() int {
	if r.stopping || r.quiet || len(r.ends) > 2*entriesMax {
		return 0
	}
	taken := r.running + len(r.waiting)
	for _, count := range r.asked {
		taken += count
	}
	if r.meanWork >= shortJob {
		return max(r.concurrency-taken, 0)
	}
	room := min(2*r.concurrency-taken, r.concurrency)
	if 2*room < r.concurrency {
		return 0 // too few to be worth a request
	}
	return room
}

// send sends the ends that gathered and asks for jobs.
func (r *run) send(count int) {
	var ends []end
	bytes := 0
	for len(ends) < len(r.ends) && len(ends) < entriesMax {
		bytes += len(r.ends[len(ends)].entry)
		if len(ends) > 0 && (bytes > entryBytesMax || r.oneByOne) {
			break
		}
		ends = r.ends[:len(ends)+1]
	}
	r.ends = r.ends[len(ends):]
	ends = ends[:len(ends):len(ends)]
	wait := time.Duration(0)
	if count > 0 && len(r.asked) == 0 {
		wait = holdWait
	}
	r.asked = append(r.asked, count)
	go r.exchange(ends, count, wait)
}

type exchangeAnswer struct {
	Results []struct {
		Status  int             `json:"status"`
		Problem json.RawMessage `json:"problem"`
	} `json:"results"`
	Jobs      []receivedJob `json:"jobs"`
	Directive string        `json:"directive"`
}

func (r *run) exchange(ends []end, count int, wait time.Duration) {
	ctx := r.base
	if count > 0 {
		ctx = r.asking
	}
	request := post("/ojs/v1/workers/exchange").set("Content-Type", "application/json").set("Ojs-Version", "1.0")
	request.body, request.held = r.exchangeBody(ends, count, wait), wait
	began := time.Now()
	var answer exchangeAnswer
	err := r.client.fetchOnce(ctx, request, &answer)
	if err == nil && len(answer.Results) < len(ends) {
		err = protocolError("%d ends were sent and %d answered", len(ends), len(answer.Results))
	}
	var jobs []*heldJob
	for i := range answer.Jobs {
		jobs = append(jobs, r.hold(&answer.Jobs[i]))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.signal()
	for i, asked := range r.asked {
		if asked == count {
			r.asked = append(r.asked[:i], r.asked[i+1:]...)
			break
		}
	}
	if err != nil {
		r.failed(err, ends)
		return
	}
	r.reached()
	settled := true
	for i, end := range ends {
		settled = r.settled(end, answer.Results[i].Status, answer.Results[i].Problem) && settled
	}
	r.stopping = r.stopping || answer.Directive == "terminate"
	for _, held := range jobs {
		r.begin(held)
	}
	now := time.Now()
	// A server that stops, or that does not hold requests, is not to be asked all the time.
	if answer.Directive == "quiet" || (wait > 0 && settled && len(jobs) == 0 && now.Sub(began) < emptyPause) {
		r.askAt = now.Add(emptyPause)
	}
}

func (r *run) exchangeBody(ends []end, count int, wait time.Duration) []byte {
	size := 256
	for _, end := range ends {
		size += len(end.entry) + 1
	}
	body := appendString(append(make([]byte, 0, size), `{"worker_id":`...), r.id)
	if count > 0 {
		body = append(body, `,"queues":[`...)
		for i, queue := range r.queues {
			if i > 0 {
				body = append(body, ',')
			}
			body = appendString(body, queue)
		}
		body = append(body, ']')
	}
	body = strconv.AppendInt(append(body, `,"count":`...), int64(count), 10)
	body = strconv.AppendInt(append(body, `,"visibility_timeout_ms":`...), r.lease.Milliseconds(), 10)
	body = strconv.AppendInt(append(body, `,"wait_ms":`...), wait.Milliseconds(), 10)
	body = append(body, `,"done":[`...)
	for i, end := range ends {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, end.entry...)
	}
	return append(body, "]}"...)
}

// hold makes a job ready to be begun.
func (r *run) hold(received *receivedJob) *heldJob {
	job := received.job(r.client, r.id)
	held := &heldJob{job: job, do: r.handler(job.Type), since: time.Now()}
	ctx, cancel := context.WithCancelCause(r.base)
	held.ctx, held.cancel = handlerContext(ctx, job), cancel
	return held
}

// begin begins a job, or lets it wait for a handler.
func (r *run) begin(held *heldJob) {
	r.held[held.job.ID] = held
	switch {
	case r.stopping:
		r.end(requeueEnd(held, 0))
	case held.do == nil:
		if !r.noticed[held.job.Type] {
			r.noticed[held.job.Type] = true
			r.log.Warn("no handler for jobs of a type; they are handed back", "worker", r.id, "type", held.job.Type)
		}
		r.end(requeueEnd(held, noHandlerDelay))
	case r.running < r.concurrency:
		r.running++
		go r.work(held)
	default:
		r.waiting = append(r.waiting, held)
	}
}

// work does jobs one after the other until none waits.
func (r *run) work(held *heldJob) {
	returned := false
	defer func() {
		if !returned {
			value := recover() // of a result that panics when it is written
			if value == nil {
				value = "it called runtime.Goexit" // as testing.T.FailNow does
			}
			f := newFailure(&panicError{value, stack()})
			if next := r.worked(held, failureEnd(held, f), true, 0); next != nil {
				go r.work(next)
			}
		}
	}()
	for held != nil {
		began := time.Now()
		result, err := callHandler(held.ctx, held.job, held.do)
		took := time.Since(began)
		held.job.flushLogs()
		end, ok := outcome(held, result, err)
		if !ok {
			r.log.Info("a job is no longer ours", "job", held.job.ID, "type", held.job.Type, "cause", context.Cause(held.ctx))
		}
		held = r.worked(held, end, ok, took)
	}
	returned = true
}

// outcome is what to report; false for nothing, if the job is not ours any more.
func outcome(held *heldJob, result any, err error) (end, bool) {
	var encoded json.RawMessage
	if err == nil {
		encoded, err = held.job.deliver(held.ctx, result)
	}
	var asleep *suspended
	switch cause := context.Cause(held.ctx); {
	case cause == ErrCancelled || cause == ErrLeaseLost || errors.Is(err, errNotOurs):
		return end{}, false
	case err == nil:
		return successEnd(held, encoded), true
	case cause == ErrWorkerStopped:
		return requeueEnd(held, 0), true
	case errors.As(err, &asleep):
		return suspendEnd(held, asleep), true
	default:
		return failureEnd(held, newFailure(err)), true
	}
}

// worked notes that a handler is free, and returns the next job for it.
func (r *run) worked(held *heldJob, end end, report bool, took time.Duration) *heldJob {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.meanWork = (7*r.meanWork + took) / 8
	switch {
	case r.finished || held.ended: // handed back meanwhile
	case report:
		r.end(end)
	default:
		r.forget(held)
	}
	if len(r.waiting) > 0 {
		next := r.waiting[0]
		r.waiting = r.waiting[1:]
		return next
	}
	r.running--
	if !report || len(r.ends) == 1 || r.running == 0 || len(r.ends) >= r.concurrency {
		r.signal()
	}
	return nil
}

// end queues an end to be reported.
func (r *run) end(end end) {
	end.job.ended = true
	if len(r.ends) == 0 {
		r.endsFrom = time.Now()
	}
	r.ends = append(r.ends, end)
}

// forget drops a job whose end the server knows.
func (r *run) forget(held *heldJob) {
	held.cancel(nil)
	if r.held[held.job.ID] == held { // it may have been taken again meanwhile
		delete(r.held, held.job.ID)
	}
}

// settled notes the answer to an end. False if it was refused.
func (r *run) settled(sent end, status int, problem json.RawMessage) bool {
	job := sent.job.job
	if status >= 200 && status < 300 {
		r.forget(sent.job)
		return true
	}
	refusal := newAPIError(status, http.Header{}, problem, r.client.now())
	switch {
	case status == http.StatusNotFound || status == http.StatusConflict || status == http.StatusGone:
		r.log.Warn("a job was no longer ours when it ended", "job", job.ID, "type", job.Type)
		r.forget(sent.job)
	case refusal.Retryable:
		r.end(sent)
		r.resumeAt = time.Now().Add(max(awayFirst, refusal.RetryAfter))
	case sent.success: // the server does not take this result: that is a failure, with its reason
		no := false
		r.end(failureEnd(sent.job, &failure{
			Code: "result_refused", Message: "the result was refused: " + refusal.Error(), Retryable: &no,
		}))
	default:
		r.log.Error("the end of a job was refused", "job", job.ID, "type", job.Type, "error", refusal)
		r.forget(sent.job)
	}
	return false
}

// failed notes that a request was not answered, or refused as a whole. Its ends are sent again.
func (r *run) failed(err error, ends []end) {
	if len(ends) > 0 {
		r.ends = append(ends, r.ends...)
		r.endsFrom = time.Time{}
	}
	if r.asking.Err() != nil && apiError(err) == nil { // dropped, because the worker stops
		return
	}
	api := apiError(err)
	switch {
	case api == nil || api.Retryable || api.Class == ClassUnknown:
	case api.Class == ClassAuth || len(ends) == 0:
		r.log.Error("the server refuses the worker", "worker", r.id, "error", err)
		r.stopping, r.refused = true, err
		r.resumeAt = time.Now().Add(awayLongest)
		return
	case len(ends) == 1:
		r.ends = r.ends[1:]
		r.settled(ends[0], http.StatusBadRequest, api.Problem)
		return
	default:
		r.oneByOne = true
		return
	}
	if r.failures == 0 {
		r.log.Warn("the server is away; trying again", "worker", r.id, "error", err)
	}
	wait := awayWait(r.failures, r.client.random())
	r.failures++
	if api != nil {
		wait = max(wait, min(api.RetryAfter, awayLongest))
	}
	r.resumeAt = time.Now().Add(wait)
}

// awayWait is the wait before the next try to reach a server that is away: between half of the backoff and all of it.
func awayWait(tries int, random float64) time.Duration {
	wait := min(awayFirst<<min(tries, 10), awayLongest)
	return wait/2 + time.Duration(random*float64(wait)/2)
}

func (r *run) reached() {
	if r.failures > 0 {
		r.log.Info("the server is back", "worker", r.id)
	}
	r.failures = 0
	if r.oneByOne && len(r.ends) == 0 {
		r.oneByOne = false
	}
}

func stack() string { return string(debug.Stack()) }
