// Package inline lets package forgeruntest run a handler as a worker would, without a worker.
package inline

import (
	"context"
	"time"
)

// Run is set by package forgerun. It gives the job that a server would hand out as received to do (a forgerun.HandlerFunc) and returns the
// entry of `done` that a worker would send; nil for none. client is a *forgerun.Client; slept is told of sleeps, which
// take no time.
var Run func(ctx context.Context, client any, received []byte, do any, slept func(time.Duration)) (done []byte, err error)
