package main

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

func sound() []event {
	return []event{
		{Type: "submit", Op: 1, Key: "k", Unique: "u", Job: "a", FromMs: 0, AtMs: 1, Answer: "ok"},
		{Type: "submit", Op: 1, Key: "k", Unique: "u", Job: "a", FromMs: 2, AtMs: 3, Answer: "ok"},
		{Type: "claim", Job: "a", Token: "1", FromMs: 3, AtMs: 4},
		{Type: "claim", Job: "a", Token: "2", FromMs: 5, AtMs: 6},
		{Type: "ack", Job: "a", Token: "1", FromMs: 7, AtMs: 8, Answer: "refused"},
		{Type: "ack", Job: "a", Token: "2", FromMs: 7, AtMs: 9, Answer: "unknown"},
		{Type: "submit", Op: 2, Key: "l", Unique: "u", Job: "b", FromMs: 10, AtMs: 11, Answer: "unknown"},
		{Type: "final", Op: 1, Job: "a"},
		{Type: "final", Op: 2, Job: "b"},
	}
}

func verdicts(events []event) map[string]porcupine.CheckResult {
	found := map[string]porcupine.CheckResult{}
	for _, property := range properties(events) {
		found[property.name], _ = property.check()
	}
	return found
}

func TestASoundHistoryIsLinearizable(t *testing.T) {
	for name, result := range verdicts(sound()) {
		if result != porcupine.Ok {
			t.Errorf("%s: %s", name, result)
		}
	}
}

func TestEachBrokenPromiseIsNamed(t *testing.T) {
	for name, change := range map[string]func(events []event){
		"idempotency": func(events []event) { events[1].Job = "c" },
		"lease":       func(events []event) { events[4].Answer = "ok" },
		"unique":      func(events []event) { events[5].Answer = "refused" },
	} {
		events := sound()
		change(events)
		if result := verdicts(events)[name]; result != porcupine.Illegal {
			t.Errorf("%s: %s", name, result)
		}
	}
}
