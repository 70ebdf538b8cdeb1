// Package forgerun submits jobs to a ForgeRun server, waits for their results, and does them.
//
//	client, err := forgerun.New()
//	job, err := client.Submit(ctx, "invoice.render", Invoice{Customer: "Ada"}, forgerun.Queue("invoices"))
//	pages, err := forgerun.Result[int](ctx, job)
//
// A [Worker] does jobs:
//
//	worker := forgerun.NewWorker(client, forgerun.Queues("invoices"), forgerun.Concurrency(8))
//	worker.Handle("invoice.*", forgerun.Typed(func(ctx context.Context, invoice Invoice) (int, error) { … }))
//	err := worker.Run(ctx)
package forgerun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

const (
	connectionsMax  = 64               // idle connections that are kept
	idleTimeout     = 30 * time.Second // servers and proxies close idle connections after 60 s or more
	requestTimeout  = 40 * time.Second // until an answer begins; the server itself gives up after 30 s
	stallTimeout    = 60 * time.Second // a stream of events sends `:` every 15 s
	answerBytesMax  = 16 << 20         // of an answer that is read whole
	errorBytesMax   = 1 << 20          // of an error
	resultsBytesMax = 1 << 30          // of a result that is read into memory
)

// Client talks to one server. It is safe for concurrent use; make one and share it.
type Client struct {
	base    string
	key     string
	http    *http.Client
	timeout time.Duration
	retry   RetryPolicy
	now     func() time.Time
	random  func() float64
	sleep   func(context.Context, time.Duration) error
}

// Option configures a client.
type Option func(*Client)

// URL is the address of the server. The default is FORGERUN_URL, then http://127.0.0.1:8080.
func URL(address string) Option { return func(c *Client) { c.base = address } }

// Key is the API key. The default is FORGERUN_API_KEY.
func Key(key string) Option { return func(c *Client) { c.key = key } }

// HTTPClient replaces the HTTP client, for example for certificates of your own. Its Timeout must be zero: the SDK has timeouts per
// request. Redirects are never followed.
func HTTPClient(client *http.Client) Option { return func(c *Client) { c.http = client } }

// RequestTimeout is how long an answer may take to begin: 40 s.
func RequestTimeout(timeout time.Duration) Option { return func(c *Client) { c.timeout = timeout } }

// Retries replaces the policy by which requests are sent again.
func Retries(policy RetryPolicy) Option { return func(c *Client) { c.retry = policy } }

// New returns a client. It connects when it is first used.
func New(options ...Option) (*Client, error) {
	c := &Client{
		base:    os.Getenv("FORGERUN_URL"),
		key:     os.Getenv("FORGERUN_API_KEY"),
		timeout: requestTimeout,
		retry:   DefaultRetryPolicy,
		now:     time.Now,
		random:  rand.Float64,
		sleep:   sleep,
	}
	for _, option := range options {
		option(c)
	}
	if c.base == "" {
		c.base = "http://127.0.0.1:8080"
	}
	base, err := url.Parse(c.base)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, usageError("%q is not the address of a server: it must begin with http:// or https:// and name a host", c.base)
	}
	base.RawQuery, base.Fragment = "", ""
	c.base = strings.TrimRight(base.String(), "/")
	if strings.ContainsFunc(c.key, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, usageError("the API key has characters that a header cannot hold")
	}
	if c.http == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = connectionsMax, connectionsMax
		transport.IdleConnTimeout = idleTimeout
		transport.DisableCompression = true // JSON over loopback and local networks: the time is worth more than the bytes
		c.http = &http.Client{Transport: transport}
	}
	own := *c.http
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &own
	return c, nil
}

func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type traceKey struct{}

// WithTraceparent returns a context whose calls carry this W3C traceparent. The context of a handler carries that of its job.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceparent)
}

// call is a request about to be sent.
type call struct {
	method   string
	path     string // below the address of the server
	header   http.Header
	body     []byte
	stream   io.Reader     // instead of body; sent once
	size     int64         // of stream; -1 if unknown
	harmless bool          // whether a second one does no harm
	held     time.Duration // how long the server may hold the answer on purpose
}

func get(path string) *call  { return &call{method: http.MethodGet, path: path, harmless: true} }
func post(path string) *call { return &call{method: http.MethodPost, path: path} }
func put(path string) *call  { return &call{method: http.MethodPut, path: path, harmless: true} }
func del(path string) *call  { return &call{method: http.MethodDelete, path: path, harmless: true} }

func (r *call) set(name, value string) *call {
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set(name, value)
	return r
}

func (r *call) safe() *call {
	r.harmless = true
	return r
}

// keyed makes a repetition harmless: the server knows the key.
func (r *call) keyed(key string) *call { return r.set("Idempotency-Key", key).safe() }

func (r *call) json(body any) (*call, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, usageError("the request cannot be written as JSON: %v", err)
	}
	r.body = encoded
	return r.set("Content-Type", "application/json"), nil
}

// segment escapes a part of a path.
func segment(text string) string { return url.PathEscape(text) }

// fetch sends a request, again where that is harmless and promises something, and reads the answer into out unless that is nil.
func (c *Client) fetch(ctx context.Context, r *call, out any) error {
	answer, err := c.send(ctx, r)
	return c.read(ctx, r, answer, err, out)
}

// fetchOnce does the same without sending the request again.
func (c *Client) fetchOnce(ctx context.Context, r *call, out any) error {
	answer, err := c.sendOnce(ctx, r)
	return c.read(ctx, r, answer, err, out)
}

func (c *Client) read(ctx context.Context, r *call, answer *http.Response, err error, out any) error {
	if err != nil {
		return err
	}
	body, err := readAll(answer, answerBytesMax)
	if err != nil {
		return c.broken(ctx, err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return protocolError("the body of the answer to %s %s: %v", r.method, r.path, err)
	}
	return nil
}

// send returns the answer if its status is below 400. The caller closes its body.
func (c *Client) send(ctx context.Context, r *call) (*http.Response, error) {
	for retries := 0; ; retries++ {
		answer, err := c.sendOnce(ctx, r)
		if err == nil {
			return answer, nil
		}
		if r.stream != nil {
			return nil, err
		}
		api := apiError(err)
		if api == nil {
			return nil, err
		}
		wait, ok := c.retry.next(api, r.harmless, retries, c.random())
		if !ok {
			return nil, err
		}
		if sleepErr := c.sleep(ctx, wait); sleepErr != nil {
			return nil, errors.Join(sleepErr, err)
		}
	}
}

func (c *Client) sendOnce(ctx context.Context, r *call) (*http.Response, error) {
	within, cancel := context.WithCancelCause(ctx)
	request, err := http.NewRequestWithContext(within, r.method, c.base+r.path, nil)
	if err != nil {
		cancel(nil)
		return nil, usageError("%v", err)
	}
	c.fill(request, r)
	timer := time.AfterFunc(c.timeout+r.held, func() { cancel(errNoAnswer) })
	answer, err := c.http.Do(request)
	if err != nil {
		timer.Stop()
		cause := context.Cause(within)
		cancel(nil)
		if cause == errNoAnswer {
			err = errNoAnswer
		}
		return nil, c.broken(ctx, err)
	}
	answer.Body = &stalling{ReadCloser: answer.Body, timer: timer, cancel: cancel}
	timer.Reset(stallTimeout)
	if answer.StatusCode < 400 {
		return answer, nil
	}
	body, err := readAll(answer, errorBytesMax)
	if err != nil {
		body = nil // the status is enough
	}
	return nil, newAPIError(answer.StatusCode, answer.Header, body, c.now()).typed()
}

func (c *Client) fill(request *http.Request, r *call) {
	switch {
	case r.stream != nil:
		request.Body, request.ContentLength = io.NopCloser(r.stream), r.size
	case len(r.body) > 0:
		body := r.body
		request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	header := request.Header
	header["Accept"] = acceptJSON
	header["User-Agent"] = userAgent
	for name, values := range r.header {
		header[name] = values
	}
	if traceparent, ok := request.Context().Value(traceKey{}).(string); ok && traceparent != "" {
		header.Set("Traceparent", traceparent)
	}
	if c.key != "" {
		header["Authorization"] = []string{"Bearer " + c.key}
	}
}

var (
	acceptJSON  = []string{"application/json"}
	userAgent   = []string{"forgerun-go/" + version()}
	errNoAnswer = errors.New("no answer came in time")
	errStalled  = errors.New("the answer stood still")
)

// version is that of this module in the program, as its go.mod has it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/forgerun/forgerun/sdk/go" {
				return module.Version
			}
		}
	}
	return "devel"
}

// broken reports that no answer, or not the whole of it, came. An end of the caller's own context is returned as it is.
func (c *Client) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if apiError(err) != nil {
		return err
	}
	host := strings.TrimPrefix(strings.TrimPrefix(c.base, "http://"), "https://")
	unreachable := &APIError{
		Class: ClassBackend, Code: "UNREACHABLE", Retryable: true, RetryAfter: -1, Err: err, notSent: isDialError(err),
		Message: "could not reach " + host + ": " + rootOf(err).Error(),
	}
	return unreachable.typed()
}

// rootOf leaves out the method and the URL, which net/http puts in front.
func rootOf(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// stalling is a body that ends with an error when nothing comes for a while. Closing it ends the request.
type stalling struct {
	io.ReadCloser
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func (b *stalling) Read(into []byte) (int, error) {
	b.timer.Reset(stallTimeout)
	return b.ReadCloser.Read(into)
}

func (b *stalling) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// readAll reads a body to its end and closes it.
func readAll(answer *http.Response, bytesMax int64) ([]byte, error) {
	defer answer.Body.Close()
	var buffer bytes.Buffer
	if answer.ContentLength > 0 && answer.ContentLength <= bytesMax {
		buffer.Grow(int(answer.ContentLength) + bytes.MinRead)
	}
	if _, err := buffer.ReadFrom(io.LimitReader(answer.Body, bytesMax+1)); err != nil {
		return nil, err
	}
	if int64(buffer.Len()) > bytesMax {
		return nil, protocolError("the body has more than %d bytes", bytesMax)
	}
	return buffer.Bytes(), nil
}
