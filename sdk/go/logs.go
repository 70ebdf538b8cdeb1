package forgerun

import (
	"context"
	"strings"
	"sync"
	"time"
)

const (
	logLinesMax   = 1000                   // in one request; the server takes as many
	logBatchBytes = 64 << 10               // of text in one request, unless one line alone has more
	logLineBytes  = 15 << 10               // of a line, which is cut there; the server takes 16 KiB
	logPendingMax = 10_000                 // lines of a job that wait for the server; further ones are dropped
	logGather     = 200 * time.Millisecond // how long lines gather
	logPatience   = 5 * time.Second        // how long a request with lines may take
)

// LogLine is a line of the log of a job.
type LogLine struct {
	At     time.Time `json:"at"`     // now if zero
	Level  string    `json:"level"`  // debug, info, warn or error; info if empty
	Stream string    `json:"stream"` // log if empty; output is for partial results
	Text   string    `json:"text"`
}

// Log adds lines to the log of the job, which is kept and deleted with it. It returns at once; lines are sent in batches. A line that is
// lost is no reason to fail. A job that came over HTTP (Worker.HTTPHandler) keeps no log.
func (j *Job) Log(text string) { j.LogLine(LogLine{Text: text}) }

// LogLine is Log with a level or a stream.
func (j *Job) LogLine(line LogLine) {
	if j.leaseToken == "" {
		return
	}
	if line.At.IsZero() {
		line.At = time.Now()
	}
	if line.Level == "" {
		line.Level = "info"
	}
	if line.Stream == "" {
		line.Stream = "log"
	}
	line.Text = clip(strings.ToValidUTF8(line.Text, "\uFFFD"), logLineBytes)
	j.logs.add(j, line)
}

// logBuffer holds lines on their way to the server.
type logBuffer struct {
	mu      sync.Mutex
	lines   []LogLine
	timer   *time.Timer // set while lines gather
	sending sync.Mutex  // one request at a time, in order
}

func (b *logBuffer) add(j *Job, line LogLine) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) >= logPendingMax {
		return
	}
	b.lines = append(b.lines, line)
	if b.timer == nil {
		b.timer = time.AfterFunc(logGather, func() { j.flushLogs() })
	}
}

// take removes the first lines that fit into one request.
func (b *logBuffer) take() []LogLine {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	n, size := 0, 0
	for n < len(b.lines) && n < logLinesMax {
		size += len(b.lines[n].Text)
		if n > 0 && size > logBatchBytes {
			break
		}
		n++
	}
	batch := b.lines[:n:n]
	b.lines = b.lines[n:]
	return batch
}

func (b *logBuffer) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = nil
}

type logBody struct {
	JobID      string    `json:"job_id"`
	LeaseToken string    `json:"lease_token"`
	Lines      []LogLine `json:"lines"`
}

// flushLogs sends what has gathered. The server takes lines only while the job is held, so this comes before its end.
func (j *Job) flushLogs() {
	j.logs.sending.Lock()
	defer j.logs.sending.Unlock()
	for {
		lines := j.logs.take()
		if len(lines) == 0 {
			return
		}
		request, err := post("/ojs/v1/workers/logs").json(logBody{j.ID, j.leaseToken, lines})
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), logPatience)
		err = j.client.fetchOnce(ctx, request, nil)
		cancel()
		if err != nil {
			j.logs.drop()
			return
		}
	}
}
