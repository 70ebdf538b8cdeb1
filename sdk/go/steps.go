package forgerun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// recordedSteps are the results of named steps, as this attempt and those before have recorded them.
type recordedSteps struct {
	sync.Mutex
	loaded   bool
	oneByOne bool // whether the server records each step by itself; otherwise all go into the checkpoint, as one object
	results  map[string]json.RawMessage
}

// Step does a part of a job and records its result with the job, so that a later attempt is given the recorded result instead of doing
// the part again.
//
// The part is done at least once: if the process dies after doing it and before the result is recorded, the next attempt does it again.
// The first result that is recorded counts, also where two workers have done the part. Make the part itself repeatable, for example
// by an idempotency key made of the job's id and the name of the step. A result has at most 256 KiB of JSON; a job has at most 1,000
// steps with 1 MiB. Outside of a worker, and in jobs that come over HTTP, nothing is recorded.
func Step[T any](ctx context.Context, name string, do func(context.Context) (T, error)) (T, error) {
	job := JobFrom(ctx)
	if job == nil || job.leaseToken == "" {
		return do(ctx)
	}
	var value T
	recorded, err := job.recordedStep(ctx, name)
	if err != nil {
		return value, err
	}
	if recorded == nil {
		if value, err = do(ctx); err != nil {
			return value, err
		}
		if recorded, err = job.recordStep(ctx, name, value); err != nil || recorded == nil {
			return value, err
		}
		var none T
		value = none
	}
	if err := json.Unmarshal(recorded, &value); err != nil {
		return value, Fatal(fmt.Errorf("the recorded result of step %s does not fit: %w", name, err))
	}
	return value, nil
}

func (j *Job) checkpoint() string { return "/ojs/v1/checkpoints/" + segment(j.ID) }

// recordedStep returns the recorded result of a step; nil if it has none.
func (j *Job) recordedStep(ctx context.Context, name string) (json.RawMessage, error) {
	j.steps.Lock()
	defer j.steps.Unlock()
	if !j.steps.loaded {
		if err := j.loadSteps(ctx); err != nil {
			return nil, err
		}
	}
	return j.steps.results[name], nil
}

func (j *Job) loadSteps(ctx context.Context) error {
	var saved struct {
		State json.RawMessage            `json:"state"`
		Steps map[string]json.RawMessage `json:"steps"`
	}
	if err := j.client.fetch(ctx, get(j.checkpoint()+"/resume"), &saved); err != nil {
		return fmt.Errorf("could not read the recorded steps: %w", err)
	}
	results := map[string]json.RawMessage{}
	if len(saved.State) > 0 && json.Unmarshal(saved.State, &results) != nil {
		return Fatal(errors.New("the checkpoint of the job is not an object of steps"))
	}
	if results == nil {
		results = map[string]json.RawMessage{}
	}
	// What was saved as a whole counts too, unless a step was recorded by itself.
	for name, result := range saved.Steps {
		results[name] = result
	}
	j.steps.results, j.steps.oneByOne, j.steps.loaded = results, saved.Steps != nil, true
	return nil
}

// recordStep records the result of a step. If another one was recorded before, it returns that, which counts; otherwise nil.
func (j *Job) recordStep(ctx context.Context, name string, value any) (json.RawMessage, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, Fatal(fmt.Errorf("the result of step %s cannot be written as JSON: %w", name, err))
	}
	j.steps.Lock()
	defer j.steps.Unlock()
	err = j.sendStep(ctx, name, encoded)
	if api := apiError(err); api != nil && api.Details["reason"] == "step_recorded" {
		if err := j.loadSteps(ctx); err != nil {
			return nil, err
		}
		return j.steps.results[name], nil
	}
	if err != nil {
		return nil, fmt.Errorf("could not record step %s: %w", name, err)
	}
	j.steps.results[name] = encoded
	return nil, nil
}

func (j *Job) sendStep(ctx context.Context, name string, result json.RawMessage) error {
	path, body := j.checkpoint(), map[string]any{}
	if j.steps.oneByOne {
		path, body["result"] = "/ojs/v1/jobs/"+segment(j.ID)+"/checkpoint/"+segment(name), result
	} else {
		state := map[string]json.RawMessage{name: result}
		for other, recorded := range j.steps.results {
			if other != name {
				state[other] = recorded
			}
		}
		body["state"] = state
	}
	request, err := put(path).json(body)
	if err != nil {
		return err
	}
	return j.client.fetch(ctx, request.set("Lease-Token", j.leaseToken), nil)
}
