package forgerun

import (
	"context"
	"time"
)

// Workflow describes jobs that wait for each other. Make one with Chain, Group or NewWorkflow.
type Workflow struct {
	form   string // chain or group; "" for steps with names
	name   string
	policy string
	steps  []workflowStep
}

type workflowStep struct {
	id         string
	job        JobSpec
	after      []string
	when       string
	compensate *JobSpec
}

// Chain runs jobs one after the other. Each is given the result of the one before it (Parent, by its index: "0", "1", …).
func Chain(jobs ...JobSpec) *Workflow { return unnamed("chain", jobs) }

// Group runs jobs side by side.
func Group(jobs ...JobSpec) *Workflow { return unnamed("group", jobs) }

func unnamed(form string, jobs []JobSpec) *Workflow {
	w := &Workflow{form: form}
	for _, job := range jobs {
		w.steps = append(w.steps, workflowStep{job: job})
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

// Step adds a step with a name.
func (w *Workflow) Step(id string, job JobSpec, options ...StepOption) *Workflow {
	step := workflowStep{id: id, job: job}
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
	Type   string     `json:"type,omitempty"`
	Name   string     `json:"name,omitempty"`
	Policy string     `json:"failure_policy,omitempty"`
	Steps  []stepBody `json:"steps,omitempty"`
	Jobs   []stepBody `json:"jobs,omitempty"`
}

type stepBody struct {
	ID        string   `json:"id,omitempty"`
	DependsOn []string `json:"depends_on,omitempty"`
	When      string   `json:"when,omitempty"`
	*envelope
	Compensate *envelope `json:"compensate,omitempty"`
}

func (w *Workflow) body(now time.Time) (*workflowBody, error) {
	body := &workflowBody{Type: w.form, Name: w.name, Policy: w.policy}
	for _, step := range w.steps {
		job, err := step.job.envelope(now)
		if err != nil {
			return nil, err
		}
		described := stepBody{ID: step.id, DependsOn: step.after, When: step.when, envelope: job}
		if step.compensate != nil {
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
	Steps    []StepStatus `json:"steps"`
}

// StepStatus is a step of a workflow as it stands.
type StepStatus struct {
	ID    string `json:"id"`
	State State  `json:"state"`  // also WAITING and SKIPPED
	JobID string `json:"job_id"` // "" until its turn has come
	Error string `json:"error"`  // why it did not succeed
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
