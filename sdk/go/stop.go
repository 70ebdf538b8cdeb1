package forgerun

import "time"

// stop begins the stop of the worker, and reports whether it had begun already.
func (r *run) stop() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.signal()
	begun := r.stopping
	r.stopping = true
	return begun
}

// stopping is how far a stop has come.
type stopping struct {
	at, next  time.Time
	hurried   bool
	cancelled bool // the contexts of handlers have ended
	abandoned bool // what still runs was handed back
}

func (r *run) beginStop(stop *stopping, now time.Time) {
	stop.at = now
	if r.running > 0 {
		r.log.Info("the worker stops and waits for its jobs", "worker", r.id, "jobs", r.running)
	}
	for _, held := range r.waiting {
		r.end(requeueEnd(held, 0))
	}
	r.waiting = nil
	// After this heartbeat the server hands out nothing more, so a request that still waits can be dropped.
	r.beatNow <- "terminate"
	time.AfterFunc(stopGrace, r.stopAsking)
}

// advanceStop reports whether the worker has stopped, and sets when to look again.
func (r *run) advanceStop(stop *stopping, now time.Time) bool {
	drained, graced := stop.at.Add(r.drain), stop.at.Add(r.drain+r.grace)
	if stop.hurried && !stop.cancelled {
		drained, graced = now, now.Add(r.grace)
		stop.at = now.Add(-r.drain)
	}
	if !stop.cancelled && !now.Before(drained) {
		stop.cancelled = true
		for _, held := range r.held {
			held.cancel(ErrWorkerStopped)
		}
	}
	if !stop.abandoned && !now.Before(graced) {
		stop.abandoned = true
		for _, held := range r.held {
			if !held.ended {
				r.log.Warn("a handler did not return; its job is handed back", "job", held.job.ID, "type", held.job.Type)
				r.end(requeueEnd(held, 0))
			}
		}
	}
	switch {
	case len(r.held) == 0 && len(r.asked) == 0, r.refused != nil && r.running == 0:
		return true
	case !stop.cancelled:
		stop.next = drained
	case !stop.abandoned:
		stop.next = graced
	default:
		stop.next = graced.Add(lastReportsWait)
		if !now.Before(stop.next) {
			r.log.Error("the ends of some jobs could not be reported", "worker", r.id, "jobs", len(r.held))
			return true
		}
	}
	return false
}
