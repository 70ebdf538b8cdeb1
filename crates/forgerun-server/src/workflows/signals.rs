//! Signals to waiting steps: by name for the owner, by token for its bearer.

use std::sync::Arc;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{Command, Owned, SendSignal, SignalTarget};
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::job::Job;
use forgerun_core::limits::SIGNAL_BODY_BYTES_MAX;
use forgerun_core::workflow::{SignalToken, SignalWait, Wait, Workflow, WorkflowPart, is_signal_name};
use forgerun_problem::Digest;
use forgerun_wire::body::{refused, violation};
use forgerun_wire::workflow::SIGNAL_NAME;
use serde::de::IgnoredAny;

use crate::app::App;
use crate::http::ApiError;
use crate::schemas;

/// The address of signals by token.
pub fn signals_at(app: &App) -> String {
    [&app.base, "/v1/signals"].concat()
}

/// A wait for a signal, found by its token.
pub struct AskedSignal {
    /// The job of the waiting step.
    pub job: Arc<Job>,
    pub token: SignalToken,
}

impl AskedSignal {
    pub fn wait(&self) -> &SignalWait {
        self.job.head.wait.as_deref().and_then(Wait::signal).expect("a token opens waits for signals only")
    }
}

/// The wait that a token opens; one that is over, too.
pub async fn asked(app: &App, token: SignalToken) -> Result<Option<AskedSignal>, ApiError> {
    let job = app.engine.store().job(token.job).await?;
    let opens = |job: &Arc<Job>| {
        job.head.wait.as_deref().and_then(Wait::signal).is_some_and(|wait| token.opens(wait))
    };
    Ok(job.filter(opens).map(|job| AskedSignal { job, token }))
}

/// Sends a signal by its name. Returns whether it repeats the first one.
pub async fn send_named(
    app: &App,
    client: ClientId,
    workflow: JobId,
    name: &str,
    body: &[u8],
) -> Result<bool, ApiError> {
    if let Some(schema) = schema_of(app, workflow, name).await? {
        check(app, client, schema, body).await?;
    }
    let workflow = Owned { job: workflow, client: Some(client) };
    send(app, SignalTarget::Named { workflow, name: name.to_owned() }, body).await.map(|(_, repeats)| repeats)
}

/// Sends a signal to the handler of a job; returns the job.
pub async fn send_to_handler(app: &App, job: Owned, name: &str, body: &[u8]) -> Result<Job, ApiError> {
    if !is_signal_name(name) {
        let wrong = vec![violation("name", SIGNAL_NAME, "pattern")];
        return Err(refused(Kind::MalformedRequest, wrong, &[]).into());
    }
    check_json(body)?;
    send(app, SignalTarget::Job { job, name: name.to_owned() }, body).await.map(|(job, _)| job)
}

/// Sends a signal by its token. Returns whether it repeats the first one.
pub async fn send_by_token(app: &App, asked: &AskedSignal, body: &[u8]) -> Result<bool, ApiError> {
    check(app, asked.job.head.client, asked.wait().schema.clone(), body).await?;
    send(app, SignalTarget::Token(asked.token), body).await.map(|(_, repeats)| repeats)
}

/// The schema of a signal's body; `None` if no step waits for it, which the command then refuses.
async fn schema_of(app: &App, workflow: JobId, name: &str) -> Result<Option<Vec<u8>>, ApiError> {
    let store = app.engine.store();
    let Some(record) = store.record::<Workflow>(workflow.to_string()).await? else { return Ok(None) };
    let Some(index) = record.signaled(name) else { return Ok(None) };
    let part: Option<WorkflowPart> = store.record(record.part_of(index).key).await?;
    let wait = part.as_ref().and_then(|part| part.definition(index)).and_then(|of| of.head.wait.as_deref());
    Ok(wait.and_then(Wait::signal).map(|signal| signal.schema.clone()))
}

/// Refuses a body that is too large or not JSON.
fn check_json(body: &[u8]) -> Result<(), ApiError> {
    if body.len() > SIGNAL_BODY_BYTES_MAX {
        let detail = format!("The body of a signal may have {SIGNAL_BODY_BYTES_MAX} bytes.");
        return Err(ApiError::new(Kind::JobPayloadTooLarge, detail));
    }
    if let Err(error) = serde_json::from_slice::<IgnoredAny>(body) {
        let detail = match body {
            [] => "The body is empty; JSON is needed, such as `null` or `true`.".to_owned(),
            _ => format!("The body is not JSON: {error}."),
        };
        return Err(ApiError::new(Kind::MalformedRequest, detail));
    }
    Ok(())
}

/// The same, and a body that does not fit the schema.
async fn check(app: &App, client: ClientId, schema: Vec<u8>, body: &[u8]) -> Result<(), ApiError> {
    check_json(body)?;
    if schema.is_empty() {
        return Ok(());
    }
    let misfits = schemas::misfits_of(app, client, schema, body).await?;
    if misfits.is_empty() {
        return Ok(());
    }
    let wrong = misfits
        .iter()
        .map(|misfit| violation(misfit.pointer.trim_start_matches('/'), &misfit.detail, "schema"));
    Err(refused(Kind::InvalidArgs, wrong.collect(), &[]).into())
}

/// Returns the job, and whether the signal repeats the first one.
async fn send(app: &App, to: SignalTarget, body: &[u8]) -> Result<(Job, bool), ApiError> {
    let digest = Digest::of(body).0;
    let signal = SendSignal { to, body: body.to_vec(), digest };
    let (job, changed) = app.engine.act(Command::Signal(Box::new(signal))).await?;
    Ok((job, !changed))
}
