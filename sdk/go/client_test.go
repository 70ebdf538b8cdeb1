package forgerun

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestAnAddressMustBeOneOfTheWeb(t *testing.T) {
	for address, want := range map[string]string{
		"http://a:8080": "http://a:8080", "https://a/jobs/": "https://a/jobs", "https://a/jobs?x#y": "https://a/jobs",
		"": "http://127.0.0.1:8080", "a:8080": "error", "127.0.0.1:8080": "error", "ftp://a": "error", "http://": "error",
	} {
		t.Setenv("FORGERUN_URL", "")
		client, err := New(URL(address))
		got := "error"
		if err == nil {
			got = client.base
		}
		if got != want {
			t.Errorf("%q is %q, not %q", address, got, want)
		}
	}
	if _, err := New(Key("a\nb")); err == nil {
		t.Error("a key with a line feed was taken")
	}
	t.Setenv("FORGERUN_URL", "http://there:1")
	t.Setenv("FORGERUN_API_KEY", "k")
	if client, err := New(); err != nil || client.base != "http://there:1" || client.key != "k" {
		t.Error(err)
	}
}

func TestTheKeyIsNotSentElsewhere(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		compare(t, r.Header.Get("Authorization"), "Bearer k")
		http.Redirect(w, r, elsewhere.URL, http.StatusFound)
	}))
	defer here.Close()
	client, err := New(URL(here.URL), Key("k"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Job("1").Open(context.Background()); err == nil || !strings.Contains(err.Error(), "302") {
		t.Fatal(err)
	}
}

func TestAServerThatIsAwayIsABackendError(t *testing.T) {
	here := httptest.NewServer(nil)
	here.Close()
	client, err := New(URL(here.URL), Retries(NoRetries))
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Job("1").Status(context.Background())
	var backend *BackendError
	if !errors.As(err, &backend) || backend.Code != "UNREACHABLE" || !backend.Retryable || !backend.notSent || !strings.Contains(err.Error(), "could not reach 127.0.0.1") {
		t.Fatalf("%+v", err)
	}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err = client.Job("1").Status(stopped); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestAnAnswerThatDoesNotComeInTimeIsSentAgain(t *testing.T) {
	release := make(chan struct{})
	var n atomic.Int64
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			<-release
			return
		}
		io.WriteString(w, `{"job_id":"7","state":"QUEUED"}`)
	}))
	defer here.Close()
	defer close(release)
	client, err := New(URL(here.URL), RequestTimeout(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if status, err := client.Job("7").Status(context.Background()); err != nil || status.State != Queued || n.Load() != 2 {
		t.Fatal(status, err, n.Load())
	}
}

func TestADownloadGoesOnWhereItBroke(t *testing.T) {
	whole := strings.Repeat("0123456789", 10)
	part := func(from, to int, header map[string]string) *http.Response {
		status := 200
		if from > 0 {
			status = 206
			header["Content-Range"] = "bytes " + itoa(from) + "-99/100"
		}
		a := answer(status, header, "")
		a.Body = io.NopCloser(io.MultiReader(strings.NewReader(whole[from:to]), broken{}))
		a.ContentLength = int64(100 - from)
		return a
	}
	for name, c := range map[string]struct {
		etag, want string
		changed    bool
	}{
		"with the same content": {etag: `"a"`, want: whole},
		"not without an ETag":   {want: "error"},
		"not if it changed":     {etag: `"a"`, want: "error", changed: true},
	} {
		t.Run(name, func(t *testing.T) {
			var ranges []string
			client := answering(t, func(n int, r *http.Request) *http.Response {
				ranges = append(ranges, r.Header.Get("Range")+" "+r.Header.Get("If-Range"))
				header := map[string]string{"Etag": c.etag, "Content-Disposition": `attachment; filename="../a.txt"`}
				switch {
				case n == 1:
					return part(0, 30, header)
				case n == 2 && c.changed:
					return part(0, 100, header)
				case n == 2:
					return part(30, 30, header)
				case n == 3:
					return nil // sent again by itself
				default:
					return part(30, 100, header)
				}
			})
			download, err := client.Job("1").Open(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			compare(t, download.FileName, "a.txt")
			text, err := io.ReadAll(download)
			if err != nil {
				text = []byte("error")
			}
			compare(t, string(text), c.want)
			if c.want == whole {
				compare(t, ranges, []string{" ", `bytes=30- "a"`, `bytes=30- "a"`, `bytes=30- "a"`})
			}
		})
	}
}

func itoa(n int) string { return string(rune('0'+n/10)) + string(rune('0'+n%10)) }

// broken is a connection that breaks.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestEventsAreReadHoweverTheBytesAreCut(t *testing.T) {
	text := "retry: 3000\n\n: hello\n\nevent: job-started\nid: 7\ndata: {\"a\":1}\n\ndata: [1,\r\ndata:2]\r\n\r\nevent: only-a-name\n\n" +
		"event: job-completed\nid: 9\ndata: {}\n\n"
	for size := range len(text) {
		client := answering(t, func(int, *http.Request) *http.Response {
			a := answer(200, map[string]string{"Content-Type": "text/event-stream"}, "")
			a.Body = io.NopCloser(&cut{text, size + 1})
			return a
		})
		var got []string
		stream := client.Job("1").Events(context.Background())
		for {
			event, err := stream.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, event.ID+" "+event.Name+" "+string(event.Data))
		}
		if want := []string{`7 job-started {"a":1}`, " message [1,\n2]", "9 job-completed {}"}; !slices.Equal(got, want) || stream.LastID() != "9" {
			t.Fatalf("cut after %d bytes: %q", size+1, got)
		}
	}
}

type cut struct {
	text string
	size int
}

func (c *cut) Read(into []byte) (int, error) {
	if c.text == "" {
		return 0, io.EOF
	}
	n := copy(into, c.text[:min(c.size, len(c.text))])
	c.text = c.text[n:]
	return n, nil
}

func TestAStreamThatBreaksGoesOnAfterTheLastEvent(t *testing.T) {
	var last []string
	client := answering(t, func(n int, r *http.Request) *http.Response {
		last = append(last, r.Header.Get("Last-Event-Id"))
		text := "event: job-started\nid: 7\ndata: {}\n\nevent: lost\nid: 8\n"
		switch n {
		case 2:
			return nil
		case 3:
			text = "event: job-failed\nid: 8\ndata: {}\n\n"
		}
		return answer(200, map[string]string{"Content-Type": "text/event-stream"}, text)
	})
	stream := client.Job("1").Events(context.Background())
	for _, want := range []string{"job-started", "job-failed"} {
		if event, err := stream.Next(); err != nil || event.Name != want {
			t.Fatal(event, err)
		}
	}
	if _, err := stream.Next(); err != io.EOF {
		t.Fatal(err)
	}
	compare(t, last, []string{"", "7", "7"})

	endless := answering(t, func(int, *http.Request) *http.Response {
		return answer(200, map[string]string{"Content-Type": "text/event-stream"}, "")
	})
	var backend *BackendError
	if _, err := endless.Events(context.Background()).Next(); !errors.As(err, &backend) {
		t.Fatal(err)
	}
	var unknown *UnknownError
	html := answering(t, func(int, *http.Request) *http.Response { return answer(200, nil, "<html>") })
	if _, err := html.Events(context.Background()).Next(); !errors.As(err, &unknown) {
		t.Fatal(err)
	}
}

func TestAWaitIsHeldByTheServerOrElsePollsPolitely(t *testing.T) {
	var waits []time.Duration
	var prefers []string
	client := answering(t, func(n int, r *http.Request) *http.Response {
		prefers = append(prefers, r.Header.Get("Prefer"))
		state := `{"job_id":"7","state":"RUNNING","jobStatus":"PROCESSING"}`
		switch n {
		case 2:
			return answer(200, map[string]string{"Retry-After": "9"}, state)
		case 3: // more than the retries of one request
			return answer(429, map[string]string{"Retry-After": "61"}, `{"code":"RATE_LIMITED"}`)
		case 4:
			return answer(200, nil, `{"job_id":"7","state":"SUCCEEDED","jobStatus":"COMPLETED"}`)
		}
		return answer(200, nil, state)
	})
	client.sleep = func(_ context.Context, wait time.Duration) error {
		waits = append(waits, wait)
		return nil
	}
	status, err := client.Job("7").Wait(context.Background())
	if err != nil || status.State != Succeeded {
		t.Fatal(status, err)
	}
	compare(t, waits, []time.Duration{2 * time.Second, 9 * time.Second, 61 * time.Second})
	compare(t, prefers[0], "wait=30")
}

func TestManyJobsGoInRequestsOfBoundedSize(t *testing.T) {
	var sizes []int
	var keys []string
	client := answering(t, func(_ int, r *http.Request) *http.Response {
		text, _ := io.ReadAll(r.Body)
		n := strings.Count(string(text), `"id":`)
		if len(text) > batchBytesMax+10_000 {
			t.Errorf("a request has %d bytes", len(text))
		}
		sizes, keys = append(sizes, n), append(keys, r.Header.Get("Idempotency-Key"))
		return answer(201, nil, `{"jobs":[`+strings.TrimSuffix(strings.Repeat(`{"id":"7"},`, n), ",")+`]}`)
	})
	small, large := make([]JobSpec, 2001), make([]JobSpec, 5)
	for i := range small {
		small[i] = NewJob("t", i)
	}
	for i := range large {
		large[i] = NewJob("t", strings.Repeat("x", 1<<20))
	}
	for _, specs := range [][]JobSpec{nil, small, large} {
		handles, err := client.SubmitMany(context.Background(), specs...)
		if err != nil || len(handles) != len(specs) {
			t.Fatal(len(handles), err)
		}
	}
	compare(t, sizes, []int{1000, 1000, 1, 3, 2})
	slices.Sort(keys)
	if len(slices.Compact(keys)) != 5 {
		t.Error("requests share a key")
	}
}

func TestTheTypeOfAnErrorIsThatOfItsCause(t *testing.T) {
	compare(t, errorType(errors.New("a")), "errors.errorString")
	compare(t, errorType(Fatal(RetryLater(0, &http.MaxBytesError{}))), "http.MaxBytesError")
	compare(t, clip("aé", 2), "a…")
}
