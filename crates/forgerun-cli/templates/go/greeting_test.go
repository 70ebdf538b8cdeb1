// go test ./... The second test starts a real server: the program forgerun from FORGERUN_BIN or the PATH.
package greeting_test

import (
	"context"
	"testing"
	"time"

	greeting "{{name}}"

	"github.com/forgerun/forgerun/sdk/go/forgeruntest"
)

func TestAGreetingNamesThePerson(t *testing.T) {
	run := forgeruntest.RunInline(context.Background(), t, greeting.Write, greeting.Person{Name: "Ada"})
	var got greeting.Greeting
	run.Bind(t, &got)
	if got.Text != "Good morning, Ada!" {
		t.Fatal(got.Text)
	}
}

func TestAGreetingIsWrittenByAWorker(t *testing.T) {
	client := forgeruntest.DevServer(t).Client(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- greeting.Work(working, client) }()
	text, err := greeting.Submit(ctx, client, "Ada")
	if err != nil || text != "Good morning, Ada!" {
		t.Fatalf("%q %v", text, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
