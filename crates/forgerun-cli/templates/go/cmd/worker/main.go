// Does the jobs of the queue until SIGTERM or Ctrl-C: go run ./cmd/worker
package main

import (
	"context"
	"log"

	greeting "{{name}}"

	forgerun "github.com/forgerun/forgerun/sdk/go"
)

func main() {
	client, err := forgerun.New()
	if err != nil {
		log.Fatal(err)
	}
	if err := greeting.Work(context.Background(), client); err != nil {
		log.Fatal(err)
	}
}
