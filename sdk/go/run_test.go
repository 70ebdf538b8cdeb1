package forgerun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// scripted is a server of which a test decides how it answers ends.
type scripted struct {
	t         *testing.T
	mu        sync.Mutex
	jobs      []string // still to be handed out
	settle    func(request int, done []sentEnd) (status int, results []string)
	requests  int // that carried ends
	beat      func(state string, jobs []string) string
	ended     chan sentEnd // ends that were settled with 200
	stopped   chan struct{}
	ran       chan error
	directive string // of the first answer
	uploads   []string
	upload    func(n int) (status int)
}

type sentEnd struct {
	JobID   string          `json:"job_id"`
	Result  json.RawMessage `json:"result"`
	Error   *failure        `json:"error"`
	Requeue bool            `json:"requeue"`
	DelayMS int64           `json:"delay_ms"`
}

func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(r.URL.Path, "heartbeat") {
		var beat heartbeat
		if err := json.Unmarshal(text, &beat); err != nil {
			s.t.Error(err)
		}
		reply := fmt.Sprintf(`{"state":"running","jobs_extended":["%s"]}`, strings.Join(beat.ActiveJobs, `","`))
		if s.beat != nil {
			reply = s.beat(beat.State, beat.ActiveJobs)
		}
		return answer(200, nil, reply), nil
	}
	if r.Method == http.MethodPut {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.uploads = append(s.uploads, r.Header.Get("Content-Type")+" "+r.Header.Get("Lease-Token")+" "+string(text))
		status := s.upload(len(s.uploads))
		if status == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		return answer(status, nil, "{}"), nil
	}
	var body struct {
		Count  int       `json:"count"`
		WaitMS int       `json:"wait_ms"`
		Done   []sentEnd `json:"done"`
	}
	if err := json.Unmarshal(text, &body); err != nil {
		s.t.Errorf("%s: %v", text, err)
	}
	s.mu.Lock()
	results := make([]string, len(body.Done))
	for i, end := range body.Done {
		results[i] = fmt.Sprintf(`{"job_id":%q,"status":200}`, end.JobID)
	}
	if len(body.Done) > 0 && s.settle != nil {
		s.requests++
		status, own := s.settle(s.requests, body.Done)
		switch {
		case status == 0:
			s.mu.Unlock()
			return nil, io.ErrUnexpectedEOF
		case status != 200:
			s.mu.Unlock()
			return answer(status, nil, ""), nil
		case own != nil:
			results = own
		}
	}
	settled := true
	for i, end := range body.Done {
		if strings.Contains(results[i], `"status":200`) {
			s.ended <- end
		} else {
			settled = false
		}
	}
	n := min(body.Count, len(s.jobs))
	jobs := []string{}
	for _, id := range s.jobs[:n] {
		jobs = append(jobs, fmt.Sprintf(`{"id":%q,"type":"t","queue":"q","attempt":1,"args":[],"lease_token":"%s.1"}`, id, id))
	}
	s.jobs = s.jobs[n:]
	directive := s.directive
	s.directive = ""
	s.mu.Unlock()
	if n == 0 && body.WaitMS > 0 && settled && directive == "" {
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-s.stopped:
		}
	}
	return answer(200, nil, fmt.Sprintf(`{"results":[%s],"jobs":[%s],"directive":%q}`, strings.Join(results, ","), strings.Join(jobs, ","), directive)), nil
}

// begin starts a worker of the scripted server. stop ends it and returns what Run returned.
func (s *scripted) begin(t *testing.T, do HandlerFunc, options ...WorkerOption) (stop func() error) {
	t.Helper()
	s.t, s.ended, s.stopped = t, make(chan sentEnd, 100), make(chan struct{})
	client, err := New(URL("http://server.test"), HTTPClient(&http.Client{Transport: s}))
	if err != nil {
		t.Fatal(err)
	}
	client.random = func() float64 { return 0 }
	worker := NewWorker(client, append([]WorkerOption{
		WithoutSignals(), Lease(time.Second), Logger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	}, options...)...)
	worker.Handle("t", do)
	ctx, cancel := context.WithCancel(context.Background())
	s.ran = make(chan error, 1)
	go func() {
		s.ran <- worker.Run(ctx)
		close(s.ran)
	}()
	return func() error {
		cancel()
		close(s.stopped)
		return <-s.ran
	}
}

// wait returns what Run returned without having been asked to stop.
func (s *scripted) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-s.ran:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("the worker did not end")
		return nil
	}
}

func (s *scripted) next(t *testing.T) sentEnd {
	t.Helper()
	select {
	case end := <-s.ended:
		return end
	case <-time.After(20 * time.Second):
		t.Fatal("no end was reported")
		return sentEnd{}
	}
}

func one(context.Context, *Job) (any, error) { return 1, nil }

func TestEndsAreSentUntilTheServerHasThem(t *testing.T) {
	const unavailable = `{"job_id":"a","status":503,"problem":{"code":"BACKEND_UNAVAILABLE"}}`
	for name, settle := range map[string]func(int, []sentEnd) (int, []string){
		"the answer was lost": func(request int, _ []sentEnd) (int, []string) {
			if request <= 2 {
				return 0, nil
			}
			return 200, nil
		},
		"an entry is to be sent again": func(request int, _ []sentEnd) (int, []string) {
			if request == 1 {
				return 200, []string{unavailable}
			}
			return 200, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := &scripted{jobs: []string{"a"}, settle: settle}
			stop := server.begin(t, one)
			if end := server.next(t); end.JobID != "a" || string(end.Result) != "1" {
				t.Fatalf("%+v", end)
			}
			if err := stop(); err != nil || server.requests < 2 {
				t.Fatal(server.requests, err)
			}
		})
	}
}

func TestARefusedEndIsJudgedForItself(t *testing.T) {
	t.Run("a result that is not taken is a failure", func(t *testing.T) {
		server := &scripted{jobs: []string{"a"}, settle: func(request int, _ []sentEnd) (int, []string) {
			if request == 1 {
				return 200, []string{`{"job_id":"a","status":400,"problem":{"code":"INVALID_ARGS","message":"too deep"}}`}
			}
			return 200, nil
		}}
		stop := server.begin(t, one)
		end := server.next(t)
		if end.Error == nil || end.Error.Code != "result_refused" || *end.Error.Retryable || !strings.Contains(end.Error.Message, "too deep") {
			t.Fatalf("%+v", end.Error)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a job that is not ours is dropped", func(t *testing.T) {
		server := &scripted{jobs: []string{"a", "b"}, settle: func(_ int, done []sentEnd) (int, []string) {
			results := []string{}
			for _, end := range done {
				status := map[string]int{"a": 409, "b": 200}[end.JobID]
				results = append(results, fmt.Sprintf(`{"job_id":%q,"status":%d}`, end.JobID, status))
			}
			return 200, results
		}}
		stop := server.begin(t, one)
		if end := server.next(t); end.JobID != "b" {
			t.Fatalf("%+v", end)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("ends that are refused together are sent one by one", func(t *testing.T) {
		both := make(chan struct{})
		begun := make(chan struct{}, 3)
		server := &scripted{jobs: []string{"a", "b", "c"}, settle: func(_ int, done []sentEnd) (int, []string) {
			if len(done) > 1 || (done[0].JobID == "b" && done[0].Error == nil) {
				return 400, nil
			}
			return 200, nil
		}}
		stop := server.begin(t, func(context.Context, *Job) (any, error) {
			begun <- struct{}{}
			<-both
			return 1, nil
		})
		for range 3 {
			<-begun
		}
		close(both)
		got := map[string]bool{}
		for range 3 {
			end := server.next(t)
			got[end.JobID] = end.Error == nil
		}
		compare(t, got, map[string]bool{"a": true, "b": false, "c": true})
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAWorkerWhoseKeyIsRevokedEndsWithTheReason(t *testing.T) {
	release := make(chan struct{})
	server := &scripted{jobs: []string{"a"}, settle: func(int, []sentEnd) (int, []string) { return 401, nil }}
	stop := server.begin(t, func(context.Context, *Job) (any, error) {
		<-release
		return 1, nil
	})
	close(release)
	var auth *AuthError
	if err := server.wait(t); !errors.As(err, &auth) || server.requests != 1 {
		t.Fatal(err, server.requests)
	}
	stop()
}

func TestAnOperatorEndsAWorker(t *testing.T) {
	server := &scripted{jobs: []string{"a"}, directive: "terminate"}
	stop := server.begin(t, one)
	if end := server.next(t); end.JobID != "a" || !end.Requeue {
		t.Fatalf("the job that came along was not handed back: %+v", end)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestAJobThatWasGivenToAnotherEndsItsHandler(t *testing.T) {
	server := &scripted{jobs: []string{"a"}, beat: func(string, []string) string { return `{"state":"running"}` }}
	cause := make(chan error, 1)
	stop := server.begin(t, func(ctx context.Context, _ *Job) (any, error) {
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return "too late", nil
	})
	if err := <-cause; err != ErrLeaseLost {
		t.Fatal(err)
	}
	if err := stop(); err != nil || len(server.ended) != 0 {
		t.Fatal(err, len(server.ended))
	}
}

func TestAJobTakenAheadGoesBackWhenItWaitsTooLong(t *testing.T) {
	release := make(chan struct{})
	server := &scripted{jobs: []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}}
	stop := server.begin(t, func(_ context.Context, job *Job) (any, error) {
		if job.ID >= "i" { // the first ones were short, so more are taken ahead
			<-release
		}
		return nil, nil
	}, Concurrency(2))
	done := 0
	for {
		end := server.next(t)
		if end.Requeue {
			break
		}
		if done++; done > 8 {
			t.Fatalf("%+v", end)
		}
	}
	close(release)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestAHungHandlerDoesNotKeepAWorkerFromStopping(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	server := &scripted{jobs: []string{"a"}}
	stop := server.begin(t, func(context.Context, *Job) (any, error) {
		close(begun)
		<-release
		return nil, nil
	}, Drain(0), Grace(0))
	<-begun
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if end := server.next(t); !end.Requeue {
		t.Fatalf("%+v", end)
	}
}

func TestASecondSignalHurriesAWorker(t *testing.T) {
	server := &scripted{jobs: []string{"a"}}
	begun := make(chan struct{})
	server.t, server.ended, server.stopped = t, make(chan sentEnd, 10), make(chan struct{})
	close(server.stopped)
	client, err := New(URL("http://server.test"), HTTPClient(&http.Client{Transport: server}))
	if err != nil {
		t.Fatal(err)
	}
	worker := NewWorker(client, Drain(time.Hour), Logger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	worker.Handle("t", func(ctx context.Context, _ *Job) (any, error) {
		close(begun)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	signals := make(chan os.Signal)
	ended := make(chan error)
	go func() { ended <- newRun(worker, context.Background()).loop(nil, signals) }()
	<-begun
	signals <- syscall.SIGTERM
	signals <- syscall.SIGTERM
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if end := server.next(t); !end.Requeue {
		t.Fatalf("%+v", end)
	}
}

func TestAnUploadIsSentUntilTheServerHasIt(t *testing.T) {
	once := Content{Type: "text/plain", Body: io.MultiReader(strings.NewReader("x"))}
	for name, c := range map[string]struct {
		result  any
		answers []int
		uploads int
		ends    string // how the job ends; "" for not at all
	}{
		"bytes":                     {[]byte("x"), []int{503, 0, 200}, 3, "succeeded"},
		"what can be read once":     {once, []int{503}, 1, "failed"},
		"what is too large":         {[]byte("x"), []int{413}, 1, "failed"},
		"of a job that is not ours": {[]byte("x"), []int{409}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			last := make(chan struct{})
			server := &scripted{jobs: []string{"a"}, upload: func(n int) int {
				if n == c.uploads {
					close(last)
				}
				return c.answers[n-1]
			}}
			stop := server.begin(t, func(context.Context, *Job) (any, error) { return c.result, nil })
			<-last
			if c.ends != "" {
				end := server.next(t)
				if got := map[bool]string{true: "succeeded", false: "failed"}[end.Error == nil]; got != c.ends || end.Result != nil {
					t.Fatalf("%+v", end)
				}
			}
			if err := stop(); err != nil || len(server.ended) > 0 {
				t.Fatal(err)
			}
			for _, upload := range server.uploads {
				if !strings.HasSuffix(upload, " a.1 x") {
					t.Errorf("%q", upload)
				}
			}
		})
	}
}

func TestTypesFitPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, jobType string
		want             bool
	}{
		{"image.resize", "image.resize", true}, {"image.resize", "image.resize2", false}, {"*", "anything", true}, {"*", "", true},
		{"image.*", "image.resize", true}, {"image.*", "images.resize", false}, {"*.resize", "image.resize", true},
		{"*.resize", "image.resized", false}, {"a*b*c", "a-b-c", true}, {"a*b*c", "a-c-b", false}, {"ab*ba", "aba", false}, {"", "a", false},
	} {
		if got := fits(c.pattern, c.jobType); got != c.want {
			t.Errorf("%q and %q: %v", c.pattern, c.jobType, got)
		}
	}
}

func TestAWorkerIsCheckedBeforeItRuns(t *testing.T) {
	client, err := New(URL("http://server.test"))
	if err != nil {
		t.Fatal(err)
	}
	for want, options := range map[string][]WorkerOption{
		"Handle": nil, "Concurrency": {Concurrency(0)}, "Lease": {Lease(time.Millisecond)}, "queue": {Queues()},
	} {
		worker := NewWorker(client, options...)
		if want != "Handle" {
			worker.Handle("*", one)
		}
		var validation *ValidationError
		if err := worker.Run(context.Background()); !errors.As(err, &validation) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
