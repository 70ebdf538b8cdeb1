package forgerun

import (
	"context"
	"encoding/json"
	"time"
)

// Work is what a step of a workflow does: a job (NewJob), a wait (WaitFor, WaitUntil, WaitSignal), a job for each element of a list
// (ForEach), or a workflow of its own (Nested).
type Work interface {
	// describe fills in what the step does.
	describe(now time.Time, into *stepBody) error
}

func (spec JobSpec) describe(now time.Time, into *stepBody) (err error) {
	into.envelope, err = spec.envelope(now)
	return err
}

// Wait is a step that waits instead of working.
type Wait struct {
	body   waitBody
	schema any
}

type waitBody struct {
	For     string          `json:"for,omitempty"`
	Until   string          `json:"until,omitempty"`
	Signal  string          `json:"signal,omitempty"`
	Timeout string          `json:"timeout,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"`
}

// WaitFor waits for this long after the turn of the step has come.
func WaitFor(span time.Duration) Wait { return Wait{body: waitBody{For: formatDuration(span)}} }

// WaitUntil waits until this time.
func WaitUntil(at time.Time) Wait { return Wait{body: waitBody{Until: formatTime(at)}} }

// WaitSignal waits for a signal (Client.Signal), whose payload becomes the result of the step. After timeout the step fails.
func WaitSignal(name string, timeout time.Duration) Wait {
	return Wait{body: waitBody{Signal: name, Timeout: formatDuration(timeout)}}
}

// Schema sets the JSON Schema of the payload of a signal: anything that encoding/json can write.
func (w Wait) Schema(schema any) Wait {
	w.schema = schema
	return w
}

func (w Wait) describe(_ time.Time, into *stepBody) error {
	body := w.body
	if w.schema != nil {
		schema, err := json.Marshal(w.schema)
		if err != nil {
			return usageError("the schema of signal %s cannot be written as JSON: %v", body.Signal, err)
		}
		body.Schema = schema
	}
	into.Wait = &body
	return nil
}

// Each describes the elements of ForEach.
type Each struct {
	Over     string      // the step whose result has the list; in a chain it may be left out
	Pointer  string      // JSON pointer to the list; "" for the whole result
	Args     []any       // the arguments of a job, in which "$item" and "$index" stand for the element and its position; "$item" if empty
	Parallel int         // how many jobs run at once; 100 if zero
	Options  []JobOption // of each job
}

type eachBody struct {
	Step    string `json:"step,omitempty"`
	Pointer string `json:"pointer,omitempty"`
}

type forEach struct {
	jobType string
	each    Each
}

// ForEach is a job of this type for each element of a list, as one step. Its result is the list of their results.
func ForEach(jobType string, each Each) Work { return forEach{jobType, each} }

func (f forEach) describe(now time.Time, into *stepBody) error {
	args := f.each.Args
	if len(args) == 0 {
		args = []any{"$item"}
	}
	encoded, err := json.Marshal(args)
	if err != nil {
		return usageError("the arguments of %s cannot be written as JSON: %v", f.jobType, err)
	}
	if into.envelope, err = NewJob(f.jobType, nil, f.each.Options...).envelope(now); err != nil {
		return err
	}
	into.envelope.Args = encoded
	into.ForEach, into.Parallel = &eachBody{f.each.Over, f.each.Pointer}, f.each.Parallel
	return nil
}

type nested struct{ workflow *Workflow }

// Nested makes a workflow a step of another. Its result is an object with the results of its steps.
func Nested(workflow *Workflow) Work { return nested{workflow} }

func (n nested) describe(now time.Time, into *stepBody) (err error) {
	into.Workflow, err = n.workflow.body(now)
	return err
}

// Signal ends the step of a workflow that waits for this signal; payload, anything that encoding/json can write, becomes the result of
// the step.
//
// A signal that comes before the wait is kept, and the same one again changes nothing. Another payload, or one after the timeout, is a
// *ConflictError; an unknown name is a *ResourceError.
func (c *Client) Signal(ctx context.Context, workflowID, name string, payload any) error {
	return c.Workflow(workflowID).Signal(ctx, name, payload)
}

// Signal ends the step that waits for this signal. See Client.Signal.
func (h *WorkflowHandle) Signal(ctx context.Context, name string, payload any) error {
	request, err := post(h.path("/signals/" + segment(name))).safe().json(payload)
	if err != nil {
		return err
	}
	return h.client.fetch(ctx, request, nil)
}

// Pause holds the workflow back: no step starts until it is resumed. Steps that run go on.
func (h *WorkflowHandle) Pause(ctx context.Context) error {
	return h.client.fetch(ctx, post(h.path("/pause")).safe(), nil)
}

// Resume ends the pause of the workflow and of its steps.
func (h *WorkflowHandle) Resume(ctx context.Context) error {
	return h.client.fetch(ctx, post(h.path("/resume")).safe(), nil)
}
