//! `workers/exchange`: ends of many jobs and a fetch in one request.
//!
//! The rules are those of ack, nack, heartbeat and fetch: each entry becomes the command of such a
//! call. All of them are queued together with the claim, so that they share a transaction.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use axum::response::Response;
use forgerun_core::command::{Content, Extend, HeldJob, LeaseProof, Note, Succeed};
use forgerun_core::id::JobId;
use forgerun_core::job::Job;
use forgerun_core::state::State;
use forgerun_core::worker::WorkerState;
use forgerun_core::{Answer, Command, Refusal};
use forgerun_engine::Error;
use forgerun_wire::ojs::exchange::{AttemptEnd, DoneEntry, ExchangeRequest, read_exchange};
use forgerun_wire::ojs::job::JobView;
use forgerun_wire::ojs::worker::{FetchRequest, HeartbeatRequest, HeldJobRef, Nack, lease_token, state_word};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::fleet::{self, HeartbeatResult};
use super::scope::Scope;
use super::work::{AssignedJob, command_of, conclude, fetch_jobs, held, kept, of_worker};
use super::{objects, refusals, reply};
use crate::app::App;
use crate::http::{
    ApiError,
    routing::{Call, Reply, Route},
};
use crate::limits::{FETCH_BYTES_MAX, FETCH_TIMEOUT, OJS_BATCH_BYTES_MAX};

pub(super) const ROUTES: &[Route] = &[Route {
    timeout: Some(FETCH_TIMEOUT),
    ..of_worker("/ojs/v1/workers/exchange", "exchange", |call| Box::pin(exchange(call)))
        .body_max(|_| OJS_BATCH_BYTES_MAX)
        .operation("ojsExchange", "Report ends of jobs and take new ones in one round trip.")
        .body(&objects::EXCHANGE)
        .replies(&[Reply::object(200, "What became of each entry, and new jobs.", &objects::EXCHANGED)])
}];

/// The result of one entry of `done`.
#[derive(Serialize)]
struct SettledEntryView {
    job_id: String,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Value>,
}

#[derive(Serialize)]
struct ExchangeView<'a> {
    results: Vec<SettledEntryView>,
    extended: Vec<String>,
    cancelled: Vec<String>,
    paused: Vec<String>,
    lost: Vec<String>,
    jobs: Vec<JobView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    directive: Option<&'static str>,
}

async fn exchange(call: Call<'_>) -> Result<Response, ApiError> {
    let ExchangeRequest { fetch, done, beat, progress } = read_exchange(&call.body)?;
    let (app, scope) = (call.app, Scope::of(&call)?);
    let notes: Vec<Command> = progress
        .into_iter()
        .map(|entry| {
            let held = HeldJob { job: entry.job, proof: entry.proof, client: scope.client };
            let note = Some(Note::Progress { percent: entry.percent, message: None });
            Command::Extend(Extend { held, lease: None, note })
        })
        .collect();
    let settling = settle_all(&call, &scope, done);
    let beating = async {
        // Sent after the ends: a job that has just ended is not extended.
        let answer = match &beat {
            Some(beat) => Some(fleet::heartbeat_of(&call, beat).await?),
            None => None,
        };
        app.engine.run_each(notes).await;
        Ok::<_, ApiError>(answer)
    };
    let at_once = async {
        match &fetch {
            Some(fetch) => {
                let now = FetchRequest { wait: Duration::ZERO, ..fetch.clone() };
                fetch_jobs(&call, &now, FETCH_BYTES_MAX).await
            }
            None => Ok(Vec::new()),
        }
    };
    // Polled in this order, so that the commands are queued in this order.
    let (results, answer, fetched) = tokio::join!(settling, beating, at_once);
    let (answer, fetched) = match (answer, fetched) {
        (Ok(answer), Ok(fetched)) => (answer, fetched),
        // The ends are durable, and the worker must learn that: only a request without ends is
        // refused.
        (Err(error), _) | (_, Err(error)) if results.is_empty() => return Err(error),
        (answer, fetched) => (answer.unwrap_or_default(), fetched.unwrap_or_default()),
    };
    let all_settled = results.iter().all(|entry| entry.status == 200);
    let may_wait =
        all_settled && fetched.is_empty() && directive(app, answer.as_ref()) != Some(WorkerState::Terminate);
    let jobs = match &fetch {
        Some(fetch) if may_wait && !fetch.wait.is_zero() => {
            fetch_jobs(&call, fetch, FETCH_BYTES_MAX).await.or_else(|error| match results.is_empty() {
                true => Err(error),
                false => Ok(Vec::new()),
            })?
        }
        _ => fetched,
    };
    Ok(reply(app, results, beat.as_ref(), answer, &jobs))
}

/// The directive, as far as this request knows.
fn directive(app: &App, answer: Option<&HeartbeatResult>) -> Option<WorkerState> {
    match answer {
        Some(answer) => Some(answer.told),
        None => app.is_stopping().then_some(WorkerState::Quiet),
    }
}

fn reply(
    app: &App,
    results: Vec<SettledEntryView>,
    beat: Option<&HeartbeatRequest>,
    answer: Option<HeartbeatResult>,
    jobs: &[AssignedJob],
) -> Response {
    let ids = |ids: &[JobId]| -> Vec<String> { ids.iter().map(JobId::to_string).collect() };
    let directive = directive(app, answer.as_ref()).map(state_word);
    let (extended, cancelled, paused) = match &answer {
        Some(answer) => (&answer.extended[..], &answer.canceled[..], &answer.paused[..]),
        None => (&[][..], &[][..], &[][..]),
    };
    let listed = beat.into_iter().flat_map(|beat| &beat.jobs).map(|(job, _)| *job);
    let lost: Vec<JobId> = listed.filter(|job| !extended.contains(job) && !cancelled.contains(job)).collect();
    let tokens: Vec<String> = jobs.iter().map(|of| lease_token(of.job.id, of.job.fence)).collect();
    reply::ok(&ExchangeView {
        results,
        extended: ids(extended),
        cancelled: ids(cancelled),
        paused: ids(paused),
        lost: ids(&lost),
        jobs: jobs.iter().zip(&tokens).map(|(of, token)| of.view(token)).collect(),
        directive,
    })
}

/// An entry whose command was sent.
struct SentEntry {
    job_id: String,
    held: HeldJob,
    /// The result of a successful attempt; `None` if it failed.
    success: Option<Option<Box<RawValue>>>,
}

/// Settles every entry on its own, in order; returns their results.
async fn settle_all(call: &Call<'_>, scope: &Scope, done: Vec<DoneEntry>) -> Vec<SettledEntryView> {
    let mut views: Vec<Option<SettledEntryView>> = Vec::with_capacity(done.len());
    let (mut sent, mut commands) = (Vec::new(), Vec::new());
    for DoneEntry { job_id, end } in done {
        let prepared = match end {
            Ok((claimed, end)) => prepare(call.app, scope, claimed, end).await,
            Err(refused) => Err((*refused).into()),
        };
        match prepared {
            Ok((held, success, command)) => {
                commands.push(command);
                sent.push(SentEntry { job_id, held, success });
                views.push(None);
            }
            Err(error) => views.push(Some(refused(call, job_id, error))),
        }
    }
    let answers = call.app.engine.run_each(commands).await;
    let mut settled = Vec::with_capacity(sent.len());
    for (entry, answer) in sent.into_iter().zip(answers) {
        settled.push(settled_view(call, entry, answer).await);
    }
    let mut settled = settled.into_iter();
    views.into_iter().filter_map(|view| view.or_else(|| settled.next())).collect()
}

type Prepared = (HeldJob, Option<Option<Box<RawValue>>>, Command);

/// The command of an entry. A large result is stored first, as for an ack.
async fn prepare(
    app: &App,
    scope: &Scope,
    claimed: HeldJobRef,
    end: AttemptEnd,
) -> Result<Prepared, ApiError> {
    let held = held(app, scope, claimed).await?;
    match end {
        AttemptEnd::Ack(result) => {
            let output = match &result {
                Some(result) => Some(kept(app, result).await?),
                None => None,
            };
            Ok((held.clone(), Some(result), Command::Succeed(Succeed { held, output })))
        }
        AttemptEnd::Nack(nack) => {
            let success = matches!(nack, Nack::Succeed).then_some(None);
            Ok((held.clone(), success, command_of(held, nack)))
        }
    }
}

async fn settled_view(call: &Call<'_>, entry: SentEntry, answer: Result<Answer, Error>) -> SettledEntryView {
    let SentEntry { job_id, held, success } = entry;
    let settled = match (answer, &success) {
        (Err(Error::Refused(Refusal::WrongItems { .. })), Some(result)) => {
            match conclude(call.app, held, result.as_deref()).await {
                Ok(concluded) => concluded.map(drop).map_err(|error| refusals::of_engine(call.app, error)),
                Err(error) => Err(error),
            }
        }
        (Err(Error::Refused(Refusal::AlreadyCompleted(state))), _)
            if is_repetition(call.app, &held, state, success.as_ref()).await =>
        {
            Ok(())
        }
        (Err(error), _) => Err(refusals::of_engine(call.app, error)),
        (Ok(_), _) => Ok(()),
    };
    match settled {
        Ok(()) => SettledEntryView { job_id, status: 200, problem: None },
        Err(error) => refused(call, job_id, error),
    }
}

/// Whether an entry repeats the end of its lease: the first answer may have been lost. The token
/// shows that the job ended by this lease.
async fn is_repetition(
    app: &App,
    held: &HeldJob,
    state: State,
    success: Option<&Option<Box<RawValue>>>,
) -> bool {
    if !matches!(held.proof, LeaseProof::Token(_)) {
        return false;
    }
    match (state, success) {
        (State::Failed, None) => true,
        (State::Succeeded, Some(result)) => match app.engine.store().job(held.job).await {
            Ok(Some(job)) => is_result(app, &job, result.as_deref()).await,
            _ => false,
        },
        _ => false,
    }
}

/// Whether a job ended with this result.
async fn is_result(app: &App, job: &Job, result: Option<&RawValue>) -> bool {
    let Some(result) = result.map(|result| result.get().as_bytes()) else { return job.result.is_none() };
    let Ok(Some(stored)) = app.engine.store().result(job.execution).await else { return false };
    match &stored.content {
        Some(Content::Inline(bytes)) => bytes == result,
        Some(Content::Stored(blob)) => blob.digest[..] == *digest(&SHA256, result).as_ref(),
        None => false,
    }
}

/// The entry of a refusal: the status that the single call would have had, and the problem.
fn refused(call: &Call<'_>, job_id: String, error: ApiError) -> SettledEntryView {
    let (refused, ..) = error.into_parts();
    let status = forgerun_wire::ojs::error::status(refused.kind, call.app.config.ojs.strict_catalog);
    let instance = format!("urn:uuid:{}", call.exchange.request_id());
    let problem = refusals::detailed(&refused).problem(call.exchange.dialect, &call.app.base, &instance);
    SettledEntryView { job_id, status, problem: serde_json::to_value(problem).ok() }
}
