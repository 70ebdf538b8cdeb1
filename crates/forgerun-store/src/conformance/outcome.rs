//! How executions end: outcomes that never change, and whose execution is whose.

use forgerun_core::catalog::Kind;
use forgerun_core::item::{Item, ItemEnd, ItemError, Items};
use forgerun_core::job::Lane;
use forgerun_core::rows::{Outcome, Render};
use forgerun_core::state::State;

use super::Fixture;
use super::harness::{Plain, accepted, ask, done, run, the_one};
use super::make::{
    START, at, cancel, conclude, execution, fail, forget, id, job, job_with, patient, retry, revive, secs,
    submit, submit_all, succeed_with, take,
};
use super::snapshot::snapshot;

/// Each way to end leaves the object that the renderer made of the job, byte for byte.
pub async fn every_end_leaves_the_rendered_outcome(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit_all((1..=4).map(|n| job(n, "q")).collect())).await);
    let first = the_one(ask(&store, at(1), take(&["q"], 1)).await);
    let second = the_one(ask(&store, at(1), take(&["q"], 1)).await);
    let ends = vec![succeed_with(&first, "text/plain", b"1"), fail(&second), cancel(3)];
    for ended in run(&store, at(2), ends).await.into_iter().map(done) {
        let expected =
            Outcome { execution: ended.execution, job: ended.id, object: Plain.outcome(&ended, &[]) };
        assert_eq!(fixture.second().outcome(ended.execution).await.unwrap(), Some(expected));
    }
    assert_eq!(store.outcome(id(4).first_execution()).await.unwrap(), None, "it has not ended");
    snapshot(&store).await;
}

/// Another execution leaves the first one's object alone, has its own, and finds its way to the job.
pub async fn an_outcome_never_changes_after_a_manual_retry(fixture: &dyn Fixture) {
    let store = fixture.store();
    let policy =
        forgerun_core::retry::RetryPolicy { mode: forgerun_core::retry::Mode::Manual, ..patient(3, secs(0)) };
    accepted(ask(&store, START, submit(job_with(1, "q", |head| head.retry = policy))).await);
    let first = the_one(ask(&store, at(1), take(&["q"], 1)).await);
    done(ask(&store, at(2), fail(&first)).await);
    let outcome = store.outcome(first.execution).await.unwrap().expect("it failed");
    done(ask(&store, at(3), retry(1, execution(1))).await);
    assert_eq!(store.outcome(execution(1)).await.unwrap(), None, "the second has not ended");
    let second = the_one(ask(&store, at(4), take(&["q"], 1)).await);
    assert_eq!((second.execution, second.id), (execution(1), id(1)));
    done(ask(&store, at(5), succeed_with(&second, "text/plain", b"late")).await);

    let store = fixture.reopen().await;
    assert_eq!(store.outcome(first.execution).await.unwrap(), Some(outcome.clone()));
    let other = store.outcome(execution(1)).await.unwrap().expect("it succeeded");
    assert_ne!(other.object, outcome.object);
    assert_eq!((other.job, other.execution), (id(1), execution(1)));
    assert_eq!(store.job_of(execution(1)).await.unwrap(), Some(id(1)));
    assert_eq!(store.job_of(first.execution).await.unwrap(), None, "a first execution has the id of its job");
    assert_eq!(store.result(first.execution).await.unwrap(), None);
    assert!(store.result(execution(1)).await.unwrap().is_some());
    snapshot(&store).await;
}

/// The items come back as they were submitted, and how they ended is kept for every execution; a later attempt of the same
/// execution replaces the list, another execution does not.
pub async fn a_batch_keeps_the_list_of_every_execution(fixture: &dyn Fixture) {
    let store = fixture.store();
    let policy =
        forgerun_core::retry::RetryPolicy { mode: forgerun_core::retry::Mode::Manual, ..patient(4, secs(0)) };
    let mut batch = job_with(1, "q", |head| {
        head.items = Some(Items { n: 2, simulated: false });
        head.retry = policy;
    });
    let item = |id: &str, payload: &[u8]| Item {
        id: id.into(),
        job_type: None,
        work_kind: None,
        payload: payload.to_vec(),
    };
    let items = vec![item("ä", b"{\"a\":1}"), item("1", &[0, 255])];
    std::sync::Arc::make_mut(&mut batch.input).items = items.clone();
    accepted(ask(&store, START, submit(batch)).await);
    let inputs = fixture.second().inputs(vec![id(1)]).await.unwrap();
    assert_eq!(inputs[0].1.items, items);

    let error = ItemError { kind: Kind::HandlerError, message: "nö".into(), retryable: true };
    let mixed = vec![ItemEnd { id: "ä".into(), error: None }, ItemEnd { id: "1".into(), error: Some(error) }];
    let fine: Vec<ItemEnd> = mixed.iter().map(|end| ItemEnd { error: None, ..end.clone() }).collect();
    let first = the_one(ask(&store, at(1), take(&["q"], 1)).await);
    assert_eq!(store.items(first.execution).await.unwrap(), None);
    let failed = done(ask(&store, at(2), conclude(&first, &mixed)).await);
    assert_eq!((failed.state, failed.tally.failed), (State::Failed, 1));
    done(ask(&store, at(3), retry(1, execution(1))).await);
    let second = the_one(ask(&store, at(4), take(&["q"], 1)).await);
    done(ask(&store, at(5), conclude(&second, &fine)).await);

    let store = fixture.reopen().await;
    assert_eq!(store.items(first.execution).await.unwrap(), Some(mixed));
    assert_eq!(store.items(execution(1)).await.unwrap(), Some(fine));
    snapshot(&store).await;
    assert_eq!(ask(&store, at(6), forget(1)).await, forgerun_core::Answer::Settled);
    assert_eq!(store.items(first.execution).await.unwrap(), None);
    assert_eq!(store.items(execution(1)).await.unwrap(), None);
}

/// A dead letter is listed and counted until it is revived; its past stays.
pub async fn a_dead_letter_is_listed_until_it_is_revived(fixture: &dyn Fixture) {
    let (store, second) = (fixture.store(), fixture.second());
    accepted(ask(&store, START, submit(job_with(1, "q", |head| head.retry = patient(1, secs(1))))).await);
    let taken = the_one(ask(&store, at(1), take(&["q"], 1)).await);
    let dead = done(ask(&store, at(2), fail(&taken)).await);
    let shelf = dead.shelf().unwrap();
    assert_eq!(shelf.lane, Lane::Dead);
    assert_eq!(second.shelf(shelf.clone(), None, 9).await.unwrap(), [dead]);
    assert_eq!(second.dead_letters(9).await.unwrap(), 1);
    let revived = done(ask(&second, at(3), revive(1, execution(1))).await);
    assert_eq!((revived.state, revived.attempt, revived.errors.len()), (State::Queued, 1, 1));
    assert_eq!((revived.errors[0].execution, revived.last_error()), (1, None), "it is begun anew");
    assert_eq!(store.shelf(shelf, None, 9).await.unwrap(), []);
    assert_eq!(store.dead_letters(9).await.unwrap(), 0);
    assert_eq!(the_one(ask(&store, at(4), take(&["q"], 1)).await).execution, execution(1));
    snapshot(&store).await;
}

/// The error history comes back whole, bounded, newest last.
pub async fn errors_of_many_attempts_come_back(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit(job_with(1, "q", |head| head.retry = patient(40, secs(0))))).await);
    let mut last = None;
    for n in 1..=20 {
        let taken = the_one(ask(&store, at(n), take(&["q"], 1)).await);
        last = Some(done(ask(&store, at(n), fail(&taken)).await));
    }
    let found = store.job(id(1)).await.unwrap().map(|job| (*job).clone());
    assert_eq!(found, last);
    let attempts: Vec<u32> = found.expect("it exists").errors.iter().map(|error| error.attempt).collect();
    assert_eq!(attempts, (5..=20).collect::<Vec<_>>());
    snapshot(&store).await;
}
