package forgerun

import (
	"errors"
	"net"
	"time"
)

// RetryPolicy says how often and how patiently a request is sent again by itself.
//
// Errors of the caller (validation, conflict, credentials) are never repeated, whatever the server says. A request that may have
// arrived is repeated only if a second one does no harm: reads, and what carries an idempotency key.
type RetryPolicy struct {
	RetriesMax int           // repetitions after the first try
	First      time.Duration // the first wait lies between this and its double; it doubles from one to the next
	Longest    time.Duration // where doubling ends
	Patience   time.Duration // a longer Retry-After is not waited for; the error is returned
}

// DefaultRetryPolicy makes up to five repetitions, after 100 ms, 200 ms and so on.
var DefaultRetryPolicy = RetryPolicy{
	RetriesMax: 5, First: 100 * time.Millisecond, Longest: 10 * time.Second, Patience: time.Minute,
}

// NoRetries never sends a request again.
var NoRetries = RetryPolicy{}

// next returns the wait before the next try; false to give up. random lies between 0 and 1.
func (p RetryPolicy) next(err *APIError, harmless bool, retriesMade int, random float64) (time.Duration, bool) {
	if retriesMade >= p.RetriesMax || !err.Retryable {
		return 0, false
	}
	if !harmless && maybeDone(err) {
		return 0, false
	}
	least := max(err.RetryAfter, 0)
	if least > p.Patience {
		return 0, false
	}
	backoff := min(p.First<<min(retriesMade, 20), p.Longest)
	return max(backoff, least) + time.Duration(float64(backoff)*min(max(random, 0), 1)), true
}

// maybeDone reports whether the server may have done what the request asked for. A gateway may report so of a request that it passed on.
func maybeDone(err *APIError) bool {
	switch err.Status {
	case 0:
		return !err.notSent
	case 500, 502, 504:
		return true
	}
	return false
}

// isDialError reports whether no connection was made, so that nothing can have been sent.
func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

const (
	pollFirst   = 2 * time.Second
	pollLongest = 30 * time.Second
	holdLongest = 30 * time.Second // what a server holds an answer at most
)

// pollWait returns the wait before the next question whether a job has ended: 2, 4, 8, 16, 30, 30 … seconds, never sooner than
// Retry-After. False if the question would come after the total.
func pollWait(pollsMade int, waited, retryAfter, total time.Duration) (time.Duration, bool) {
	wait := max(min(pollFirst<<min(pollsMade, 5), pollLongest), retryAfter)
	return wait, waited+wait <= total
}
