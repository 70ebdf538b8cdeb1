// River on PostgreSQL. Called with the URL of a database and the number of jobs; prints one row of the table.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const atOnce = 64

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

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// rate submits jobs, atOnce of them under way, to a queue.
func submit(client *river.Client[pgx.Tx], queue string, count int) time.Duration {
	args := report{"monthly", []string{"a@example.com", "b@example.com"}, "a body of about three hundred bytes, as a submission has in real life"}
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range atOnce {
		all.Add(1)
		go func() {
			defer all.Done()
			for next.Add(1) <= int64(count) {
				_, err := client.Insert(context.Background(), args, &river.InsertOpts{Queue: queue})
				must(err)
			}
		}()
	}
	all.Wait()
	return time.Since(began)
}

func main() {
	count, err := strconv.Atoi(os.Args[2])
	must(err)
	ctx := context.Background()
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
	var ended atomic.Int64
	workers := river.NewWorkers()
	river.AddWorker(workers, &reporter{ended: &ended})
	client, err := river.NewClient(driver, &river.Config{
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Queues:  map[string]river.QueueConfig{"worked": {MaxWorkers: 256, FetchCooldown: time.Millisecond, FetchPollInterval: 100 * time.Millisecond}},
		Workers: workers,
	})
	must(err)
	submitted := float64(count) / submit(client, "filled", count).Seconds()
	_, err = pool.Exec(ctx, "DELETE FROM river_job")
	must(err)
	must(client.Start(ctx))
	began := time.Now()
	submit(client, "worked", count)
	for ended.Load() < int64(count) {
		time.Sleep(5 * time.Millisecond)
	}
	whole := float64(count) / time.Since(began).Seconds()
	must(client.Stop(ctx))
	fmt.Printf("| River, PostgreSQL | %.0f/s | %.0f/s |\n", submitted, whole)
}
