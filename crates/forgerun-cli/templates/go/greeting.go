// Package greeting is the work of this project.
package greeting

import (
	"context"

	forgerun "github.com/forgerun/forgerun/sdk/go"
)

// Queue is where its jobs wait.
const Queue = "greetings"

// Person is what is submitted.
type Person struct {
	Name string `json:"name"`
}

// Greeting is the result.
type Greeting struct {
	Text string `json:"text"`
}

// Write does a job of type greeting.write.
func Write(ctx context.Context, job *forgerun.Job) (any, error) {
	var person Person
	if err := job.Bind(&person); err != nil {
		return nil, forgerun.Fatal(err)
	}
	// The result of a step is recorded: after a failure the next attempt goes on behind it.
	salutation, err := forgerun.Step(ctx, "choose", func(context.Context) (string, error) {
		return "Good morning", nil
	})
	if err != nil {
		return nil, err
	}
	if err := job.Progress(ctx, 50, "chosen"); err != nil {
		return nil, err
	}
	return Greeting{Text: salutation + ", " + person.Name + "!"}, nil
}

// Work does the jobs of the queue until ctx ends, SIGTERM or Ctrl-C.
func Work(ctx context.Context, client *forgerun.Client) error {
	worker := forgerun.NewWorker(client, forgerun.Queues(Queue), forgerun.Concurrency(8))
	worker.Handle("greeting.write", Write)
	return worker.Run(ctx)
}

// Submit submits a job and waits for its result.
func Submit(ctx context.Context, client *forgerun.Client, name string) (string, error) {
	job, err := client.Submit(ctx, "greeting.write", Person{Name: name}, forgerun.Queue(Queue), forgerun.MaxRetries(3))
	if err != nil {
		return "", err
	}
	greeting, err := forgerun.Result[Greeting](ctx, job)
	return greeting.Text, err
}
