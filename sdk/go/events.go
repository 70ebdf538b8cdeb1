package forgerun

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	reconnectDefault = time.Second
	reconnectMin     = 100 * time.Millisecond // whatever `retry:` says
	reconnectMax     = 30 * time.Second
	reconnectsMax    = 5       // tries without an event before the trouble is reported
	eventBytesMax    = 4 << 20 // of one event
)

// Event is something that happened to a job.
type Event struct {
	ID   string          // where a stream goes on after it
	Name string          // such as job-started
	Data json.RawMessage // one JSON object
}

// ends reports whether it is the last event of its job.
func (e *Event) ends() bool {
	switch e.Name {
	case "job-completed", "job-failed", "job-timed-out", "job-completed-with-errors", "job-cancelled":
		return true
	}
	return false
}

// EventStream reads events as they happen. A connection that breaks is opened again, and the stream goes on after the last event.
// It must be closed unless it was read to its end.
type EventStream struct {
	ctx      context.Context
	client   *Client
	path     string
	ends     func(*Event) bool // whether it is the last one; nil for a stream without an end
	lastID   string
	wait     time.Duration
	failures int
	body     io.ReadCloser
	lines    *bufio.Reader
	ended    bool
}

// Events returns the events of a job from the first on, until it ends.
func (h *Handle) Events(ctx context.Context) *EventStream {
	return &EventStream{ctx: ctx, client: h.client, path: h.path("/events"), ends: (*Event).ends, wait: reconnectDefault}
}

// Events returns what happens to all your jobs from now on. It does not end by itself.
func (c *Client) Events(ctx context.Context) *EventStream {
	return &EventStream{ctx: ctx, client: c, path: "/v1/events", wait: reconnectDefault}
}

// After makes the stream go on after an event that was seen before, by its id.
func (s *EventStream) After(eventID string) *EventStream {
	s.lastID = eventID
	return s
}

// LastID is the id of the last event: what After takes.
func (s *EventStream) LastID() string { return s.lastID }

// Next returns the next event, or io.EOF once the job has ended. After a *BackendError the next call tries again.
func (s *EventStream) Next() (Event, error) {
	for {
		if s.ended {
			s.Close()
			return Event{}, io.EOF
		}
		if s.body == nil {
			if err := s.connect(); err != nil {
				return Event{}, err
			}
			continue
		}
		event, err := s.read()
		if err == nil {
			s.failures = 0
			if event.ID != "" {
				s.lastID = event.ID
			}
			s.ended = s.ends != nil && s.ends(&event)
			return event, nil
		}
		if err := s.broke(err); err != nil {
			return Event{}, err
		}
	}
}

// All returns the events for a range loop (Go 1.23): for event, err := range stream.All(). The stream is closed afterwards.
func (s *EventStream) All() func(yield func(Event, error) bool) {
	return func(yield func(Event, error) bool) {
		defer s.Close()
		for {
			event, err := s.Next()
			if errors.Is(err, io.EOF) || !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// Close ends the stream.
func (s *EventStream) Close() error {
	if s.body == nil {
		return nil
	}
	body := s.body
	s.body, s.lines = nil, nil
	return body.Close()
}

func (s *EventStream) connect() error {
	request := get(s.path).set("Accept", "text/event-stream")
	if s.lastID != "" {
		request.set("Last-Event-Id", s.lastID)
	}
	answer, err := s.client.send(s.ctx, request)
	if err != nil {
		return err
	}
	if answer.StatusCode == http.StatusNoContent {
		s.ended = true
		return answer.Body.Close()
	}
	if media := answer.Header.Get("Content-Type"); !strings.HasPrefix(media, "text/event-stream") {
		answer.Body.Close()
		return protocolError("a stream of events was expected, not %q", media)
	}
	s.body, s.lines = answer.Body, bufio.NewReader(answer.Body)
	return nil
}

// broke waits before the next connection. A stream that ends without a last event was closed by a server that stops.
func (s *EventStream) broke(cause error) error {
	s.Close()
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if apiError(cause) != nil {
		return cause
	}
	s.failures++
	if s.failures > reconnectsMax {
		s.failures = 0
		return s.client.broken(s.ctx, cause)
	}
	return s.client.sleep(s.ctx, s.wait+time.Duration(float64(s.wait)*s.client.random()/2))
}

// read reads one event, as the HTML standard has it.
func (s *EventStream) read() (Event, error) {
	event := Event{Name: "message"}
	var data []string
	bytes := 0
	for {
		line, err := s.line()
		if err != nil {
			return event, err
		}
		if bytes += len(line); bytes > eventBytesMax {
			return event, protocolError("an event has more than %d bytes", eventBytesMax)
		}
		if line == "" {
			if data != nil {
				event.Data = json.RawMessage(strings.Join(data, "\n"))
				return event, nil
			}
			event, bytes = Event{Name: "message"}, 0
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			event.Name = value
		case "id":
			event.ID = value
		case "data":
			data = append(data, value)
		case "retry":
			if ms, err := strconv.ParseUint(value, 10, 32); err == nil {
				s.wait = min(max(time.Duration(ms)*time.Millisecond, reconnectMin), reconnectMax)
			}
		}
	}
}

// line reads one line without its end.
func (s *EventStream) line() (string, error) {
	var line []byte
	for {
		piece, err := s.lines.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case err == nil:
			return strings.TrimRight(string(line), "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		case len(line) > eventBytesMax:
			return "", protocolError("an event has more than %d bytes", eventBytesMax)
		}
	}
}
