package forgerun

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strconv"
)

const logPageLines = 1000 // the most that the server allows

// StoredLine is a line of the log of a job as the server keeps it.
type StoredLine struct {
	LogLine
	Seq     uint64 `json:"seq"`     // its number in the log of the job, from 1; a gap means that lines were deleted
	Attempt int    `json:"attempt"` // the attempt that logged it, from 1
}

// LogStream reads the log of a job: the lines that are there, or with Follow also new ones until the job has ended. A connection that breaks
// is opened again, and the stream goes on after the last line. It must be closed unless it was read to its end.
type LogStream struct {
	ctx    context.Context
	handle *Handle
	query  url.Values
	after  uint64
	follow bool
	events *EventStream // of a stream that follows
	page   []StoredLine
	ended  bool
}

// Logs returns the log of a job from the first line on.
func (h *Handle) Logs(ctx context.Context) *LogStream {
	return &LogStream{ctx: ctx, handle: h, query: url.Values{}}
}

// Follow makes the stream wait for new lines until the job has ended.
func (s *LogStream) Follow() *LogStream {
	s.follow = true
	return s
}

// Stream leaves out lines of other streams than this one.
func (s *LogStream) Stream(name string) *LogStream {
	s.query.Set("stream", name)
	return s
}

// Attempt leaves out lines of other attempts than this one.
func (s *LogStream) Attempt(attempt int) *LogStream {
	s.query.Set("attempt", strconv.Itoa(attempt))
	return s
}

// After makes the stream go on after a line that was seen before, by its Seq.
func (s *LogStream) After(seq uint64) *LogStream {
	s.after = seq
	return s
}

// Next returns the next line, or io.EOF after the last one. After a *BackendError the next call tries again.
func (s *LogStream) Next() (StoredLine, error) {
	if s.follow {
		return s.nextEvent()
	}
	for len(s.page) == 0 {
		if s.ended {
			return StoredLine{}, io.EOF
		}
		if err := s.turn(); err != nil {
			return StoredLine{}, err
		}
	}
	line := s.page[0]
	s.page = s.page[1:]
	return line, nil
}

// turn reads the next page, which may be empty while more follow.
func (s *LogStream) turn() error {
	s.query.Set("after", strconv.FormatUint(s.after, 10))
	s.query.Set("limit", strconv.Itoa(logPageLines))
	var page struct {
		Lines      []StoredLine `json:"lines"`
		NextCursor string       `json:"next_cursor"`
	}
	if err := s.handle.client.fetch(s.ctx, get(s.handle.path("/logs?"+s.query.Encode())), &page); err != nil {
		return err
	}
	s.page, s.ended = page.Lines, page.NextCursor == ""
	if !s.ended {
		next, err := strconv.ParseUint(page.NextCursor, 10, 64)
		if err != nil {
			return protocolError("the cursor of a log: %v", err)
		}
		s.after = next
	}
	return nil
}

func (s *LogStream) nextEvent() (StoredLine, error) {
	if s.events == nil {
		path := s.handle.path("/logs?" + s.query.Encode())
		ends := func(event *Event) bool { return event.Name == "end" }
		s.events = &EventStream{ctx: s.ctx, client: s.handle.client, path: path, ends: ends, wait: reconnectDefault}
		if s.after > 0 {
			s.events.After(strconv.FormatUint(s.after, 10))
		}
	}
	for {
		event, err := s.events.Next()
		if err != nil {
			return StoredLine{}, err
		}
		if event.Name != "log" {
			continue
		}
		var line StoredLine
		if err := json.Unmarshal(event.Data, &line); err != nil {
			return StoredLine{}, protocolError("a line of a log: %v", err)
		}
		return line, nil
	}
}

// All returns the lines for a range loop (Go 1.23): for line, err := range stream.All(). The stream is closed afterwards.
func (s *LogStream) All() func(yield func(StoredLine, error) bool) {
	return func(yield func(StoredLine, error) bool) {
		defer s.Close()
		for {
			line, err := s.Next()
			if errors.Is(err, io.EOF) || !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// Close ends the stream.
func (s *LogStream) Close() error {
	if s.events == nil {
		return nil
	}
	return s.events.Close()
}
