//! The rules under random sequences of commands. The world itself checks after every batch that the
//! invariants of jobs and event chains hold, that counts and places taken are a recount, that no
//! outcome is written twice, and that nothing outlives its job; here are the properties that need
//! to look across batches.

#[path = "world/random.rs"]
mod random;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use forgerun_core::command::{Answer, Command, FailureCommand, JobPause, LeaseProof, Owned, WorkerKind};
use forgerun_core::history::{EventKind, JournalEntry, RetryStatus};
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::job::Parked;
use forgerun_core::queue::Owner;
use forgerun_core::state::{Cause, State};
use forgerun_core::time::Time;
use forgerun_core::{Changes, limits};
use proptest::prelude::*;

use random::{ACTIVE_MAX, Drawer, Step, Taste, steps};
use world::World;
use world::build::*;

/// What is remembered from batch to batch.
#[derive(Default)]
struct Memory {
    /// The newest token handed out for a job.
    tokens: BTreeMap<JobId, u64>,
    /// Jobs whose newest failure said that the server will try again.
    will_retry: BTreeSet<JobId>,
}

fn jump(world: &mut World, step: &Step) {
    world.now = Time::from_micros(world.now.as_micros() + step.jump_ms * 1000);
}

proptest! {
    // A failure prints the smallest steps it found; they become a test of their own, not a file of
    // seeds.
    #![proptest_config(ProptestConfig { cases: 384, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_asked_in_whatever_order_the_rules_hold(steps in steps(8)) {
        the_rules_hold(Taste::Wild, &steps);
    }

    #[test]
    fn jobs_that_compete_for_one_place_keep_the_rules_and_all_end(steps in steps(4)) {
        the_rules_hold(Taste::Scarce, &steps);
    }

    /// Holds without limits and where nothing is cut short. It does not hold in general, on
    /// purpose:
    ///
    /// - rows are loaded once per batch: a claim that asks for few jobs, and finds those called
    ///   off, expired or parked by then, hands out fewer than it would alone (and says that there
    ///   is `more`); what becomes due by the doing of the batch itself waits for the next one; who
    ///   is parked is known only for limits that a loaded job takes part in;
    /// - an id that the batch forgets is not given away again by the same batch;
    /// - chance is drawn in the order of commands, so waits with jitter differ.
    #[test]
    fn splitting_a_batch_changes_nothing(steps in steps(8)) {
        let (mut whole, mut drawer) = (World::new(), Drawer::new(Taste::Splittable));
        let mut split = whole.clone();
        for step in &steps {
            jump(&mut whole, step);
            split.now = whole.now;
            let commands = drawer.commands(&whole, &step.draws);
            let answers: Vec<Answer> = commands.iter().map(|command| split.ask(command.clone())).collect();
            let changes = whole.apply(commands.clone());
            for ((one, other), command) in changes.answers.iter().zip(&answers).zip(&commands) {
                assert_eq!(of_jobs(one), of_jobs(other), "{command:?}");
            }
            assert_eq!(whole.jobs, split.jobs);
            assert_eq!(whole.outcomes, split.outcomes);
            assert_eq!(whole.journal, split.journal);
            assert_eq!((&whole.keys, &whole.uniques), (&split.keys, &split.uniques));
            assert_eq!(whole.tombstones, split.tombstones);
        }
    }
}

/// An answer as far as it is about jobs: a batch that is split notes its failures in several
/// records.
fn of_jobs(answer: &Answer) -> String {
    match answer {
        Answer::Due { n_jobs, workers_lost, .. } => format!("{n_jobs} due, lost {workers_lost:?}"),
        other => format!("{other:?}"),
    }
}

/// Adds up what failed, as the timers do.
fn fold(world: &mut World, changes: &Changes) {
    for answer in &changes.answers {
        if let Answer::Due { failures, .. } = answer {
            world.ask(Command::Failure(FailureCommand::Fold(failures.clone())));
        }
    }
}

fn the_rules_hold(taste: Taste, steps: &[Step]) {
    let (mut world, mut drawer) = (World::new(), Drawer::new(taste));
    let mut memory = Memory::default();
    for step in steps {
        jump(&mut world, step);
        let commands = drawer.commands(&world, &step.draws);
        let told_twice = format!("{:?}", world.decide(commands.clone()));
        let changes = world.apply(commands.clone());
        assert_eq!(told_twice, format!("{changes:?}"), "the same batch and rows give the same changes");
        what_was_accepted_exists(&world, &changes);
        what_was_refused_changed_nothing(&changes);
        final_states_are_left_by_retry_only(&mut memory, &changes);
        nobody_holds_an_attempt_twice(&mut memory, &commands, &changes);
        bounds_are_kept(&world);
        fold(&mut world, &changes);
    }
    everything_ends(world);
}

fn what_was_accepted_exists(world: &World, changes: &Changes) {
    let forgotten: BTreeSet<JobId> = changes.forgotten.iter().map(|forgotten| forgotten.job).collect();
    for answer in &changes.answers {
        if let Answer::Submitted { jobs, .. } = answer {
            assert!(!jobs.is_empty(), "an accepted submission names its jobs");
        }
        for job in named(answer) {
            assert!(
                world.jobs.contains_key(&job) || forgotten.contains(&job),
                "{job} was acknowledged and is lost"
            );
        }
    }
}

fn what_was_refused_changed_nothing(changes: &Changes) {
    let idle = |answer: &Answer| matches!(answer, Answer::Refused(_) | Answer::Unchanged(_));
    if changes.answers.iter().all(idle) {
        assert!(changes.is_empty(), "{changes:?}");
        assert!(changes.keys_removed.is_empty() && changes.limits.is_empty() && changes.counts.is_empty());
    }
    let jobs = changes.inserted.iter().map(|(job, _)| job).chain(&changes.updated);
    let records = changes.records.values().filter_map(|change| change.new.as_ref()?.due_at);
    let due = jobs.filter_map(|job| job.due_at()).chain(records).min();
    assert_eq!(changes.next_due, due);
}

fn final_states_are_left_by_retry_only(memory: &mut Memory, changes: &Changes) {
    for (job, event) in changes.journal.iter().filter_map(JournalEntry::job_event) {
        let EventKind::Moved { from, cause, retry_status, .. } = event.kind else { continue };
        if from.is_some_and(State::is_final) {
            let by_itself = memory.will_retry.contains(&job);
            let expected = if by_itself { Cause::RetryByPolicy } else { Cause::RetryByUser };
            assert_eq!(cause, expected, "{event:?} of {job}");
        }
        memory.will_retry.remove(&job);
        if retry_status == RetryStatus::WillRetry {
            memory.will_retry.insert(job);
        }
    }
    assert!(memory.will_retry.is_empty(), "the server tries again in the batch that saw the failure");
}

fn nobody_holds_an_attempt_twice(memory: &mut Memory, commands: &[Command], changes: &Changes) {
    for (command, answer) in commands.iter().zip(&changes.answers) {
        if let Answer::Claimed { jobs, .. } = answer {
            for job in jobs {
                let before = memory.tokens.insert(job.id, job.fence);
                assert!(
                    before.is_none_or(|before| before < job.fence),
                    "the token of {} did not grow",
                    job.id
                );
            }
        }
        let held = match command {
            Command::Start(held) | Command::HandBack(held) => held,
            Command::Extend(extend) => &extend.held,
            Command::Succeed(succeed) => &succeed.held,
            Command::Fail(fail) => &fail.held,
            _ => continue,
        };
        if let (Answer::Done(_), LeaseProof::Token(token)) = (answer, &held.proof) {
            assert_eq!(memory.tokens.get(&held.job), Some(token), "only the newest holder is heard");
        }
    }
}

fn bounds_are_kept(world: &World) {
    assert!(world.n_active() <= ACTIVE_MAX);
    let turns: Vec<_> = world
        .jobs
        .values()
        .filter(|job| job.parked == Parked::ForTurn)
        .map(|job| (&job.head.limits[usize::from(job.parked_for)].key, job.available_at))
        .collect();
    assert_eq!(turns.iter().collect::<BTreeSet<_>>().len(), turns.len(), "two jobs have the same turn");
    let mut holders: BTreeMap<[u8; 32], usize> = BTreeMap::new();
    // A manual retry brings a job back whose key may have passed on; all others respect it.
    for job in world.jobs.values().filter(|job| !job.state.is_final() && job.executions_past.is_empty()) {
        if let Some(unique) = &job.head.unique {
            *holders.entry(unique.key).or_default() += 1;
        }
    }
    assert!(holders.values().all(|&n| n <= 1), "a unique key has two holders");
}

/// Nothing is stuck: once queues are open, jobs are resumed and workers come by, every job ends.
fn everything_ends(mut world: World) {
    world.apply(vec![pause("a", false), pause("b", false)]);
    let resume = |job: JobId| Command::Pause(JobPause { owned: Owned { job, client: None }, paused: false });
    let paused = world.jobs.values().filter(|job| job.paused).map(|job| resume(job.id)).collect();
    world.apply(paused);
    let held: Vec<Command> =
        world.jobs.values().filter(|job| job.hold).map(|job| cancel_by_operator(job.id)).collect();
    world.apply(held);
    for _ in 0..400 {
        if world.jobs.values().all(|job| job.state.is_final()) {
            return;
        }
        world.pass(limits::PARKED.min(Duration::from_secs(61)));
        while world.due() > 0 {}
        let outside = |n| WorkerKind::External(Owner::client(ClientId::from_u128(n)));
        for worker_kind in [outside(1), outside(2), WorkerKind::BuiltIn] {
            let taken = world.ask(claim_as("a b", 3, |claim| {
                claim.start = true;
                claim.worker_kind = worker_kind;
            }));
            let ends =
                named(&taken).iter().map(|job| succeed(job.as_u128(), world.jobs[job].fence)).collect();
            world.apply(ends);
        }
    }
    let stuck: Vec<_> = world.jobs.values().filter(|job| !job.state.is_final()).collect();
    panic!("stuck: {stuck:#?}");
}

fn cancel_by_operator(job: JobId) -> Command {
    let Command::Cancel(mut cancel) = cancel(job.as_u128()) else { unreachable!("it is a cancel") };
    cancel.owned.client = None;
    Command::Cancel(cancel)
}
