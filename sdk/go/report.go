package forgerun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	inlineBytesMax  = 1 << 20   // of a JSON result that goes with the end of its job; a larger one is uploaded
	messageBytesMax = 16 << 10  // of the message of a failure
	traceBytesMax   = 8 << 10   // of the stack of a panic
	uploadTimeout   = time.Hour // how long a server may take to take in a result
)

// failure is why an attempt failed, as it is reported to the server.
type failure struct {
	Code      string         `json:"code"`
	Type      string         `json:"type,omitempty"`
	Message   string         `json:"message"`
	Retryable *bool          `json:"retryable,omitempty"`
	Details   map[string]any `json:"details,omitempty"`

	delay time.Duration // before the next attempt; 0 leaves it to the retry policy of the job
}

func newFailure(err error) *failure {
	f := &failure{Code: "handler_error", Type: errorType(err), Message: clip(err.Error(), messageBytesMax)}
	yes, no := true, false
	var later *retryLater
	var final *fatal
	var panicked *panicError
	switch {
	case errors.As(err, &final):
		f.Retryable = &no
	case errors.As(err, &later):
		f.Retryable, f.delay = &yes, max(later.after, 0)
	case errors.As(err, &panicked):
		f.Code, f.Details = "panic", map[string]any{"trace": clip(panicked.stack, traceBytesMax)}
	}
	return f
}

// panicError is a handler that panicked.
type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("the handler panicked: %v", e.value) }

// errorType names the type of the error behind wrappers that say nothing of their own.
func errorType(err error) string {
	for {
		name := strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
		inner := errors.Unwrap(err)
		switch {
		case inner == nil:
			return name
		case name == "fmt.wrapError", name == "forgerun.fatal", name == "forgerun.retryLater":
			err = inner
		default:
			return name
		}
	}
}

// clip cuts a text at a whole character.
func clip(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	cut := text[:bytesMax]
	for len(cut) > 0 && !utf8.RuneStart(text[len(cut)]) {
		cut = cut[:len(cut)-1]
	}
	return cut + "…"
}

// end is how an attempt ended, on its way to the server.
type end struct {
	job     *heldJob
	entry   []byte // of `done` in an exchange
	success bool
}

func entryHead(j *Job, room int) []byte {
	entry := make([]byte, 0, 128+room)
	entry = appendString(append(entry, `{"job_id":`...), j.ID)
	return appendString(append(entry, `,"lease_token":`...), j.leaseToken)
}

func successEnd(held *heldJob, result json.RawMessage) end {
	entry := entryHead(held.job, len(result))
	if result != nil {
		entry = append(append(entry, `,"result":`...), result...)
	}
	return end{held, append(entry, '}'), true}
}

func failureEnd(held *heldJob, f *failure) end {
	encoded, err := json.Marshal(f)
	if err != nil {
		panic("a failure is plain data: " + err.Error())
	}
	entry := append(append(entryHead(held.job, len(encoded)), `,"error":`...), encoded...)
	if f.delay > 0 {
		entry = strconv.AppendInt(append(entry, `,"delay_ms":`...), f.delay.Milliseconds(), 10)
	}
	return end{held, append(entry, '}'), false}
}

// requeueEnd hands a job back. It counts no attempt.
func requeueEnd(held *heldJob, delay time.Duration) end {
	return suspendEnd(held, &suspended{after: delay})
}

// suspendEnd hands a job back for a while, or until a signal comes.
func suspendEnd(held *heldJob, wait *suspended) end {
	entry := append(entryHead(held.job, 0), `,"requeue":true`...)
	if wait.after > 0 {
		entry = strconv.AppendInt(append(entry, `,"delay_ms":`...), max(wait.after.Milliseconds(), 1), 10)
	}
	if wait.signal != "" {
		entry = appendString(append(entry, `,"until_signal":`...), wait.signal)
	}
	return end{held, append(entry, '}'), false}
}

// appendString appends a JSON string. Ids and tokens are plain; anything else is left to encoding/json.
func appendString(to []byte, text string) []byte {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			encoded, _ := json.Marshal(text)
			return append(to, encoded...)
		}
	}
	return append(append(append(to, '"'), text...), '"')
}

// encodeResult returns a result as it goes with the end of its job, or what is to be uploaded instead.
func encodeResult(result any) (json.RawMessage, *Content, error) {
	var content *Content
	switch result := result.(type) {
	case nil:
		return nil, nil, nil
	case Content:
		content = &result
	case *Content:
		content = result
	case []byte:
		content = &Content{Body: bytes.NewReader(result), Size: int64(len(result))}
	case io.Reader:
		content = &Content{Body: result}
	}
	if content != nil {
		if content.Body == nil {
			return nil, nil, Fatal(errors.New("the result is a Content without a Body"))
		}
		return nil, content, nil
	}
	encoded, err := json.Marshal(result)
	if err != nil {
		return nil, nil, Fatal(fmt.Errorf("the result cannot be written as JSON: %w", err))
	}
	if len(encoded) > inlineBytesMax {
		return nil, &Content{Type: "application/json", Body: bytes.NewReader(encoded), Size: int64(len(encoded))}, nil
	}
	return encoded, nil, nil
}

// errNotOurs is a result that the server did not take because the job is no longer ours.
var errNotOurs = errors.New("the job was given to another worker")

// deliver uploads a result that does not go with the end of its job, and returns one that does.
func (j *Job) deliver(ctx context.Context, result any) (json.RawMessage, error) {
	encoded, content, err := encodeResult(result)
	if err != nil || content == nil {
		return encoded, err
	}
	err = j.upload(ctx, content)
	if api := apiError(err); api != nil && (api.Status == http.StatusConflict || IsNotFound(err)) {
		return nil, errNotOurs
	}
	return nil, err
}

// upload sends a result before its job ends. What can be read again is sent again until the server has it.
func (j *Job) upload(ctx context.Context, content *Content) error {
	if closer, ok := content.Body.(io.Closer); ok {
		defer closer.Close()
	}
	request := put("/ojs/v1/jobs/"+segment(j.ID)+"/result").set("Content-Type", content.media()).set("Lease-Token", j.leaseToken)
	if content.FileName != "" {
		request.set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": content.FileName}))
	}
	request.size, request.held = content.Size, uploadTimeout
	if request.size <= 0 {
		request.size = -1
	}
	seeker, canRepeat := content.Body.(io.Seeker)
	start := int64(0)
	if canRepeat {
		var err error
		if start, err = seeker.Seek(0, io.SeekCurrent); err != nil {
			canRepeat = false
		}
	}
	for tries := 0; ; tries++ {
		body := &attemptBody{from: content.Body}
		request.stream = body
		err := j.client.fetchOnce(ctx, request, nil)
		body.detach()
		if api := apiError(err); api == nil || !api.Retryable || !canRepeat {
			return err
		}
		if sleepErr := j.client.sleep(ctx, awayWait(tries, j.client.random())); sleepErr != nil {
			return errors.Join(sleepErr, err)
		}
		if _, err := seeker.Seek(start, io.SeekStart); err != nil {
			return err
		}
	}
}

// attemptBody is the body of one attempt. net/http may still read it when the attempt is over, and must not take bytes from the next one.
type attemptBody struct {
	mu   sync.Mutex
	from io.Reader
}

func (b *attemptBody) Read(into []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.from == nil {
		return 0, io.ErrClosedPipe
	}
	return b.from.Read(into)
}

func (b *attemptBody) detach() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.from = nil
}

func (c *Content) media() string {
	if c.Type == "" {
		return "application/octet-stream"
	}
	return c.Type
}
