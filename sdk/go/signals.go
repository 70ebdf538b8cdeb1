package forgerun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrSignalTimeout means that no signal came in time, and that none will count any more.
var ErrSignalTimeout = errors.New("no signal came in time")

// WaitForSignal returns the payload of a signal to this job (Handle.Signal), sent before this call or after it. A job has one signal of a
// name. timeout counts from the first call; 0 waits for as long as it takes.
//
// Until the signal comes the job goes back to its queue: WaitForSignal returns an error, which the handler must return, and the handler
// runs again from its beginning when the signal has come. Put what comes before into steps. It counts as no attempt. After the
// timeout the error is ErrSignalTimeout.
func WaitForSignal[T any](ctx context.Context, name string, timeout time.Duration) (T, error) {
	var payload T
	job := JobFrom(ctx)
	if job == nil || job.leaseToken == "" {
		return payload, Fatal(errors.New("only the handler of a worker can wait for a signal"))
	}
	rest := pauseMax
	if timeout > 0 {
		until, err := Step(ctx, "wait:"+name, func(context.Context) (time.Time, error) { return time.Now().Add(timeout), nil })
		if err != nil {
			return payload, err
		}
		rest = min(time.Until(until), pauseMax)
	}
	// Of a signal and a timeout the first that is recorded counts.
	ended, err := Step(ctx, "signal:"+name, func(context.Context) (map[string]json.RawMessage, error) {
		switch {
		case rest > 0 && (job.slept == nil || timeout == 0):
			return nil, &suspended{after: rest, signal: name}
		default:
			return map[string]json.RawMessage{"timed_out": json.RawMessage("true")}, nil
		}
	})
	if err != nil {
		return payload, err
	}
	body, came := ended["signal"]
	if !came {
		return payload, Fatal(fmt.Errorf("signal %s: %w", name, ErrSignalTimeout))
	}
	if err := json.Unmarshal(body, &payload); err != nil {
		return payload, Fatal(fmt.Errorf("the payload of signal %s does not fit: %w", name, err))
	}
	return payload, nil
}

// Signal sends a signal to the handler of the job, which gets payload, anything that encoding/json can write, where it waits for it
// (WaitForSignal).
//
// A signal that comes before the wait is kept, and the same one again changes nothing. Another payload, or one after the timeout, is a
// *ConflictError.
func (h *Handle) Signal(ctx context.Context, name string, payload any) error {
	request, err := post(h.path("/signals/" + segment(name))).safe().json(payload)
	if err != nil {
		return err
	}
	return h.client.fetch(ctx, request, nil)
}

// AddSteps adds the steps of a description to the workflow that the job of the handler is a step of. They may depend on it, and on all
// others. A second attempt that adds the same names gets a *ConflictError: call AddSteps in a Step.
func AddSteps(ctx context.Context, steps *Workflow) error {
	job := JobFrom(ctx)
	if job == nil || job.leaseToken == "" || job.workflowID == "" {
		return Fatal(errors.New("the job is no step of a workflow"))
	}
	body, err := steps.body(job.client.now())
	if err != nil {
		return err
	}
	added := map[string]any{"lease_token": job.leaseToken, "steps": body.Steps}
	request, err := post("/v1/workflows/" + segment(job.workflowID) + "/steps").json(added)
	if err != nil {
		return err
	}
	return job.client.fetch(ctx, request, nil)
}
