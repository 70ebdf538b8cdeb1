package forgerun

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"
)

const submitInSQL = "SELECT forgerun.submit($1, $2::jsonb, $3::jsonb)::text"

// SubmitIn submits a job inside a transaction of the application's own PostgreSQL, a *sql.Tx, and returns its id. The job exists if the
// transaction commits; `forgerun outbox` sends it.
func SubmitIn(ctx context.Context, tx interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, jobType string, input any, options ...JobOption) (string, error) {
	values, err := NewJob(jobType, input, options...).outboxValues()
	if err != nil {
		return "", err
	}
	var id string
	err = tx.QueryRowContext(ctx, submitInSQL, values...).Scan(&id)
	return id, err
}

// SubmitInPgx does the same inside a transaction of pgx, a pgx.Tx.
func SubmitInPgx[Row interface{ Scan(dest ...any) error }](ctx context.Context, tx interface {
	QueryRow(ctx context.Context, query string, args ...any) Row
}, jobType string, input any, options ...JobOption) (string, error) {
	values, err := NewJob(jobType, input, options...).outboxValues()
	if err != nil {
		return "", err
	}
	var id string
	err = tx.QueryRow(ctx, submitInSQL, values...).Scan(&id)
	return id, err
}

// outboxValues are the arguments of forgerun.submit.
func (spec JobSpec) outboxValues() ([]any, error) {
	envelope, err := spec.envelope(time.Now())
	if err != nil {
		return nil, err
	}
	options, err := json.Marshal(envelope.Options)
	if err != nil {
		return nil, usageError("%s: %v", spec.Type, err)
	}
	return []any{spec.Type, string(envelope.Args), string(options)}, nil
}
