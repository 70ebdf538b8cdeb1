//go:build unix

// Bench measures whole jobs by one worker process: a queue is filled, then a worker with a handler that does nothing empties it.
//
//	go run ./internal/bench -jobs 100000 -concurrency 32
//
// The server is that of FORGERUN_URL. It prints one line: jobs per second, and processor time of this process per job.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"runtime/pprof"
	"sync/atomic"
	"syscall"
	"time"

	forgerun "github.com/forgerun/forgerun/sdk/go"
)

type report struct {
	Report     string   `json:"report"`
	Recipients []string `json:"recipients"`
	Notes      string   `json:"notes"`
}

func main() {
	jobs := flag.Int("jobs", 50_000, "jobs to do")
	concurrency := flag.Int("concurrency", 32, "handlers at once")
	profile := flag.String("profile", "", "write a processor profile of the worker to this file")
	flag.Parse()
	slog.SetLogLoggerLevel(slog.LevelWarn)
	ctx, stop := context.WithCancel(context.Background())
	client, err := forgerun.New()
	must(err)
	queue := fmt.Sprintf("bench.%d", time.Now().UnixNano())
	input := report{"monthly", []string{"a@example.com", "b@example.com"}, "a body of about three hundred bytes, as a submission has in real life"}
	specs := make([]forgerun.JobSpec, *jobs)
	for i := range specs {
		specs[i] = forgerun.NewJob("bench.report", input, forgerun.Queue(queue))
	}
	submitting := time.Now()
	_, err = client.SubmitMany(ctx, specs...)
	must(err)
	submitted := time.Since(submitting)

	var ended atomic.Int64
	worker := forgerun.NewWorker(client, forgerun.Queues(queue), forgerun.Concurrency(*concurrency))
	worker.Handle("bench.report", func(context.Context, *forgerun.Job) (any, error) {
		if ended.Add(1) == int64(*jobs) {
			stop()
		}
		return nil, nil
	})
	if *profile != "" {
		file, err := os.Create(*profile)
		must(err)
		must(pprof.StartCPUProfile(file))
		defer pprof.StopCPUProfile()
	}
	cpu, began := processorTime(), time.Now()
	must(worker.Run(ctx)) // returns once the last end is reported
	took := time.Since(began)
	cpu = processorTime() - cpu
	fmt.Printf("forgerun go: submit_many %.0f/s, worker %.0f/s, %.1f us of processor time per job, %d handled\n",
		float64(*jobs)/submitted.Seconds(), float64(*jobs)/took.Seconds(), float64(cpu.Microseconds())/float64(*jobs), ended.Load())
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
