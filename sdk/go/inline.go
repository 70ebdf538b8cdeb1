package forgerun

import (
	"context"
	"encoding/json"
	"time"

	"github.com/forgerun/forgerun/sdk/go/internal/inline"
)

func init() {
	inline.Run = func(ctx context.Context, client any, received []byte, do any, slept func(time.Duration)) ([]byte, error) {
		var r receivedJob
		if err := json.Unmarshal(received, &r); err != nil {
			return nil, err
		}
		job := r.job(client.(*Client), "inline")
		job.slept = slept
		held := &heldJob{job: job, ctx: handlerContext(ctx, job)}
		result, err := callHandler(held.ctx, job, do.(HandlerFunc))
		job.flushLogs()
		end, _ := outcome(held, result, err)
		return end.entry, nil
	}
}
