//! Who gets which job.

use std::sync::Arc;

use forgerun_core::command::{Answer, Claim, Command, Refusal, WorkerKind};
use forgerun_core::decide::Batch;
use forgerun_core::id::JobId;
use forgerun_core::job::Job;
use forgerun_core::limits;
use forgerun_core::queue::QueueSettings;
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_core::work::{Definition, WorkKind};

use super::Fixture;
use super::harness::{
    accepted, ask, at_once, claimed, commit, commit_until_done, done, refused, run, the_one,
};
use super::make::{
    START, at, cancel, claim, fail, hand_back, id, job, job_with, name, outside, patient, pause, pause_mine,
    secs, set_rate, start, submit, submit_all, succeed, take,
};
use super::snapshot::snapshot;
use crate::Store;

fn ids(jobs: &[Job]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// Queues as the claim names them, then priority, then age.
pub async fn claims_go_by_queue_then_priority_then_age(fixture: &dyn Fixture) {
    let store = fixture.store();
    let priority = |n, queue, priority| job_with(n, queue, |head| head.priority = priority);
    let jobs = vec![
        priority(1, "slow", 0),
        priority(2, "slow", i16::MAX),
        priority(3, "fast", i16::MIN),
        priority(4, "fast", 5),
        priority(5, "fast", -1),
        priority(6, "fast", 5),
        priority(7, "other", 9),
    ];
    accepted(ask(&store, START, submit_all(jobs)).await);
    let first = claimed(ask(&store, at(1), Command::Claim(claim(&["fast", "slow"], 3))).await);
    assert_eq!(ids(&first), [id(4), id(6), id(5)]);
    let rest = claimed(ask(&fixture.second(), at(2), Command::Claim(claim(&["fast", "slow"], 9))).await);
    assert_eq!(ids(&rest), [id(3), id(2), id(1)]);
    assert_eq!(claimed(ask(&store, at(3), take(&["fast", "slow"], 9)).await), []);
    snapshot(&store).await;
}

/// Jobs submitted in any order are handed out by age, which their ids tell.
pub async fn the_oldest_job_goes_first_whatever_the_order_of_arrival(fixture: &dyn Fixture) {
    let store = fixture.store();
    for n in [5, 1, 4, 2, 3] {
        accepted(ask(&store, START, submit(job(n, "q"))).await);
    }
    for n in 1..=5 {
        assert_eq!(the_one(ask(&store, at(n), take(&["q"], 1)).await).id, id(n));
    }
}

/// Scheduled, held, waiting for a retry, held by a worker, ended: none of them is handed out.
pub async fn a_claim_takes_only_what_is_claimable(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit_all(vec![job(1, "q"), job(2, "q"), retrying(3)])).await);
    let taken = claimed(ask(&store, at(1), take(&["q"], 3)).await);
    run(&store, at(2), vec![succeed(&taken[1]), fail(&taken[2])]).await;
    let jobs = vec![
        job_with(4, "q", |head| head.execution_at = Some(at(1000))),
        job_with(5, "q", |head| head.hold = true),
        job(6, "q"),
        job(7, "q"),
        job(8, "elsewhere"),
    ];
    run(&store, at(3), vec![submit_all(jobs), cancel(6)]).await;
    assert_eq!(ids(&claimed(ask(&store, at(4), take(&["q"], 10)).await)), [id(7)]);
    snapshot(&store).await;
}

fn retrying(n: u64) -> forgerun_core::command::NewJob {
    job_with(n, "q", |head| head.retry = patient(3, secs(500)))
}

/// Workers outside never see simulated work, and the built-in worker never sees real work.
pub async fn real_and_simulated_work_are_claimed_apart(fixture: &dyn Fixture) {
    let store = fixture.store();
    let definition = Definition::of(WorkKind::SuccessFast, 120_000);
    let simulated = |n| job_with(n, "q", |head| head.definition = Some(definition));
    accepted(
        ask(&store, START, submit_all(vec![simulated(1), job(2, "q"), simulated(3), job(4, "q")])).await,
    );
    let worker_kind = |worker_kind| Command::Claim(Claim { worker_kind, ..claim(&["q"], 10) });
    let [outside, inside] =
        run(&store, at(1), vec![worker_kind(outside()), worker_kind(WorkerKind::BuiltIn)])
            .await
            .try_into()
            .expect("two answers");
    assert_eq!(ids(&claimed(outside)), [id(2), id(4)]);
    assert_eq!(ids(&claimed(inside)), [id(1), id(3)]);
    snapshot(&store).await;
}

/// A claim knows whether asking again at once is worth it.
pub async fn a_claim_says_whether_there_is_more(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit_all((1..=5).map(|n| job(n, "q")).collect())).await);
    for (expected, more) in [(2, true), (2, true), (1, false), (0, false)] {
        match ask(&store, at(1), take(&["q"], 2)).await {
            Answer::Claimed { jobs, more: told, .. } => assert_eq!((jobs.len(), told), (expected, more)),
            other => panic!("not a claim: {other:?}"),
        }
    }
}

/// Looking for work where there is none leaves no trace.
pub async fn an_empty_claim_changes_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit(job(1, "q"))).await);
    let before = snapshot(&store).await;
    let end = store.journal_end().await.unwrap();
    for n in 0..20 {
        let changes = commit(&store, at(n), vec![take(&["empty", "void"], 10)]).await.unwrap();
        assert!(changes.is_empty());
    }
    assert_eq!(store.journal_end().await.unwrap(), end);
    assert_eq!(snapshot(&store).await, before);
}

/// A job is handed out once, to one worker, with a token of its own.
pub async fn a_job_that_was_handed_back_is_claimed_under_a_new_token(fixture: &dyn Fixture) {
    let (store, second) = (fixture.store(), fixture.second());
    accepted(ask(&store, START, submit(job(1, "q"))).await);
    let first = the_one(ask(&store, at(1), Command::Claim(claim(&["q"], 1))).await);
    assert_eq!(claimed(ask(&second, at(1), take(&["q"], 1)).await), []);
    done(ask(&second, at(2), hand_back(&first)).await);
    let other = Claim { worker: name("another"), ..claim(&["q"], 1) };
    let again = the_one(ask(&second, at(3), Command::Claim(other)).await);
    assert!(again.fence > first.fence);
    for stale in [start(&first), succeed(&first), fail(&first)] {
        assert_eq!(refused(ask(&store, at(4), stale).await), Refusal::LeaseLost);
    }
    assert_eq!(done(ask(&store, at(5), start(&again)).await).state, State::Running);
    snapshot(&store).await;
}

/// Nothing of a paused queue is handed out, whichever node paused it; submitting goes on.
pub async fn a_paused_queue_hands_out_nothing_until_it_is_resumed(fixture: &dyn Fixture) {
    let (store, second) = (fixture.store(), fixture.second());
    accepted(ask(&store, START, submit_all(vec![job(1, "paused"), job(2, "open")])).await);
    ask(&second, START, pause("paused", true)).await;
    assert_eq!(ids(&claimed(ask(&store, at(1), take(&["paused", "open"], 9)).await)), [id(2)]);
    accepted(ask(&store, at(2), submit(job(3, "paused"))).await);
    let settings: Option<QueueSettings> = store.record("paused".into()).await.unwrap();
    assert_eq!(settings.unwrap().paused_at, Some(START));
    ask(&store, at(3), pause_mine("paused", false)).await;
    assert_eq!(
        ids(&claimed(ask(&second, at(3), take(&["paused"], 9)).await)),
        [],
        "its owner cannot lift it"
    );
    ask(&store, at(3), pause("paused", false)).await;
    assert_eq!(ids(&claimed(ask(&second, at(4), take(&["paused"], 9)).await)), [id(1), id(3)]);
    snapshot(&store).await;
}

/// A bound on all held jobs counts those of other queues and other nodes.
pub async fn the_bound_on_held_jobs_counts_every_queue(fixture: &dyn Fixture) {
    let (store, second) = (fixture.store(), fixture.second());
    let definition = Definition::of(WorkKind::SuccessFast, 120_000);
    let simulated = |n| job_with(n, &format!("q{}", n % 2), |head| head.definition = Some(definition));
    accepted(ask(&store, START, submit_all((1..=4).map(simulated).collect())).await);
    let worker_kind = WorkerKind::BuiltIn;
    let bounded = |queue: &str| {
        let worker_kind = worker_kind.clone();
        Command::Claim(Claim { active_max: Some(3), worker_kind, ..claim(&[queue], 2) })
    };
    assert_eq!(claimed(ask(&store, at(1), bounded("q0")).await).len(), 2);
    match ask(&second, at(2), bounded("q1")).await {
        Answer::Claimed { jobs, capped, .. } => assert_eq!((jobs.len(), capped), (1, true)),
        other => panic!("not a claim: {other:?}"),
    }
    let held = store.job(id(2)).await.unwrap().expect("it exists");
    run(&store, at(3), vec![start(&held), succeed(&held)]).await;
    assert_eq!(claimed(ask(&store, at(4), bounded("q1")).await).len(), 1);
}

/// Many claims at once on two nodes: as many jobs are handed out as workers may hold, and no more. With the default bound too,
/// which costs nothing while it is far away.
pub async fn workers_never_hold_more_than_the_bound(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let mut n_held = 0;
    let definition = Definition::of(WorkKind::SuccessFast, 120_000);
    for (first, active_max, at_a_time) in [(1, 1, 1), (100, 4, 2), (1000, limits::ACTIVE_JOBS, 60)] {
        let simulated = |n| job_with(n, "q", |head| head.definition = Some(definition));
        let jobs = (first..first + active_max + 9).map(simulated).collect();
        let claim = |queues: &[&str], n| Claim { worker_kind: WorkerKind::BuiltIn, ..claim(queues, n) };
        accepted(ask(&stores[0], START, submit_all(jobs)).await);
        let taken = at_once(32, |n| {
            let store = stores[n as usize % 2].clone();
            let bounded = Claim { active_max: Some(active_max), ..claim(&["q"], at_a_time) };
            async move { claimed(ask(&store, at(1), Command::Claim(bounded)).await).len() as u64 }
        });
        n_held += taken.await.into_iter().sum::<u64>();
        // Others may have held what was left for a moment.
        for _ in 0..100 {
            let bounded = Claim { active_max: Some(active_max), ..claim(&["q"], at_a_time) };
            n_held += claimed(ask(&stores[1], at(1), Command::Claim(bounded)).await).len() as u64;
        }
        assert_eq!(n_held, active_max);
    }
}

/// How many jobs a claim gets. Each has a seed of its own, as in a server: versions of records are drawn from it.
async fn n_taken_with(store: &Arc<dyn Store>, now: Time, seed: u64) -> usize {
    let batch = Batch { now, seed, commands: vec![take(&["q"], 2)] };
    claimed(commit_until_done(store, batch).await.answers.remove(0)).len()
}

/// Many claims at once on two nodes: no more jobs are handed out than the rate of their queue allows, and no fewer.
pub async fn two_nodes_hand_out_jobs_at_the_rate_of_their_queue(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    accepted(ask(&stores[0], START, submit_all((1..=50).map(|n| job(n, "q")).collect())).await);
    ask(&stores[0], START, set_rate("q", 7000)).await;
    for (round, now, expected) in [(1, at(1), 7), (2, at(1), 0), (3, at(2), 7), (4, at(100), 7)] {
        let taken = at_once(16, |n| {
            let store = stores[n as usize % 2].clone();
            async move { n_taken_with(&store, now, round * 100 + n).await }
        });
        let mut n_taken = taken.await.into_iter().sum::<usize>();
        // Others may have held what was left for a moment.
        for n in 16..32 {
            n_taken += n_taken_with(&stores[1], now, round * 100 + n).await;
        }
        assert_eq!(n_taken, expected);
    }
}

/// Many workers on two nodes empty a queue: every job is handed out exactly once.
pub async fn two_nodes_claim_every_job_of_a_queue_exactly_once(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let n_jobs = 300;
    for batch in 0..3 {
        let jobs = (1..=n_jobs / 3).map(|n| job(batch * 100 + n, "q")).collect();
        accepted(ask(&stores[0], START, submit_all(jobs)).await);
    }
    let taken = at_once(12, |task| {
        let store = stores[task as usize % 2].clone();
        async move {
            let mut taken: Vec<JobId> = Vec::new();
            // Others may hold what is left for a moment, so one empty claim is not the end.
            let mut empty = 0;
            while empty < 50 {
                let jobs = claimed(ask(&store, at(1), take(&["q"], 1 + task as usize % 7)).await);
                empty = if jobs.is_empty() { empty + 1 } else { 0 };
                taken.extend(ids(&jobs));
                tokio::task::yield_now().await;
            }
            taken
        }
    });
    let mut taken: Vec<JobId> = taken.await.into_iter().flatten().collect();
    taken.sort();
    assert_eq!(taken, (1..=n_jobs).map(id).collect::<Vec<_>>());
    let snapshot = snapshot(&stores[0]).await;
    assert!(snapshot.jobs.values().all(|job| job.state == State::Running && job.fence == 1));
}

/// Workers on two nodes take one job and give it back, over and over: every token is handed out once.
pub async fn every_claim_of_a_contended_job_has_a_token_of_its_own(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    accepted(ask(&stores[0], START, submit(job(1, "q"))).await);
    let tokens = at_once(8, |task| {
        let store = stores[task as usize % 2].clone();
        async move {
            let mut tokens = Vec::new();
            for _ in 0..30 {
                for job in claimed(ask(&store, at(1), Command::Claim(claim(&["q"], 1))).await) {
                    tokens.push(job.fence);
                    done(ask(&store, at(1), hand_back(&job)).await);
                }
            }
            tokens
        }
    });
    let mut tokens: Vec<u64> = tokens.await.into_iter().flatten().collect();
    tokens.sort();
    let last = snapshot(&stores[0]).await.jobs[&id(1)].fence;
    assert_eq!(tokens, (1..=last).collect::<Vec<_>>());
    assert!(last >= 8, "somebody gets it every time: {last}");
}
