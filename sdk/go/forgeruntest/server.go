// Package forgeruntest helps to test code that submits or does jobs: a fake client with assertions, handlers run inline, and a real
// server on a free port.
package forgeruntest

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	forgerun "github.com/forgerun/forgerun/sdk/go"
)

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 15 * time.Second
)

// Server is a server that runs for a test.
type Server struct {
	URL string

	command *exec.Cmd
	log     *logBuffer
	exited  chan struct{}
	once    sync.Once
}

// DevServer starts `forgerun dev` on a free port, with the binary of FORGERUN_BIN or the one in PATH, and stops it when the test ends.
// It keeps nothing and asks for no keys. The test fails if there is no binary.
func DevServer(t testing.TB) *Server {
	t.Helper()
	return StartServer(t, "dev", "--listen", "127.0.0.1:0")
}

// StartServer does the same with arguments of your own, such as `serve`.
func StartServer(t testing.TB, arguments ...string) *Server {
	t.Helper()
	binary := os.Getenv("FORGERUN_BIN")
	if binary == "" {
		var err error
		if binary, err = exec.LookPath("forgerun"); err != nil {
			t.Fatal("no forgerun binary: set FORGERUN_BIN to its path, or put it into PATH")
		}
	}
	s := &Server{command: exec.Command(binary, arguments...), log: &logBuffer{}, exited: make(chan struct{})}
	for _, variable := range os.Environ() {
		// A server reads FORGERUN_SECTION__KEY and refuses other names, such as FORGERUN_BIN.
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "FORGERUN_") || strings.Contains(name, "__") {
			s.command.Env = append(s.command.Env, variable)
		}
	}
	s.command.Stderr = s.log
	output, err := s.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		t.Fatalf("could not start %s: %v", binary, err)
	}
	first := make(chan string, 1)
	go func() {
		defer close(s.exited)
		lines := bufio.NewScanner(output)
		for n := 0; lines.Scan(); n++ {
			if n == 0 {
				first <- lines.Text()
			}
		}
		close(first)
		_ = s.command.Wait()
	}()
	t.Cleanup(s.Stop)
	select {
	case line := <-first:
		url, ok := strings.CutPrefix(line, "forgerun listening on ")
		if !ok {
			s.Stop()
			t.Fatalf("the server did not start: %q\n%s", line, s.log)
		}
		s.URL = strings.TrimSpace(url)
	case <-time.After(startTimeout):
		s.Kill()
		t.Fatalf("the server did not start within %s\n%s", startTimeout, s.log)
	}
	return s
}

// Client returns a client of the server.
func (s *Server) Client(t testing.TB, options ...forgerun.Option) *forgerun.Client {
	t.Helper()
	client, err := forgerun.New(append([]forgerun.Option{forgerun.URL(s.URL), forgerun.Key("")}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Stop asks the server to stop and waits for its end.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the server at once.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

func (s *Server) end(signal syscall.Signal) {
	s.once.Do(func() {
		_ = s.command.Process.Signal(signal)
		select {
		case <-s.exited:
		case <-time.After(stopTimeout):
			_ = s.command.Process.Kill()
			<-s.exited
		}
	})
}

// logBuffer keeps the end of what the server logs.
type logBuffer struct {
	mu   sync.Mutex
	tail bytes.Buffer
}

const logBytesMax = 64 << 10

func (b *logBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tail.Write(text)
	if over := b.tail.Len() - logBytesMax; over > 0 {
		b.tail.Next(over)
	}
	return len(text), nil
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf("--- log of the server\n%s", b.tail.String())
}
