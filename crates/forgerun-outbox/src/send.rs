//! Sends rows: all of them with one request, in halves where the server refuses one of them.

use std::time::Duration;

use forgerun_client::ojs::NewJob;
use forgerun_client::{ApiError, Client, Error};
use forgerun_store::outbox::{OutboxRow, Refused, Settled};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Requests per transaction of the outbox; rows that are left are taken again.
const REQUESTS_MAX: usize = 100;

/// No server is given less time because it asked for more than this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Sent {
    pub(crate) settled: Settled,
    /// How long the server asked to wait.
    pub(crate) retry_after: Option<Duration>,
}

/// What an error says about the rows of a request.
enum Verdict<'a> {
    /// A row of them will never be accepted.
    Row(&'a ApiError),
    /// The rows may be accepted later.
    Later(Option<Duration>),
}

/// Sends rows in order, until all are settled or the server does not take any.
pub(crate) async fn send(client: &Client, rows: &[OutboxRow]) -> Sent {
    let mut sent = Sent { settled: Settled::default(), retry_after: None };
    let mut parts: Vec<&[OutboxRow]> = vec![rows];
    for _ in 0..REQUESTS_MAX {
        let Some(part) = parts.pop() else { break };
        let error = match submit(client, part).await {
            Ok(()) => {
                sent.settled.sent.extend(part.iter().map(|row| row.seq));
                continue;
            }
            Err(error) => error,
        };
        match (verdict(&error), part) {
            (Verdict::Later(retry_after), _) => {
                sent.settled.error = Some(error.to_string());
                sent.retry_after = retry_after.map(|wait| wait.min(RETRY_AFTER_MAX));
                break;
            }
            (Verdict::Row(said), [row]) if has_arrived(said, row) => sent.settled.sent.push(row.seq),
            (Verdict::Row(said), [row]) => {
                tracing::warn!(job_id = row.id, job_type = row.job_type, %error, "outbox: job refused");
                sent.settled.refused.push(Refused { seq: row.seq, problem: problem(said) });
            }
            (Verdict::Row(_), part) => {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
            }
        }
    }
    sent
}

async fn submit(client: &Client, rows: &[OutboxRow]) -> Result<(), Error> {
    match rows {
        [row] => client.ojs().submit(&job(row).idempotency_key(&row.id)).await.map(drop),
        rows => {
            let jobs: Vec<NewJob> = rows.iter().map(job).collect();
            client.ojs().submit_batch(&jobs).await
        }
    }
}

fn job(row: &OutboxRow) -> NewJob {
    let args = if row.args.starts_with('[') { row.args.clone() } else { format!("[{}]", row.args) };
    let args = RawValue::from_string(args).expect("jsonb is JSON");
    let options: Map<String, Value> = serde_json::from_str(&row.options).unwrap_or_default();
    let job = NewJob::raw(&row.job_type, args).id(&row.id);
    options.into_iter().fold(job, |job, (name, value)| job.option(&name, value))
}

fn verdict(error: &Error) -> Verdict<'_> {
    match error.api() {
        Some(said) if !said.retryable && matches!(said.status, Some(400 | 409 | 413 | 422)) => {
            Verdict::Row(said)
        }
        Some(said) => Verdict::Later(said.retry_after),
        None => Verdict::Later(None),
    }
}

/// Whether the server has the job of this row already: one of ours with its id. Of a job of another client it does not show the state.
fn has_arrived(said: &ApiError, row: &OutboxRow) -> bool {
    said.details.get("existing_job_id").and_then(Value::as_str) == Some(&row.id)
        && said.details.contains_key("existing_state")
}

fn problem(said: &ApiError) -> String {
    let is_bare = said.problem == Default::default();
    if is_bare {
        return serde_json::json!({"title": said.message, "status": said.status, "code": said.code})
            .to_string();
    }
    said.problem.to_json()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(args: &str, options: &str) -> Value {
        let id = "0198a2f0-0000-7000-8000-000000000001".to_owned();
        let row =
            OutboxRow { seq: 1, id, job_type: "a.b".into(), args: args.into(), options: options.into() };
        serde_json::to_value(job(&row)).unwrap()
    }

    #[test]
    fn a_row_becomes_an_envelope_with_its_id() {
        let envelope = row(r#"{"n": 1}"#, r#"{"queue": "q"}"#);
        assert_eq!(envelope["id"], "0198a2f0-0000-7000-8000-000000000001");
        assert_eq!(envelope["options"], serde_json::json!({"queue": "q"}));
        assert_eq!(row("[1, 2]", "{}")["args"], serde_json::json!([1, 2]), "a list is the list of arguments");
        assert_eq!(row("7", "{}")["args"], serde_json::json!([7]), "anything else is the one argument");
    }
}
