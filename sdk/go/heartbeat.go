package forgerun

import (
	"context"
	"os"
	"time"
)

type heartbeat struct {
	WorkerID   string            `json:"worker_id"`
	State      string            `json:"state"`
	ActiveJobs []string          `json:"active_jobs"`
	Tokens     map[string]string `json:"lease_tokens"`
	LeaseMS    int64             `json:"visibility_timeout_ms"`
	Queues     []string          `json:"queues"`
	Number     int               `json:"concurrency"`
	PID        int               `json:"pid"`
}

type heartbeatAnswer struct {
	State     string   `json:"state"`
	Extended  []string `json:"jobs_extended"`
	Cancelled []string `json:"cancelled_jobs"`
}

// heartbeats keeps the jobs ours until ctx ends.
func (r *run) heartbeats(ctx context.Context) {
	state := "running"
	timer := time.NewTimer(r.lease / 3)
	defer timer.Stop()
	for {
		r.beat(ctx, state)
		timer.Reset(r.lease / 3)
		select {
		case <-ctx.Done():
			return
		case state = <-r.beatNow:
		case <-timer.C:
		}
	}
}

func (r *run) beat(ctx context.Context, state string) {
	r.mu.Lock()
	listed := make([]*heldJob, 0, len(r.held))
	beat := heartbeat{
		WorkerID: r.id, State: state, ActiveJobs: make([]string, 0, len(r.held)), Tokens: make(map[string]string, len(r.held)),
		LeaseMS: r.lease.Milliseconds(), Queues: r.queues, Number: r.concurrency, PID: os.Getpid(),
	}
	for id, held := range r.held {
		listed = append(listed, held)
		beat.ActiveJobs = append(beat.ActiveJobs, id)
		beat.Tokens[id] = held.job.leaseToken
	}
	r.mu.Unlock()
	request, err := post("/ojs/v1/workers/heartbeat").json(beat)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.lease/3)
	defer cancel()
	var answer heartbeatAnswer
	if r.client.fetchOnce(ctx, request, &answer) != nil {
		return // a server that is away is noticed by the requests for jobs
	}
	extended := make(map[string]bool, len(answer.Extended))
	for _, id := range answer.Extended {
		extended[id] = true
	}
	for _, id := range answer.Cancelled {
		delete(extended, id)
		for _, held := range listed {
			if held.job.ID == id {
				held.cancel(ErrCancelled)
			}
		}
	}
	for _, held := range listed {
		if !extended[held.job.ID] {
			held.cancel(ErrLeaseLost) // without effect on one that was cancelled
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quiet = answer.State == "quiet"
	if answer.State == "terminate" {
		r.stopping = true
	}
	r.signal()
}
