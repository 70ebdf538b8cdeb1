//! Submitting, and reading back what was submitted.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::command::{Answer, Command, NewJob, Refusal, Submit};
use forgerun_core::history::EventKind;
use forgerun_core::id::ExecutionId;
use forgerun_core::job::{
    Conflict, Dialect, Head, Input, Job, JobForm, Lane, Limit, Rate, ResultRetention, WorkflowStep,
};
use forgerun_core::limits;
use forgerun_core::retry::{Exhaustion, Jitter, Mode, RetryPolicy, Strategy};
use forgerun_core::state::State;
use forgerun_core::work::{Definition, WorkKind};

use super::Fixture;
use super::harness::{accepted, ask, at_once, existing, refused, run};
use super::make::{
    START, at, cancel, client, id, job, job_with, name, secs, shelf, submit, submit_all, unique,
};
use super::snapshot::snapshot;
use crate::Filter;

/// Nothing is found in an empty store, and nothing fails.
pub async fn an_empty_store_answers_every_question(fixture: &dyn Fixture) {
    let store = fixture.store();
    let nobody = ExecutionId::from_u128(1);
    assert_eq!(store.job(id(1)).await.unwrap(), None);
    assert_eq!(store.inputs(vec![id(1)]).await.unwrap(), []);
    assert_eq!(store.inputs(vec![]).await.unwrap(), []);
    assert_eq!(store.job_of(nobody).await.unwrap(), None);
    assert_eq!(store.outcome(nobody).await.unwrap(), None);
    assert_eq!(store.result(nobody).await.unwrap(), None);
    assert_eq!(store.tombstone(nobody).await.unwrap(), None);
    assert_eq!(store.jobs(Filter { limit: 10, ..Filter::default() }).await.unwrap(), []);
    assert_eq!(store.shelf(shelf(Lane::Dead, "q"), None, 10).await.unwrap(), []);
    assert_eq!(store.shelf(shelf(Lane::External, "q"), None, 10).await.unwrap(), []);
    assert_eq!(store.next_due().await.unwrap(), None);
    assert_eq!(store.queues().await.unwrap(), []);
    assert_eq!(store.journal(0, 10).await.unwrap(), []);
    assert_eq!(store.journal_end().await.unwrap(), 0);
    assert!(store.lanes() >= 1);
}

/// Head, input and history come back as the answer told them.
pub async fn a_submitted_job_is_read_back_whole(fixture: &dyn Fixture) {
    let store = fixture.store();
    let new = job(1, "q");
    let answered = accepted(ask(&store, START, submit(new.clone())).await);
    let found = store.job(id(1)).await.unwrap().expect("it was accepted");
    assert_eq!(answered, [(*found).clone()]);
    assert_eq!(found.head, new.head);
    assert_eq!(found.state, State::Queued);
    let moves: Vec<EventKind> = found.history.events().map(|event| event.kind).collect();
    assert_eq!(moves.len(), 2, "created and queued: {moves:?}");
    assert_eq!(store.inputs(vec![id(1)]).await.unwrap(), [(id(1), Input::clone(&new.input))]);
    assert_eq!(fixture.second().job(id(1)).await.unwrap(), Some(found), "the other node sees it too");
    snapshot(&store).await;
}

/// A head with every field at an unusual value.
fn full_head() -> Head {
    Head {
        dialect: Dialect::Ojs,
        form: JobForm::Deferred,
        job_type: "email.send".into(),
        priority: -7,
        definition: Some(Definition::of(WorkKind::FailAfterProgress, 120_000)),
        execution_at: Some(at(60)),
        expires_at: Some(at(600)),
        lease: Some(secs(45)),
        timeout: Some(Duration::from_millis(1500)),
        retry: RetryPolicy {
            mode: Mode::Auto,
            attempts_max: 9,
            strategy: Strategy::Polynomial,
            initial: Duration::from_millis(250),
            coefficient_milli: 1500,
            max: secs(3600),
            jitter: Jitter::Around,
            non_retryable: vec!["auth.*".into(), "Gone".into()],
            on_exhaustion: Exhaustion::DeadLetter,
        },
        limits: vec![
            Limit {
                key: name("tenant 5"),
                concurrency: Some(3),
                rate: Some(Rate { count: 10, per: secs(60) }),
            },
            Limit { key: name("provider"), concurrency: Some(9), rate: None },
        ],
        hold: true,
        unique: Some(unique(9, Conflict::Replace)),
        callback: Some("https://example.com/hook".into()),
        correlation_id: Some("corr-1".into()),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        tracestate: Some("vendor=1".into()),
        language: Some("de-AT".into()),
        tags: vec!["a".into(), "b".into(), "a".into()],
        workflow: Some(WorkflowStep { workflow: id(99), index: 3 }),
        retention: Some(secs(86_400)),
        operation: Some("reports/generate".into()),
        result_retention: Some(ResultRetention { small: secs(3), medium: secs(2), large: secs(0) }),
        ..Head::new(client(42), name("q"), START)
    }
}

/// Every field of a head survives.
pub async fn a_head_with_every_field_set_comes_back(fixture: &dyn Fixture) {
    let store = fixture.store();
    let new = NewJob { head: Arc::new(full_head()), ..job(1, "q") };
    let answered = accepted(ask(&store, START, submit(new.clone())).await);
    let found = store.job(id(1)).await.unwrap().expect("it was accepted");
    assert_eq!(*found.head, *new.head);
    assert_eq!(answered, [(*found).clone()]);
    snapshot(&store).await;
}

/// Payloads are bytes, whatever they look like.
pub async fn inputs_keep_every_byte(fixture: &dyn Fixture) {
    let store = fixture.store();
    let all_bytes: Vec<u8> = (0..=255).collect();
    let inputs = [
        Input { payload: all_bytes.clone(), meta: vec![0xff, 0xfe], extra: vec![0], items: vec![] },
        Input { payload: vec![], meta: b"{}".to_vec(), extra: vec![], items: vec![] },
        Input { payload: vec![0; 3], meta: vec![], extra: all_bytes, items: vec![] },
    ];
    let news = (1..).zip(&inputs).map(|(n, input)| NewJob { input: Arc::new(input.clone()), ..job(n, "q") });
    accepted(ask(&store, START, submit_all(news.collect())).await);
    let mut found = store.inputs(vec![id(1), id(2), id(3), id(4)]).await.unwrap();
    found.sort_by_key(|(id, _)| *id);
    assert_eq!(found, (1..).map(id).zip(inputs).collect::<Vec<_>>());
}

/// A job without input costs no row and is left out of the answer.
pub async fn a_job_without_input_has_none(fixture: &dyn Fixture) {
    let store = fixture.store();
    let bare = NewJob { input: Arc::default(), ..job(1, "q") };
    accepted(ask(&store, START, submit_all(vec![bare, job(2, "q")])).await);
    let found = store.inputs(vec![id(1), id(2)]).await.unwrap();
    assert_eq!(found.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id(2)]);
}

/// One refused job refuses its whole submission.
pub async fn the_jobs_of_a_submission_come_together_or_not_at_all(fixture: &dyn Fixture) {
    let store = fixture.store();
    let holder = job_with(1, "q", |head| head.unique = Some(unique(1, Conflict::Reject)));
    accepted(ask(&store, START, submit(holder)).await);
    let before = snapshot(&store).await;
    let rival = job_with(3, "q", |head| head.unique = Some(unique(1, Conflict::Reject)));
    let answer = ask(&store, at(1), submit_all(vec![job(2, "q"), rival, job(4, "q")])).await;
    assert_eq!(refused(answer), Refusal::Duplicate { existing: id(1), state: State::Queued, index: 1 });
    assert_eq!(snapshot(&store).await, before);
}

/// Of equal unique jobs in one submission the later meets the earlier, or takes its place.
pub async fn equal_jobs_of_a_submission_meet_each_other(fixture: &dyn Fixture) {
    let store = fixture.store();
    let equal = |n, conflict| job_with(n, "q", |head| head.unique = Some(unique(1, conflict)));
    let jobs = vec![equal(1, Conflict::Replace), equal(2, Conflict::Replace), equal(3, Conflict::Ignore)];
    let answered = existing(ask(&store, START, submit_all(jobs)).await);
    let stand = |job: &Job| (job.id, job.state);
    let expected = [(id(1), State::Canceled), (id(2), State::Queued), (id(2), State::Queued)];
    assert_eq!(answered.iter().map(stand).collect::<Vec<_>>(), expected);
    for (id, state) in expected {
        let found = store.job(id).await.unwrap().expect("both were made");
        assert_eq!(stand(&found), (id, state));
    }
    assert_eq!(store.job(id(3)).await.unwrap(), None);
    let late = ask(&fixture.second(), at(1), submit(equal(4, Conflict::Reject))).await;
    assert_eq!(refused(late), Refusal::Duplicate { existing: id(2), state: State::Queued, index: 0 });
    snapshot(&store).await;
}

/// An id that the client chose may be taken, in the same batch or long before.
pub async fn an_id_given_twice_is_refused_with_the_job_that_has_it(fixture: &dyn Fixture) {
    let store = fixture.store();
    let given = |queue| NewJob { id_given: true, ..job(1, queue) };
    let answers = run(&store, START, vec![submit(given("first")), submit(given("second"))]).await;
    let [first, second] = answers.try_into().expect("two answers");
    assert_eq!(accepted(first).len(), 1);
    let taken = Refusal::Duplicate { existing: id(1), state: State::Queued, index: 0 };
    assert_eq!(refused(second), taken);
    assert_eq!(refused(ask(&fixture.second(), at(1), submit(given("third"))).await), taken);
    let found = store.job(id(1)).await.unwrap().expect("the first was accepted");
    assert_eq!(found.head.queue, name("first"));
    snapshot(&store).await;
}

fn bounded(n: u64, queue_max: u64) -> Command {
    Command::Submit(Submit {
        jobs: vec![job(n, "q")],
        idempotency: None,
        queue_max: Some(queue_max),
        refuse_paused: false,
    })
}

/// The bound on waiting jobs sees what other nodes submitted.
pub async fn a_full_queue_refuses_more(fixture: &dyn Fixture) {
    let (store, second) = (fixture.store(), fixture.second());
    accepted(ask(&store, START, bounded(1, 2)).await);
    accepted(ask(&second, START, bounded(2, 2)).await);
    let refusal = refused(ask(&store, START, bounded(3, 2)).await);
    assert_eq!(refusal, Refusal::QueueFull { queue: name("q"), waiting: 2, max: 2 });
    run(&store, START, vec![cancel(1)]).await;
    accepted(ask(&second, START, bounded(4, 2)).await);
    snapshot(&store).await;
}

/// Fifty submissions at once to a queue with room for ten: ten are taken, on however many nodes. With the default bound too,
/// which costs nothing while it is far away.
pub async fn a_queue_is_never_overfilled(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    for (first, bound) in [(1, 10), (100, limits::QUEUE_JOBS)] {
        let queue = format!("q{bound}");
        let n_before = bound - 10;
        for from in (0..n_before).step_by(limits::SUBMISSION_JOBS_MAX) {
            let to = n_before.min(from + limits::SUBMISSION_JOBS_MAX as u64);
            let jobs = (from..to).map(|n| job(1_000_000 + n, &queue)).collect();
            accepted(ask(&stores[0], START, submit_all(jobs)).await);
        }
        let answers = at_once(50, |n| {
            let (store, new) = (stores[n as usize % 2].clone(), job(first + n, &queue));
            let submit =
                Submit { jobs: vec![new], idempotency: None, queue_max: Some(bound), refuse_paused: false };
            async move { ask(&store, START, Command::Submit(submit)).await }
        });
        let n_taken =
            answers.await.into_iter().filter(|answer| matches!(answer, Answer::Submitted { .. })).count();
        assert_eq!(n_taken, 10, "to a queue with a bound of {bound}");
    }
}
