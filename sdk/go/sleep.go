package forgerun

import (
	"context"
	"fmt"
	"time"
)

const (
	pauseHeld = 2 * time.Second    // a sleep keeps its job for this long; for longer the job goes back until then
	pauseMax  = 6 * 24 * time.Hour // how long a job goes back at most; the server allows a week
)

// suspended is an error that hands the job back until a sleep ends, or a signal comes.
type suspended struct {
	after  time.Duration
	signal string // "" for none
}

func (e *suspended) Error() string { return fmt.Sprintf("the job goes on in %s", e.after) }

// Sleep goes on after this time, on any worker, however often workers and servers are restarted meanwhile. name tells the sleeps of a job
// apart, like the name of a Step.
//
// For longer than two seconds the job goes back to its queue: Sleep returns an error, which the handler must return, and the handler runs
// again from its beginning when the time has come. Put what comes before into steps. It counts as no attempt.
func Sleep(ctx context.Context, name string, span time.Duration) error {
	until, err := Step(ctx, "sleep:"+name, func(context.Context) (time.Time, error) { return time.Now().Add(span), nil })
	if err != nil {
		return err
	}
	rest := time.Until(until)
	job := JobFrom(ctx)
	switch {
	case rest <= 0:
		return nil
	case job != nil && job.slept != nil:
		job.slept(rest)
		return nil
	case rest > pauseHeld && (job == nil || job.leaseToken == ""):
		return Fatal(fmt.Errorf("only the handler of a worker can sleep for longer than %s", pauseHeld))
	case rest > pauseHeld:
		return &suspended{after: min(rest, pauseMax)}
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
