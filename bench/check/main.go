// Checks a history of `forgerun prove` for linearizability with porcupine, which is not ours. The models are a few
// lines each and know nothing of the server:
//
//   - idempotency: all answers to one key name one job;
//   - lease: of the workers that were handed a job, the latest may end it, and it ends once;
//   - unique: a unique key has one holder, until that job has ended.
//
// Usage: check HISTORY.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// event is a line of the history; docs/reference/prove.md describes them.
type event struct {
	Type   string  `json:"type"`
	Op     uint64  `json:"op"`
	Key    string  `json:"key"`
	Unique string  `json:"unique"`
	Job    string  `json:"job"`
	Token  string  `json:"token"`
	FromMs float64 `json:"from_ms"`
	AtMs   float64 `json:"at_ms"`
	Answer string  `json:"answer"`
}

// input of an operation; the answer is its output.
type input struct {
	kind, job, token string
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: check HISTORY.jsonl")
		os.Exit(2)
	}
	events, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	violated := false
	for _, property := range properties(events) {
		result, n := property.check()
		fmt.Printf("%s: %d histories, %d operations: %s\n", property.name, len(property.histories), n, result)
		violated = violated || result != porcupine.Ok
	}
	if violated {
		os.Exit(1)
	}
}

func read(path string) ([]event, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var events []event
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for n := 1; lines.Scan(); n++ {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		events = append(events, e)
	}
	return events, lines.Err()
}

// property is a model and the histories that must follow it, by key or job.
type property struct {
	name      string
	model     porcupine.Model
	histories map[string][]porcupine.Operation
}

func (p property) check() (porcupine.CheckResult, int) {
	n := 0
	for name, history := range p.histories {
		n += len(history)
		if result := porcupine.CheckOperationsTimeout(p.model, history, time.Minute); result != porcupine.Ok {
			fmt.Printf("%s: %s is not linearizable\n", p.name, name)
			return result, n
		}
	}
	return porcupine.Ok, n
}

func (p property) add(key string, e event, in input) {
	until := e.AtMs
	if e.Answer == "unknown" {
		// It may take effect at any time, or never.
		until = math.MaxInt64 / 1e7
	}
	operation := porcupine.Operation{
		ClientId: len(p.histories[key]), Input: in, Output: e.Answer,
		Call: int64(e.FromMs * 1e6), Return: int64(until * 1e6),
	}
	p.histories[key] = append(p.histories[key], operation)
}

func properties(events []event) []property {
	idempotency := property{"idempotency", idempotencyModel, map[string][]porcupine.Operation{}}
	lease := property{"lease", leaseModel, map[string][]porcupine.Operation{}}
	unique := property{"unique", uniqueModel, map[string][]porcupine.Operation{}}
	holds := map[string]string{}
	for key, submissions := range holders(events) {
		for _, e := range submissions {
			holds[e.Job] = key
			unique.add(key, e, input{"submit", e.Job, ""})
		}
	}
	for _, e := range events {
		in := input{e.Type, e.Job, e.Token}
		switch e.Type {
		case "submit":
			if e.Answer == "ok" {
				idempotency.add(e.Key, e, in)
			}
		case "claim":
			e.Answer = "ok"
			lease.add(e.Job, e, in)
		case "ack", "nack", "cancel":
			lease.add(e.Job, e, in)
			if key := holds[e.Job]; key != "" && e.Type != "nack" {
				unique.add(key, e, in)
			}
		}
	}
	return []property{idempotency, lease, unique}
}

// holders are the jobs that held each unique key. A submission that was repeated took effect once, between its first try and
// its answer; one that was never answered did so if its job is there in the end.
func holders(events []event) map[string][]event {
	jobs := map[uint64]string{}
	for _, e := range events {
		if e.Type == "final" {
			jobs[e.Op] = e.Job
		}
	}
	first := map[string]event{}
	for _, e := range events {
		if e.Type != "submit" || e.Unique == "" {
			continue
		}
		known, isKnown := first[e.Key]
		if !isKnown {
			known = e
		} else if known.Answer == "unknown" {
			known.AtMs, known.Answer = e.AtMs, e.Answer
		}
		known.Job = jobs[e.Op]
		first[e.Key] = known
	}
	found := map[string][]event{}
	for _, e := range first {
		if e.Job != "" && e.Answer != "refused" {
			found[e.Unique] = append(found[e.Unique], e)
		}
	}
	return found
}

// The state is the job of the key.
var idempotencyModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, in, out any) (bool, any) {
		job := in.(input).job
		return state == "" || state == job, job
	},
}

// held is a job: which token is the latest, and how it ended.
type held struct{ token, end string }

var leaseModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{held{}} },
	Step: func(state, in, out any) []any {
		job, i, answer := state.(held), in.(input), out.(string)
		after := job
		switch i.kind {
		case "claim":
			after.token = i.token
		case "nack":
			after.token = ""
		default:
			after.end = i.kind
		}
		isHeld := i.kind == "claim" || i.kind == "cancel" || job.token == i.token
		mayBe := isHeld && (job.end == "" || (i.kind == "cancel" && job.end == "cancel"))
		switch {
		case answer == "refused":
			// A lease may be over before the next worker has the job.
			return []any{job}
		case answer == "unknown" && mayBe:
			return []any{job, after}
		case answer == "unknown":
			return []any{job}
		case mayBe:
			return []any{after}
		}
		return nil
	},
}).ToModel()

// The state is the job that holds the key. An answer that is missing may have ended it.
var uniqueModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{""} },
	Step: func(state, in, out any) []any {
		holder, i, answer := state.(string), in.(input), out.(string)
		switch {
		case i.kind == "submit" && holder == "":
			return []any{i.job}
		case i.kind == "submit":
			return nil
		case answer == "refused" || holder != i.job:
			return []any{holder}
		case answer == "unknown":
			return []any{holder, ""}
		}
		return []any{""}
	},
}).ToModel()
