package forgerun

import (
	"context"
	"time"
)

// Schedule makes a job again and again.
type Schedule struct {
	Name        string
	Cron        string // five fields, or six with the seconds in front; @daily, @every 90s and the like
	Timezone    string // an IANA name; UTC if empty
	Job         JobSpec
	Overlap     string // skip (the default), allow, cancel_previous or enqueue
	CatchUp     string // none, one (the default) or all
	Jitter      time.Duration
	Description string
}

type scheduleBody struct {
	Cron        string      `json:"cron"`
	Timezone    string      `json:"timezone,omitempty"`
	Job         *submission `json:"job"`
	Overlap     string      `json:"overlap_policy,omitempty"`
	CatchUp     string      `json:"catch_up,omitempty"`
	JitterMS    int64       `json:"jitter_ms,omitempty"`
	Description string      `json:"description,omitempty"`
}

// ScheduleStatus is a schedule as it stands.
type ScheduleStatus struct {
	Name      string     `json:"name"`
	Cron      string     `json:"cron"`
	Timezone  string     `json:"timezone"`
	Enabled   bool       `json:"enabled"`
	NextRunAt *time.Time `json:"next_run_at"` // nil while it is paused
	LastJobID string     `json:"last_job_id"`
	RunCount  int        `json:"run_count"`
}

func schedulePath(name, rest string) string { return "/v1/schedules/" + segment(name) + rest }

// PutSchedule registers a schedule, or changes the one of that name. An application can do so whenever it starts.
func (c *Client) PutSchedule(ctx context.Context, schedule Schedule) (*ScheduleStatus, error) {
	job, o, err := schedule.Job.submission(c.now())
	if err != nil {
		return nil, err
	}
	if o.key != "" {
		return nil, usageError("schedule %s: IdempotencyKey belongs to Submit; each tick makes one job already", schedule.Name)
	}
	request, err := put(schedulePath(schedule.Name, "")).json(scheduleBody{
		Cron: schedule.Cron, Timezone: schedule.Timezone, Job: job, Overlap: schedule.Overlap, CatchUp: schedule.CatchUp,
		JitterMS: schedule.Jitter.Milliseconds(), Description: schedule.Description,
	})
	if err != nil {
		return nil, err
	}
	var status ScheduleStatus
	if err := c.fetch(ctx, request, &status); err != nil {
		return nil, err
	}
	return &status, nil
}

// Schedule asks how a schedule stands.
func (c *Client) Schedule(ctx context.Context, name string) (*ScheduleStatus, error) {
	var status ScheduleStatus
	if err := c.fetch(ctx, get(schedulePath(name, "")), &status); err != nil {
		return nil, err
	}
	return &status, nil
}

// PauseSchedule stops a schedule from making jobs until ResumeSchedule.
func (c *Client) PauseSchedule(ctx context.Context, name string) error {
	return c.fetch(ctx, post(schedulePath(name, "/pause")).safe(), nil)
}

// ResumeSchedule lets a schedule make jobs again.
func (c *Client) ResumeSchedule(ctx context.Context, name string) error {
	return c.fetch(ctx, post(schedulePath(name, "/resume")).safe(), nil)
}

// TriggerSchedule makes a job of a schedule now. It is not repeated by itself, since a second call makes a second job.
func (c *Client) TriggerSchedule(ctx context.Context, name string) (*Handle, error) {
	var submitted struct {
		JobID string `json:"job_id"`
	}
	if err := c.fetch(ctx, post(schedulePath(name, "/trigger")), &submitted); err != nil {
		return nil, err
	}
	return c.Job(submitted.JobID), nil
}

// DeleteSchedule deletes a schedule. Its jobs stay.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	return c.fetch(ctx, del(schedulePath(name, "")), nil)
}
