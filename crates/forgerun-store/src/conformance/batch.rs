//! All or nothing: what a batch leaves behind when something goes wrong in it.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use forgerun_core::command::{Command, Content, NewJob};
use forgerun_core::id::JobId;
use forgerun_core::job::{Conflict, Input};
use forgerun_core::state::State;
use forgerun_core::{Batch, decide, limits, wants};

use super::Fixture;
use super::harness::{Plain, accepted, ask, at_once, claimed, commit, done, look, run, the_one};
use super::make::{
    START, at, cancel, id, job, job_with, pause, submit, submit_all, submit_once, succeed, succeed_with,
    take, unique,
};
use super::snapshot::{all_jobs, snapshot};
use crate::{Fault, Store};

/// A batch whose last command the store cannot accept: the id of job 9 is taken, although the server drew it.
fn poisoned() -> Vec<Command> {
    let new = job_with(2, "fresh", |head| head.unique = Some(unique(1, Conflict::Reject)));
    vec![submit_once(new, "key", 1), take(&["q"], 1), pause("q", true), submit(job(9, "other"))]
}

/// A row that the store refuses takes its whole batch with it: jobs, keys, journal, counts, settings.
pub async fn a_batch_with_a_row_the_store_refuses_writes_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit_all(vec![job(1, "q"), job(9, "p")])).await);
    let before = snapshot(&store).await;
    let error = commit(&store, at(1), poisoned()).await.expect_err("an id is taken");
    assert_eq!(error.fault, Fault::Rejected, "{error}");
    assert_eq!(snapshot(&store).await, before);
    assert_eq!(store.inputs(vec![id(2)]).await.unwrap(), []);
    let rows = look(&store, wants(&Batch { now: at(1), seed: 1, commands: poisoned() })).await;
    assert!(rows.keys.is_empty() && rows.uniques.is_empty() && rows.records.is_empty());
    for command in &poisoned()[..3] {
        let answer = ask(&store, at(2), command.clone()).await;
        assert!(
            !matches!(answer, forgerun_core::Answer::Refused(_)),
            "its neighbours do well alone: {answer:?}"
        );
    }
    let after = snapshot(&store).await;
    assert_eq!(after.jobs[&id(1)].state, State::Running);
    assert_eq!(after.jobs[&id(2)].state, State::Queued);
}

/// The core refuses a command without disturbing the others.
pub async fn a_refused_command_leaves_its_neighbours_alone(fixture: &dyn Fixture) {
    let store = fixture.store();
    let commands = vec![submit(job(1, "q")), cancel(99), submit(job(2, "q"))];
    let answers = run(&store, START, commands).await;
    assert!(matches!(answers[1], forgerun_core::Answer::Refused(_)));
    assert_eq!(snapshot(&store).await.jobs.keys().copied().collect::<Vec<_>>(), [id(1), id(2)]);
}

/// A whole life in one transaction.
pub async fn commands_of_one_batch_see_each_other(fixture: &dyn Fixture) {
    let store = fixture.store();
    let born = accepted(ask(&store, START, submit(job(1, "q"))).await).remove(0);
    let holding = forgerun_core::job::Job { fence: 1, ..born };
    let commands = vec![take(&["q"], 1), succeed_with(&holding, "text/plain", b"done")];
    let [taken, ended] = run(&store, at(1), commands).await.try_into().expect("two answers");
    assert_eq!(the_one(taken).state, State::Running);
    assert_eq!(done(ended).state, State::Succeeded);
    let snapshot = snapshot(&store).await;
    assert_eq!(snapshot.journal.len(), 2, "one journal row per transaction");
    assert_eq!(snapshot.results.len(), 1);
}

/// A bug in the rules must not take the store with it.
pub async fn a_panic_while_deciding_writes_nothing_and_leaves_the_store_usable(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit(job(1, "q"))).await);
    let before = snapshot(&store).await;
    for _ in 0..20 {
        let doomed = store.clone();
        let task = tokio::spawn(async move {
            let batch = Batch { now: at(1), seed: 1, commands: vec![take(&["q"], 1), submit(job(2, "q"))] };
            let wants = wants(&batch);
            let deciding = move |rows| {
                let changes = decide(&batch, rows, &Plain);
                assert!(changes.is_empty(), "this panic is part of the case");
                changes
            };
            doomed.transact(wants, Box::new(deciding)).await.map(drop)
        });
        // A store may let the panic through or report it; it must not claim success.
        assert!(!matches!(task.await, Ok(Ok(()))));
    }
    assert_eq!(snapshot(&store).await, before);
    assert_eq!(the_one(ask(&store, at(2), take(&["q"], 1)).await).id, id(1));
    snapshot(&fixture.second()).await;
}

/// A caller that goes away in the middle leaves all of its batch or nothing.
pub async fn an_abandoned_call_is_whole_or_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit(job(1, "q"))).await);
    for polls in 0..40 {
        let n = 10 + 2 * polls;
        let mut call = pin!(commit(&store, at(1), vec![submit(job(n, "q")), submit(job(n + 1, "q"))]));
        for _ in 0..polls {
            let finished = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_ready())).await;
            if finished {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    // What was abandoned may still be on its way; one more transaction comes after it or stands on its own.
    accepted(ask(&store, at(2), submit(job(2, "q"))).await);
    let jobs = all_jobs(&store).await;
    for n in (0..40).map(|polls| 10 + 2 * polls) {
        let both = (jobs.contains_key(&id(n)), jobs.contains_key(&id(n + 1)));
        assert!(both.0 == both.1, "half of batch {n} was written: {both:?}");
    }
    assert!(jobs.contains_key(&id(2)), "the store still works");
}

/// However often a batch is decided, what it answers is what was written.
pub async fn a_batch_decided_again_after_a_lost_race_gives_one_result(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let times_decided = Arc::new(AtomicUsize::new(0));
    let answers = at_once(30, |n| {
        let (store, times_decided) = (stores[n as usize % 2].clone(), times_decided.clone());
        async move { submit_counting(&store, n, &times_decided).await }
    });
    let answered: BTreeSet<JobId> = answers.await.into_iter().collect();
    let snapshot = snapshot(&stores[0]).await;
    assert_eq!(
        answered,
        snapshot.jobs.keys().copied().collect(),
        "everybody was told of the one job there is"
    );
    assert_eq!(answered.len(), 1);
    assert_eq!(snapshot.journal.len(), 1, "the batches that found the job there wrote nothing");
    assert!(times_decided.load(Ordering::SeqCst) >= 30);
}

async fn submit_counting(store: &Arc<dyn Store>, n: u64, times_decided: &Arc<AtomicUsize>) -> JobId {
    loop {
        let commands = vec![submit_once(job(n + 1, "q"), "same", 1)];
        let batch = Batch { now: START, seed: n, commands };
        let (wants, times) = (wants(&batch), times_decided.clone());
        let deciding = move |rows| {
            times.fetch_add(1, Ordering::SeqCst);
            decide(&batch, rows, &Plain)
        };
        match store.transact(wants, Box::new(deciding)).await {
            Ok(mut changes) => match changes.answers.remove(0) {
                forgerun_core::Answer::Submitted { jobs, .. } => return jobs[0].id,
                other => panic!("not answered with a job: {other:?}"),
            },
            Err(error) => assert_eq!(error.fault, Fault::Busy, "{error}"),
        }
    }
}

/// Batches that touch the same jobs in different order get out of each other's way.
pub async fn batches_over_the_same_jobs_do_not_block_each_other_for_ever(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let all = (1..=20).map(|n| job(n, "q")).collect();
    accepted(ask(&stores[0], START, submit_all(all)).await);
    at_once(16, |task| {
        let store = stores[task as usize % 2].clone();
        async move {
            for round in 0..5 {
                let mut commands: Vec<Command> = (1..=20).map(|n| hold_alive(id(n))).collect();
                commands.rotate_left((task * 7 + round * 3) as usize % 20);
                if task % 3 == 0 {
                    commands.reverse();
                }
                commands.push(take(&["q"], 1));
                run(&store, at(1 + round), commands).await;
            }
        }
    })
    .await;
    let snapshot = snapshot(&stores[1]).await;
    assert!(snapshot.jobs.values().all(|job| job.fence <= 1), "no job was taken twice");
}

fn hold_alive(job: JobId) -> Command {
    use forgerun_core::command::{Extend, HeldJob, LeaseProof};
    Command::Extend(Extend {
        held: HeldJob { job, proof: LeaseProof::Anyone, client: None },
        lease: None,
        note: None,
    })
}

/// The biggest batch there is: submitted, taken and ended in three transactions.
pub async fn a_thousand_jobs_in_one_batch_all_arrive(fixture: &dyn Fixture) {
    let store = fixture.store();
    let n_jobs = limits::BATCH_WEIGHT_MAX as u64;
    run(&store, START, (1..=n_jobs).map(|n| submit(job(n, "q"))).collect()).await;
    let taken = claimed(ask(&store, at(1), take(&["q"], limits::CLAIM_JOBS_MAX)).await);
    assert_eq!(taken.iter().map(|job| job.id).collect::<Vec<_>>(), (1..=n_jobs).map(id).collect::<Vec<_>>());
    run(&store, at(2), taken.iter().map(succeed).collect()).await;
    let snapshot = snapshot(&store).await;
    assert_eq!(snapshot.jobs.len() as u64, n_jobs);
    assert!(snapshot.jobs.values().all(|job| job.state == State::Succeeded));
    assert_eq!(snapshot.outcomes.len() as u64, n_jobs);
    assert_eq!(snapshot.inputs.len() as u64, n_jobs);
    assert_eq!(snapshot.journal.len(), 3);
}

/// More queues with longer names than any announcement could hold.
pub async fn a_batch_that_wakes_very_many_queues_is_written(fixture: &dyn Fixture) {
    let (store, n_queues) = (fixture.store(), 300);
    let queue = |n: u64| format!("{n:0>255}");
    run(&store, START, (1..=n_queues).map(|n| submit(job(n, &queue(n)))).collect()).await;
    assert_eq!(store.queues().await.unwrap().len() as u64, n_queues);
    for n in [1, n_queues] {
        assert_eq!(the_one(ask(&fixture.second(), at(1), take(&[&queue(n)], 9)).await).id, id(n));
    }
}

/// Big inputs and big results, with bytes that no text could hold.
pub async fn five_megabytes_come_back(fixture: &dyn Fixture) {
    let store = fixture.store();
    let payload: Vec<u8> =
        (0..5 * 1024 * 1024_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let input = Input { payload: payload.clone(), ..Input::default() };
    let new = NewJob { input: Arc::new(input.clone()), ..job(1, "q") };
    accepted(ask(&store, START, submit(new)).await);
    let taken = the_one(ask(&store, at(1), take(&["q"], 1)).await);
    done(ask(&store, at(2), succeed_with(&taken, "application/octet-stream", &payload)).await);
    let store = fixture.reopen().await;
    assert!(store.inputs(vec![id(1)]).await.unwrap() == [(id(1), input)], "the input is not what was sent");
    let result = store.result(taken.execution).await.unwrap().expect("it succeeded with a result");
    assert!(result.content == Some(Content::Inline(payload)), "the result is not what was sent");
}
