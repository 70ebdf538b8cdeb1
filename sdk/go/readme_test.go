package forgerun_test

import (
	"bytes"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forgerun/forgerun/sdk/go/forgeruntest"
)

// program is what the first two blocks of the README are put into.
const program = `package main

import (
	"context"
	"fmt"
	"log"

	forgerun "github.com/forgerun/forgerun/sdk/go"
)

type Invoice struct {
	Customer string
	Amount   float64
}

func render(_ context.Context, invoice Invoice) (int, error) { return int(invoice.Amount) / 2, nil }

func work(ctx context.Context, client *forgerun.Client) {
%s}

func main() {
	ctx := context.Background()
	working, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	server, err := forgerun.New()
	if err != nil {
		log.Fatal(err)
	}
	go func() { defer close(stopped); work(working, server) }()
	submit(ctx)
	stop()
	<-stopped
}

func submit(ctx context.Context) {
%s}
`

func TestTheReadmeBeginsWithLinesThatWork(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a server")
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(readme), "```go\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	if lines := strings.Count(blocks[0], "\n"); lines > 10 {
		t.Fatalf("the README begins with %d lines, not ten", lines)
	}
	folder, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	module := t.TempDir()
	files := map[string]string{
		"main.go": fmt.Sprintf(program, blocks[1], blocks[0]),
		"go.mod":  "module readme\n\ngo 1.22\n\nrequire github.com/forgerun/forgerun/sdk/go v0.0.0\n\nreplace github.com/forgerun/forgerun/sdk/go => " + folder + "\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := forgeruntest.DevServer(t)
	command := exec.CommandContext(within(t, 5*time.Minute), "go", "run", ".")
	command.Dir, command.Env = module, append(os.Environ(), "FORGERUN_URL="+server.URL, "FORGERUN_API_KEY=")
	var trouble bytes.Buffer
	command.Stderr = &trouble
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, trouble.String())
	}
	equal(t, string(output), "21 <nil>\n")
}

func TestTheCodeIsFormatted(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if formatted, err := format.Source(text); err != nil || !bytes.Equal(formatted, text) {
			t.Errorf("%s is not formatted: run gofmt -w (%v)", path, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
