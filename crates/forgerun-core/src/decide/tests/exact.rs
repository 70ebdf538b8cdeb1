//! Counts that others may be about to change: a batch whose bound depends on one says that it must
//! be exact, and no other does.

use std::vec;
use std::vec::Vec;

use crate::command::{Claim, Command, QueueChange, QueueCommand, Submit, WorkerKind};
use crate::job::Name;
use crate::queue::QueueId;
use crate::rows::CountSet;
use crate::state::Facet;
use crate::world::build::*;
use crate::world::{Plain, World};
use crate::{Batch, Rows, decide, limits, wants};

/// Which counts a command asks for, where all of them are uncertain. Where none is it must ask for
/// none.
fn asked_for(world: &World, command: Command) -> CountSet {
    let batch = Batch { now: world.now, seed: world.seed, commands: vec![command] };
    let rows = || world.load(&wants(&batch));
    let certain = decide(&batch, rows(), &Plain);
    assert!(certain.exact.is_empty(), "what is exact is not asked for again");
    let queues = rows().counts.keys().cloned().chain([queue()]).collect();
    let uncertain = CountSet { queues, active: true, ..CountSet::default() };
    decide(&batch, Rows { uncertain, ..rows() }, &Plain).exact
}

/// The key of the queue that [`plain`] jobs wait in.
fn queue() -> Name {
    plain(1).head.queue_id().key()
}

fn with_room_for(queue_max: Option<u64>) -> Command {
    let jobs = vec![plain(100)];
    Command::Submit(Submit { jobs, idempotency: None, queue_max, refuse_paused: false })
}

fn claim_with(active_max: Option<u64>) -> Command {
    claim_as("q", 9, |claim: &mut Claim| {
        claim.worker_kind = WorkerKind::BuiltIn;
        claim.active_max = active_max;
    })
}

fn set(change: QueueChange) -> Command {
    Command::Queue(QueueCommand { queue: QueueId::parse(&queue()), change })
}

fn of_queue() -> CountSet {
    CountSet { queues: [queue()].into(), ..CountSet::default() }
}

#[test]
fn a_submission_asks_how_many_wait_where_the_bound_is_small_or_near() {
    let waiting = |n: u64| {
        let mut world = World::new();
        world.counts.entry(queue()).or_default().add(Facet::Available, n as i64);
        world
    };
    let half = limits::QUEUE_JOBS / 2;
    for (n, bound, expected) in [
        (0, None, CountSet::default()),
        (0, Some(5), of_queue()),
        (7, Some(5), of_queue()),
        (0, Some(limits::QUEUE_JOBS), CountSet::default()),
        (half - 1, Some(limits::QUEUE_JOBS), CountSet::default()),
        (half, Some(limits::QUEUE_JOBS), of_queue()),
    ] {
        assert_eq!(asked_for(&waiting(n), with_room_for(bound)), expected, "{n} of {bound:?}");
    }
    let mut world = World::new();
    world.ask(set(QueueChange { waiting_max: Some(Some(5)), ..QueueChange::default() }));
    assert_eq!(asked_for(&world, with_room_for(None)), of_queue(), "the queue has a bound of its own");
    let bringing = |n_jobs: u64| {
        let jobs = (1..=u128::from(n_jobs)).map(plain).collect();
        let queue_max = Some(limits::QUEUE_JOBS);
        Command::Submit(Submit { jobs, idempotency: None, queue_max, refuse_paused: false })
    };
    for (n_more, expected) in [(1, CountSet::default()), (2, of_queue())] {
        let many = bringing(limits::UNCOUNTED_ARRIVALS_MAX + n_more);
        assert_eq!(asked_for(&World::new(), many), expected, "others may bring as many");
    }
}

#[test]
fn a_claim_asks_how_many_are_held_where_the_bound_is_small_or_near_and_there_is_work() {
    let with_work = || {
        let mut world = World::new();
        world
            .ask(submit((1..=3).map(|n| {
                job(n, |head| head.definition = Some(crate::work::Definition::random(0, 0, 1000)))
            })));
        world
    };
    let active = CountSet { queues: Vec::new().into_iter().collect(), active: true, ..CountSet::default() };
    assert_eq!(asked_for(&with_work(), claim_with(Some(2))), active);
    assert_eq!(asked_for(&with_work(), claim_with(Some(limits::ACTIVE_JOBS))), CountSet::default());
    assert_eq!(asked_for(&with_work(), claim_with(None)), CountSet::default());
    assert_eq!(
        asked_for(&World::new(), claim_with(Some(2))),
        CountSet::default(),
        "there is nothing to hand out"
    );
    let mut world = World::new();
    world.ask(submit([plain(1)]));
    world.ask(set(QueueChange { active_max: Some(Some(2)), ..QueueChange::default() }));
    assert_eq!(asked_for(&world, claim("q", 9)), of_queue(), "the queue has a bound of its own");
}
