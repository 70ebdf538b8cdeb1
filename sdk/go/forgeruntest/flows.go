package forgeruntest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	forgerun "github.com/forgerun/forgerun/sdk/go"
)

// Signal is a signal that was sent to a workflow.
type Signal struct {
	WorkflowID string
	Name       string
	Payload    json.RawMessage
}

// Workflows returns the bodies of the workflows that were submitted, in order. They stay RUNNING.
func (f *Fake) Workflows() []json.RawMessage {
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	return append([]json.RawMessage(nil), f.server.workflows...)
}

// Signals returns the signals that were sent, in order.
func (f *Fake) Signals() []Signal {
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	return append([]Signal(nil), f.server.signals...)
}

// Log adds a line to the log of a job.
func (f *Fake) Log(t testing.TB, jobID string, line forgerun.LogLine) {
	t.Helper()
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	job := f.server.byID[jobID]
	if job == nil {
		t.Fatalf("no job %s was submitted", jobID)
	}
	job.lines = append(job.lines, forgerun.StoredLine{LogLine: line, Seq: uint64(len(job.lines) + 1), Attempt: 1})
}

// flow answers requests about workflows. rest is what is behind /v1/workflows.
func (m *memory) flow(rest string, body []byte) (int, http.Header, []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if rest == "" {
		m.workflows = append(m.workflows, body)
		id := fmt.Sprintf("fake-workflow-%d", len(m.workflows))
		return ok(http.StatusAccepted, map[string]any{"workflow_id": id, "state": forgerun.Running})
	}
	id, verb, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	n, err := strconv.Atoi(strings.TrimPrefix(id, "fake-workflow-"))
	if err != nil || n < 1 || n > len(m.workflows) {
		return problem(http.StatusNotFound, "NOT_FOUND", "There is no workflow "+id+".")
	}
	if name, isSignal := strings.CutPrefix(verb, "signals/"); isSignal {
		m.signals = append(m.signals, Signal{WorkflowID: id, Name: name, Payload: body})
		return ok(http.StatusOK, map[string]any{})
	}
	if verb == "pause" || verb == "resume" {
		m.paused[id] = verb == "pause"
	} else if verb != "" {
		return problem(http.StatusNotImplemented, "UNSUPPORTED_FEATURE", "the fake client has no "+verb+" of workflows; use DevServer")
	}
	return ok(http.StatusOK, map[string]any{"workflow_id": id, "state": forgerun.Running, "paused": m.paused[id]})
}

// pause answers a pause or its end. mu is held.
func (m *memory) pause(job *fakeJob, paused bool) (int, http.Header, []byte) {
	if paused && job.state != forgerun.Queued {
		return problem(http.StatusConflict, "INVALID_STATE_TRANSITION", "the job has ended")
	}
	m.paused[job.ID] = paused
	return ok(http.StatusOK, map[string]any{"job_id": job.ID, "state": job.state, "paused": paused})
}

// logs answers with a page of lines, or with a stream that ends. mu is held.
func (m *memory) logs(r *http.Request, job *fakeJob) (int, http.Header, []byte) {
	query := r.URL.Query()
	follows := r.Header.Get("Accept") == "text/event-stream"
	from := query.Get("after")
	if follows {
		from = r.Header.Get("Last-Event-Id")
	}
	after, _ := strconv.ParseUint(from, 10, 64)
	found := []forgerun.StoredLine{}
	for _, line := range job.lines {
		stream, attempt := query.Get("stream"), query.Get("attempt")
		if line.Seq > after && (stream == "" || stream == line.Stream) && (attempt == "" || attempt == strconv.Itoa(line.Attempt)) {
			found = append(found, line)
		}
	}
	if !follows {
		return ok(http.StatusOK, map[string]any{"lines": found, "dropped": 0})
	}
	var events bytes.Buffer
	for _, line := range found {
		encoded, _ := json.Marshal(line)
		fmt.Fprintf(&events, "id: %d\nevent: log\ndata: %s\n\n", line.Seq, encoded)
	}
	events.WriteString("event: end\ndata: {}\n\n")
	return http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}}, events.Bytes()
}
