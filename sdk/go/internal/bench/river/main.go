// River measures the same with River on PostgreSQL: jobs are inserted, then one process with a worker that does nothing empties the
// queue. Called with the URL of a database, the number of jobs and how many are done at once.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type report struct {
	Report     string   `json:"report"`
	Recipients []string `json:"recipients"`
	Notes      string   `json:"notes"`
}

func (report) Kind() string { return "report" }

type reporter struct {
	river.WorkerDefaults[report]
	ended *atomic.Int64
}

func (r *reporter) Work(context.Context, *river.Job[report]) error {
	r.ended.Add(1)
	return nil
}

func main() {
	ctx := context.Background()
	jobs, err := strconv.Atoi(os.Args[2])
	must(err)
	atOnce, err := strconv.Atoi(os.Args[3])
	must(err)
	config, err := pgxpool.ParseConfig(os.Args[1])
	must(err)
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(ctx, config)
	must(err)
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	must(err)
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	must(err)
	_, err = pool.Exec(ctx, "TRUNCATE river_job")
	must(err)

	var ended atomic.Int64
	workers := river.NewWorkers()
	river.AddWorker(workers, &reporter{ended: &ended})
	client, err := river.NewClient(driver, &river.Config{
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Queues:  map[string]river.QueueConfig{"worked": {MaxWorkers: atOnce, FetchCooldown: time.Millisecond, FetchPollInterval: 100 * time.Millisecond}},
		Workers: workers,
	})
	must(err)
	submitted := fill(ctx, client, jobs)

	cpu, began := processorTime(), time.Now()
	must(client.Start(ctx))
	for ended.Load() < int64(jobs) {
		time.Sleep(time.Millisecond)
	}
	must(client.Stop(ctx)) // returns once the last end is written
	took := time.Since(began)
	cpu = processorTime() - cpu
	fmt.Printf("river, %d at once: submit_many %.0f/s, worker %.0f/s, %.1f us of processor time per job\n",
		atOnce, float64(jobs)/submitted.Seconds(), float64(jobs)/took.Seconds(), float64(cpu.Microseconds())/float64(jobs))
}

// fill inserts jobs a thousand at a time, in the fastest way that River has.
func fill(ctx context.Context, client *river.Client[pgx.Tx], jobs int) time.Duration {
	args := report{"monthly", []string{"a@example.com", "b@example.com"}, "a body of about three hundred bytes, as a submission has in real life"}
	began := time.Now()
	for left := jobs; left > 0; left -= 1000 {
		batch := make([]river.InsertManyParams, min(left, 1000))
		for i := range batch {
			batch[i] = river.InsertManyParams{Args: args, InsertOpts: &river.InsertOpts{Queue: "worked"}}
		}
		_, err := client.InsertManyFast(ctx, batch)
		must(err)
	}
	return time.Since(began)
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
