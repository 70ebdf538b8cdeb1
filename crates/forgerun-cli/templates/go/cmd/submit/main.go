// Submits a job and waits for its result: go run ./cmd/submit Ada
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	greeting "{{name}}"

	forgerun "github.com/forgerun/forgerun/sdk/go"
)

func main() {
	name := "world"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	// The server is FORGERUN_URL, or http://127.0.0.1:8080.
	client, err := forgerun.New()
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	text, err := greeting.Submit(ctx, client, name)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
}
