package forgerun

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	logLinesMax   = 1000                   // in one request; the server takes as many
	logBatchBytes = 128 << 10              // in one request; the server takes as many
	logOverhead   = 96                     // what a line counts there beside its text
	logLineBytes  = 16 << 10               // of a line that the server takes; longer ones go in pieces
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

// LogLine is Log with a level or a stream. Their names have 1 to 32 letters, digits, dots, hyphens and underscores; others are replaced by
// the default.
func (j *Job) LogLine(line LogLine) {
	if j.leaseToken == "" {
		return
	}
	if line.At.IsZero() {
		line.At = time.Now()
	}
	if !isLogName(line.Level) {
		line.Level = "info"
	}
	if !isLogName(line.Stream) {
		line.Stream = "log"
	}
	rest := strings.ToValidUTF8(line.Text, "\uFFFD")
	for len(rest) > logLineBytes {
		end := logLineBytes
		for !utf8.RuneStart(rest[end]) {
			end-- // not within a character
		}
		line.Text, rest = rest[:end], rest[end:]
		j.logs.add(j, line)
	}
	line.Text = rest
	j.logs.add(j, line)
}

// isLogName reports whether the server takes a text as the name of a level or a stream. One wrong name would cost all lines of a request.
func isLogName(text string) bool {
	return len(text) <= 32 && text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-')
	})
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
		size += len(b.lines[n].Text) + logOverhead
		if size > logBatchBytes {
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
