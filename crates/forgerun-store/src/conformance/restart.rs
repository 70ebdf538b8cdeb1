//! What survives when the process is started again.

use forgerun_core::command::{Claim, Command};
use forgerun_core::job::Conflict;
use forgerun_core::state::State;

use super::Fixture;
use super::harness::{accepted, ask, claimed, done, existing, n_due, refused, run};
use super::make::{
    START, at, at_once as concurrency, cancel, claim, fail, forget, id, job, job_with, patient, pause,
    progress, secs, start, submit, submit_all, submit_once, succeed, take, unique,
};
use super::snapshot::{all_rows, snapshot};

/// Jobs in every state, with everything that hangs on them, are there afterwards, and go on.
pub async fn everything_survives_a_restart(fixture: &dyn Fixture) {
    let store = fixture.store();
    let jobs = vec![
        job_with(1, "held", |head| head.lease = Some(secs(60))),
        job_with(2, "waiting", |head| head.unique = Some(unique(1, Conflict::Reject))),
        job_with(3, "later", |head| head.execution_at = Some(at(100))),
        job_with(4, "on hold", |head| head.hold = true),
        job_with(5, "limited", |head| head.limits = vec![concurrency("key", 1)]),
        job_with(6, "limited", |head| head.limits = vec![concurrency("key", 1)]),
        job_with(7, "failing", |head| head.retry = patient(3, secs(50))),
        job_with(8, "dead", |head| head.retry = patient(1, secs(1))),
        job(9, "gone"),
    ];
    run(&store, START, vec![submit_all(jobs), submit_once(job(10, "keyed"), "key", 1)]).await;
    let taken = claimed(ask(&store, at(1), take(&["held", "limited", "failing", "dead"], 9)).await);
    let mut commands = vec![progress(&taken[0], 40), cancel(9), forget(9), pause("waiting", true)];
    commands.extend(taken.iter().filter(|job| job.id >= id(7)).map(fail));
    run(&store, at(2), commands).await;
    let before = snapshot(&store).await;

    let store = fixture.reopen().await;
    assert_eq!(snapshot(&store).await, before);
    assert!(store.tombstone(id(9).first_execution()).await.unwrap().is_some());
    let rival = job_with(11, "waiting", |head| head.unique = Some(unique(1, Conflict::Reject)));
    refused(ask(&store, at(3), submit(rival)).await);
    assert_eq!(existing(ask(&store, at(3), submit_once(job(12, "keyed"), "key", 1)).await)[0].id, id(10));
    assert_eq!(claimed(ask(&store, at(4), take(&["waiting", "limited"], 9)).await), []);
    run(&store, at(5), vec![succeed(&taken[0]), succeed(&taken[1]), pause("waiting", false)]).await;
    let next = claimed(ask(&store, at(6), take(&["waiting", "limited"], 9)).await);
    assert_eq!(next.iter().map(|job| job.id).collect::<Vec<_>>(), [id(2), id(6)]);
    assert_eq!(
        n_due(ask(&store, at(100), Command::Due(99)).await),
        4,
        "a schedule, a retry wait, two leases"
    );
    snapshot(&store).await;
}

/// A worker that outlived the server still holds its job, and one that lost it does not.
pub async fn leases_and_tokens_survive_a_restart(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit(job(1, "q"))).await);
    let old = claimed(ask(&store, at(1), Command::Claim(claim(&["q"], 1))).await).remove(0);
    assert_eq!(n_due(ask(&store, at(40), Command::Due(9)).await), 1);
    let long = Claim { lease: Some(secs(1000)), ..claim(&["q"], 1) };
    let new = claimed(ask(&store, at(41), Command::Claim(long)).await).remove(0);

    let store = fixture.reopen().await;
    refused(ask(&store, at(42), start(&old)).await);
    done(ask(&store, at(43), start(&new)).await);
    assert_eq!(done(ask(&store, at(44), succeed(&new)).await).state, State::Succeeded);
    snapshot(&store).await;
}

/// Rows written before and after, in one order, without a gap that a reader could fall into.
pub async fn the_journal_goes_on_after_a_restart(fixture: &dyn Fixture) {
    let store = fixture.store();
    for n in 1..=3 {
        accepted(ask(&store, at(n), submit(job(n, "q"))).await);
    }
    let before = all_rows(&store, 0).await;
    let store = fixture.reopen().await;
    assert_eq!(store.journal_end().await.unwrap(), before[2].seq);
    accepted(ask(&store, at(4), submit(job(4, "q"))).await);
    let after = all_rows(&store, 0).await;
    assert_eq!(after[..3], before);
    assert!(after.len() == 4 && after[3].seq > before[2].seq);
    snapshot(&store).await;
}

/// Started again and again, with work in between: nothing is lost and nothing is done twice.
pub async fn many_restarts_lose_nothing(fixture: &dyn Fixture) {
    let mut store = fixture.store();
    for n in 1..=6 {
        accepted(ask(&store, at(n), submit_all(vec![job(2 * n, "q"), job(2 * n + 1, "q")])).await);
        store = fixture.reopen().await;
        let taken = claimed(ask(&store, at(n), take(&["q"], 1)).await);
        store = fixture.reopen().await;
        run(&store, at(n), taken.iter().map(succeed).collect()).await;
        store = fixture.reopen().await;
    }
    let snapshot = snapshot(&store).await;
    let ended = snapshot.jobs.values().filter(|job| job.state == State::Succeeded).count();
    assert_eq!((snapshot.jobs.len(), ended, snapshot.outcomes.len()), (12, 6, 6));
    assert_eq!(snapshot.journal.len(), 18);
}
