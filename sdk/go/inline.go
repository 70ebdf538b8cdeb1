package forgerun

import (
	"context"
	"encoding/json"

	"github.com/forgerun/forgerun/sdk/go/internal/inline"
)

func init() {
	inline.Run = func(ctx context.Context, client any, received []byte, do any) ([]byte, error) {
		var r receivedJob
		if err := json.Unmarshal(received, &r); err != nil {
			return nil, err
		}
		job := r.job(client.(*Client), "inline")
		held := &heldJob{job: job, ctx: handlerContext(ctx, job)}
		result, err := callHandler(held.ctx, job, do.(HandlerFunc))
		end, _ := outcome(held, result, err)
		return end.entry, nil
	}
}
