package forgerun

import (
	"context"
	"time"
)

// Workflow describes jobs that wait for each other. Make one with Chain, Group or NewWorkflow.
type Workflow struct {
	form     string // chain or group; "" for steps with names
	name     string
	policy   string
	deadline string
	steps    []workflowStep
}

type workflowStep struct {
	id         string
	work       Work
	after      []string
	when       string
	compensate *JobSpec
}

// Chain does steps one after the other. Each job is given the result of the one before it (Parent, by its index: "0", "1", …).
func Chain(steps ...Work) *Workflow { return unnamed("chain", steps) }

// Group does steps side by side.
func Group(steps ...Work) *Workflow { return unnamed("group", steps) }

func unnamed(form string, steps []Work) *Workflow {
	w := &Workflow{form: form}
	for _, work := range steps {
		w.steps = append(w.steps, workflowStep{work: work})
	}
	return w
}

// NewWorkflow begins a workflow whose steps have names. Add them with Step.
func NewWorkflow(name string) *Workflow { return &Workflow{name: name} }

// Named sets what you call the workflow.
func (w *Workflow) Named(name string) *Workflow {
	w.name = name
	return w
}

// OnFailure sets what happens to the other steps when one fails: "continue" (the default), "stop" or "compensate".
func (w *Workflow) OnFailure(policy string) *Workflow {
	w.policy = policy
	return w
}

// Deadline bounds the whole workflow, counted from its submission. What is left then is cancelled, and the workflow has failed.
func (w *Workflow) Deadline(limit time.Duration) *Workflow {
	w.deadline = formatDuration(limit)
	return w
}

// DeadlineAt is the time by which the workflow must have ended.
func (w *Workflow) DeadlineAt(at time.Time) *Workflow {
	w.deadline = formatTime(at)
	return w
}

// Step adds a step with a name.
func (w *Workflow) Step(id string, work Work, options ...StepOption) *Workflow {
	step := workflowStep{id: id, work: work}
	for _, option := range options {
		option(&step)
	}
	w.steps = append(w.steps, step)
	return w
}

// StepOption sets an option of a step.
type StepOption func(*workflowStep)

// After makes a step wait for others.
func After(steps ...string) StepOption {
	return func(s *workflowStep) { s.after = append(s.after, steps...) }
}

// When sets the condition on which a step has its turn: "all_succeeded" (the default), "all_ended" or "any_failed".
func When(condition string) StepOption { return func(s *workflowStep) { s.when = condition } }

// Compensate names the job that undoes a step.
func Compensate(job JobSpec) StepOption { return func(s *workflowStep) { s.compensate = &job } }

type workflowBody struct {
	Type     string     `json:"type,omitempty"`
	Name     string     `json:"name,omitempty"`
	Policy   string     `json:"failure_policy,omitempty"`
	Deadline string     `json:"deadline,omitempty"`
	Steps    []stepBody `json:"steps,omitempty"`
	Jobs     []stepBody `json:"jobs,omitempty"`
}

type stepBody struct {
	ID        string   `json:"id,omitempty"`
	DependsOn []string `json:"depends_on,omitempty"`
	When      string   `json:"when,omitempty"`
	*envelope
	Wait       *waitBody     `json:"wait,omitempty"`
	ForEach    *eachBody     `json:"for_each,omitempty"`
	Parallel   int           `json:"parallel,omitempty"`
	Workflow   *workflowBody `json:"workflow,omitempty"`
	Compensate *envelope     `json:"compensate,omitempty"`
}

func (w *Workflow) body(now time.Time) (*workflowBody, error) {
	body := &workflowBody{Type: w.form, Name: w.name, Policy: w.policy, Deadline: w.deadline}
	for _, step := range w.steps {
		described := stepBody{ID: step.id, DependsOn: step.after, When: step.when}
		if err := step.work.describe(now, &described); err != nil {
			return nil, err
		}
		if step.compensate != nil {
			var err error
			if described.Compensate, err = step.compensate.envelope(now); err != nil {
				return nil, err
			}
		}
		if w.form == "group" {
			body.Jobs = append(body.Jobs, described)
		} else {
			body.Steps = append(body.Steps, described)
		}
	}
	return body, nil
}

// WorkflowHandle is a workflow that was submitted. It has a job of its own with the same id, so all that a Handle can do is there too;
// use Status of WorkflowHandle for its steps.
type WorkflowHandle struct{ *Handle }

// WorkflowStatus is a workflow as it stands.
type WorkflowStatus struct {
	ID       string       `json:"workflow_id"`
	Name     string       `json:"name"`
	State    State        `json:"state"`
	Progress int          `json:"progress"` // percent of its steps that are over
	Paused   bool         `json:"paused"`   // held back until it is resumed
	Deadline *time.Time   `json:"deadline"`
	Steps    []StepStatus `json:"steps"`
}

// StepStatus is a step of a workflow as it stands.
type StepStatus struct {
	ID    string `json:"id"`
	State State  `json:"state"`  // also WAITING and SKIPPED
	JobID string `json:"job_id"` // "" until its turn has come
	Error string `json:"error"`  // why it did not succeed

	Wait     *WaitStatus    `json:"wait"`     // of a step that waits
	Elements *ElementCounts `json:"elements"` // of a job for each element of a list
}

// WaitStatus is a step that waits.
type WaitStatus struct {
	Signal string     `json:"signal"` // what it waits for; "" for a time
	DueAt  *time.Time `json:"due_at"` // when it ends by itself
	Token  string     `json:"token"`  // sends the signal without a key
	URL    string     `json:"url"`    // of a page where people answer
}

// ElementCounts is how many elements of a list stand where.
type ElementCounts struct {
	Total     int `json:"total"`
	Waiting   int `json:"waiting"`
	Active    int `json:"active"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
}

// Workflow returns the handle of a workflow by its id. It asks the server nothing.
func (c *Client) Workflow(id string) *WorkflowHandle { return &WorkflowHandle{c.Job(id)} }

// SubmitWorkflow begins a workflow. Sent again after trouble, it is still one workflow.
func (c *Client) SubmitWorkflow(ctx context.Context, workflow *Workflow) (*WorkflowHandle, error) {
	body, err := workflow.body(c.now())
	if err != nil {
		return nil, err
	}
	request, err := post("/v1/workflows").keyed(newKey()).json(body)
	if err != nil {
		return nil, err
	}
	var status WorkflowStatus
	if err := c.fetch(ctx, request, &status); err != nil {
		return nil, err
	}
	return c.Workflow(status.ID), nil
}

func (h *WorkflowHandle) path(rest string) string { return "/v1/workflows/" + segment(h.ID) + rest }

// Status asks where the workflow and its steps stand.
func (h *WorkflowHandle) Status(ctx context.Context) (*WorkflowStatus, error) {
	var status WorkflowStatus
	if err := h.client.fetch(ctx, get(h.path("")), &status); err != nil {
		return nil, err
	}
	return &status, nil
}

// StepJob returns the handle of the job of a step, or an error if its turn has not come.
func (h *WorkflowHandle) StepJob(ctx context.Context, step string) (*Handle, error) {
	status, err := h.Status(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range status.Steps {
		if s.ID == step && s.JobID != "" {
			return h.client.Job(s.JobID), nil
		}
	}
	return nil, usageError("step %q of workflow %s has no job yet", step, h.ID)
}

// Cancel cancels what is left of the workflow, and undoes the steps that succeeded.
func (h *WorkflowHandle) Cancel(ctx context.Context) error {
	return h.client.fetch(ctx, post(h.path("/cancel")).safe(), nil)
}

// Retry tries again what failed, and what did not have its turn.
func (h *WorkflowHandle) Retry(ctx context.Context) error {
	return h.client.fetch(ctx, post(h.path("/retry")).safe(), nil)
}
