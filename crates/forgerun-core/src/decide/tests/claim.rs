//! Claiming: order, batches, pauses, the bound on active jobs, leases.

use std::sync::Arc;
use std::time::Duration;
use std::vec;
use std::vec::Vec;

use crate::command::{Answer, Claim, Command, NewJob, WorkerKind};
use crate::decide::{Batch, decide, wants};
use crate::id::JobId;
use crate::job::{Head, Job};
use crate::queue::Owner;
use crate::set_aside::RowId;
use crate::state::State;
use crate::work::Definition;
use crate::world::build::*;
use crate::world::{Plain, World};

fn in_queue(n: u128, queue: &str, priority: i16) -> NewJob {
    job(n, |head| {
        head.queue = name(queue);
        head.priority = priority;
    })
}

fn claimed(answer: &Answer) -> (Vec<JobId>, bool, bool) {
    match answer {
        Answer::Claimed { more, capped, .. } => (named(answer), *more, *capped),
        other => panic!("{other:?}"),
    }
}

#[test]
fn jobs_go_by_queue_then_priority_then_age() {
    let mut world = World::new();
    let jobs = [(1, "b", 9), (2, "a", 0), (3, "a", 5), (4, "a", -1), (5, "a", 5), (6, "b", 0), (7, "c", 99)];
    world.ask(submit(jobs.map(|(n, queue, priority)| in_queue(n, queue, priority))));
    assert_eq!(named(&world.ask(claim("a b", 5))), ids([3, 5, 2, 4, 1]));
    assert_eq!(named(&world.ask(claim("a b", 5))), ids([6]));
    assert_eq!(named(&world.ask(claim("a b", 5))), ids([]));
}

#[test]
fn a_hundred_jobs_are_claimed_one_by_one_in_the_order_of_their_birth() {
    let mut world = World::new();
    world.ask(submit((1..=100).map(plain)));
    let order: Vec<JobId> = (0..100).flat_map(|_| named(&world.ask(claim("q", 1)))).collect();
    assert_eq!(order, ids(1..=100));
}

#[test]
fn claims_of_one_batch_never_share_a_job() {
    let mut world = World::new();
    world.ask(submit((1..=5).map(plain)));
    let changes = world.apply(vec![claim("q", 2), claim("q", 2), claim("q", 2)]);
    let taken: Vec<_> = changes.answers.iter().map(named).collect();
    assert_eq!(taken, [ids([1, 2]), ids([3, 4]), ids([5])]);
}

#[test]
fn a_claim_sees_what_its_batch_did_before_it() {
    let check = |commands: Vec<Command>, expected: &[u128]| {
        let mut world = World::new();
        world.ask(submit([plain(5), plain(6)]));
        let changes = world.apply(commands.clone());
        let answer =
            changes.answers.iter().rev().find(|answer| matches!(answer, Answer::Claimed { .. })).unwrap();
        assert_eq!(named(answer), ids(expected.iter().copied()), "{commands:?}");
    };
    check(vec![submit([plain(7)]), claim("q", 9)], &[5, 6, 7]);
    check(vec![submit([in_queue(7, "q", 1)]), claim("q", 1)], &[7]);
    check(vec![submit([plain(2)]), claim("q", 1)], &[2]);
    check(vec![cancel(5), claim("q", 2)], &[6]);
    check(vec![claim("q", 1), hand_back(5, 1), claim("q", 1)], &[5]);
    check(vec![pause("q", true), claim("q", 9)], &[]);
    check(vec![submit([job(7, |head| head.hold = true)]), activate(7), claim("q", 9)], &[5, 6, 7]);
}

#[test]
fn a_newcomer_behind_the_last_job_loaded_waits_for_those_the_claim_cannot_see() {
    let mut world = World::new();
    world.ask(submit([plain(1), plain(2)]));
    // The claim loads job 1 only. Job 3 must not overtake job 2, which the batch never saw.
    let changes = world.apply(vec![submit([plain(3)]), cancel(1), claim("q", 1)]);
    assert_eq!(claimed(&changes.answers[2]), (ids([]), true, false), "it says that there is more");
    assert_eq!(named(&world.ask(claim("q", 1))), ids([2]));
}

#[test]
fn a_claim_says_whether_asking_again_is_worth_it() {
    let mut world = World::new();
    world.ask(submit((1..=3).map(plain)));
    assert_eq!(claimed(&world.ask(claim("q", 2))), (ids([1, 2]), true, false));
    assert_eq!(claimed(&world.ask(claim("q", 2))), (ids([3]), false, false));
    assert_eq!(claimed(&world.ask(claim("q", 2))), (ids([]), false, false));
}

#[test]
fn an_empty_claim_writes_nothing() {
    let changes = World::new().apply(vec![claim("q nowhere", 5), claim("q", 0)]);
    assert!(changes.is_empty());
}

#[test]
fn a_paused_queue_hands_out_nothing_until_it_is_resumed() {
    let mut world = World::new();
    world.ask(submit([in_queue(1, "a", 0), in_queue(2, "b", 0)]));
    world.ask(pause("a", true));
    assert_eq!(named(&world.ask(claim("a b", 9))), ids([2]));
    world.ask(submit([in_queue(3, "a", 0)]));
    assert_eq!(named(&world.ask(claim("a", 9))), ids([]));
    world.ask(pause("a", false));
    assert_eq!(named(&world.ask(claim("a", 9))), ids([1, 3]));
}

fn simulate(head: &mut Head) {
    head.definition = Some(Definition::random(0, 0, 1000));
}

#[test]
fn no_more_jobs_are_active_than_may_be() {
    let most = |active_max| {
        move |claim: &mut Claim| {
            claim.worker_kind = WorkerKind::BuiltIn;
            claim.active_max = Some(active_max);
        }
    };
    let mut world = World::new();
    world.ask(submit((1..=5).map(|n| job(n, simulate))));
    assert_eq!(claimed(&world.ask(claim_as("q", 9, most(2)))), (ids([1, 2]), false, true));
    let changes = world.apply(vec![claim_as("q", 9, most(2))]);
    assert_eq!(claimed(&changes.answers[0]), (ids([]), false, true));
    assert!(changes.woken.is_empty(), "a capped claim is not woken by what it left lying");
    let changes = world.apply(vec![cancel(1), claim_as("q", 9, most(2)), claim_as("q", 9, most(3))]);
    assert_eq!(claimed(&changes.answers[1]), (ids([3]), false, true), "an ended job makes room at once");
    assert_eq!(claimed(&changes.answers[2]), (ids([4]), false, true));
    assert_eq!(world.n_active(), 3);
}

#[test]
fn the_bound_is_not_felt_where_there_is_nothing_to_hand_out() {
    let mut world = World::new();
    let answer = world.ask(claim_as("q", 9, |claim| claim.active_max = Some(0)));
    assert_eq!(claimed(&answer), (ids([]), false, false));
}

#[test]
fn simulated_work_goes_to_the_built_in_worker_and_real_work_to_the_others() {
    let mut world = World::new();
    let simulated = job(1, |head| head.definition = Some(Definition::random(0, 0, 1000)));
    world.ask(submit([simulated, plain(2)]));
    assert_eq!(
        named(
            &world.ask(
                claim_as("q", 9, |claim| claim.worker_kind = WorkerKind::External(Owner::client(CLIENT)))
            )
        ),
        ids([2])
    );
    assert_eq!(
        named(&world.ask(claim_as("q", 9, |claim| claim.worker_kind = WorkerKind::BuiltIn))),
        ids([1])
    );
}

#[test]
fn a_claim_gives_a_lease_and_a_token_of_its_own() {
    let mut world = World::with_job_in(State::Assigned, |_| {});
    let first = world.job(1).clone();
    let lease = first.lease.unwrap();
    assert_eq!((first.fence, first.attempt, first.attempt_handed), (1, 1, 1));
    assert_eq!((lease.worker, lease.length), (name("w"), secs(10)));
    assert_eq!((lease.until, lease.timeout_at), (first.updated_at + secs(10), None));
    world.ask(hand_back(1, 1));
    world.ask(claim("q", 1));
    assert_eq!(world.job(1).fence, 2);
}

#[test]
fn the_claim_says_how_long_then_the_job_then_the_default() {
    let check = |of_claim: Option<Duration>, of_job: Option<Duration>, expected: u64| {
        let mut world = World::new();
        world.ask(submit([job(1, |head| head.lease = of_job)]));
        world.ask(claim_as("q", 1, |claim| claim.lease = of_claim));
        let job = world.job(1);
        let lease = job.lease.as_ref().unwrap();
        assert_eq!((lease.length, lease.until), (secs(expected), job.updated_at + secs(expected)));
    };
    check(Some(secs(3)), Some(secs(5)), 3);
    check(None, Some(secs(5)), 5);
    check(None, None, 10);
}

#[test]
fn a_claim_that_begins_at_once_starts_the_attempt_and_its_time() {
    let mut world = World::new();
    world.ask(submit([job(1, |head| head.timeout = Some(secs(60)))]));
    world.ask(claim_as("q", 1, |claim| claim.start = true));
    let job = world.job(1);
    assert_eq!(job.state, State::Running);
    assert_eq!(job.lease.as_ref().unwrap().timeout_at, Some(job.started_at.unwrap() + secs(60)));
}

#[test]
fn a_job_that_expired_is_called_off_rather_than_handed_out() {
    let mut world = World::new();
    let expires = |head: &mut Head| head.expires_at = Some(head.created_at + secs(5));
    world.ask(submit([job(1, expires), plain(2)]));
    world.pass(secs(5));
    assert_eq!(named(&world.ask(claim("q", 9))), ids([2]));
    assert_eq!(world.job(1).state, State::Canceled);
}

#[test]
fn a_job_that_does_not_stand_where_it_was_found_is_set_aside_and_the_next_one_handed_out() {
    type Damage = fn(&mut Job);
    let damages: [(&str, Damage); 4] = [
        ("ended", |job| job.state = State::Succeeded),
        ("held by a worker", |job| job.state = State::Running),
        ("waiting", |job| job.available_at = Some(job.updated_at)),
        ("in another queue", |job| Arc::make_mut(&mut job.head).queue = name("other")),
    ];
    for (what, damage) in damages {
        let mut world = World::new();
        world.ask(submit([plain(1), plain(2)]));
        let batch = Batch { now: world.now, seed: 7, commands: vec![claim("q", 2)] };
        let mut rows = world.load(&wants(&batch));
        rows.jobs.iter_mut().filter(|job| job.id == id(1)).for_each(damage);
        let changes = decide(&batch, rows, &Plain);
        assert_eq!(named(&changes.answers[0]), ids([2]), "{what}");
        let aside: Vec<RowId> = changes.set_aside.iter().map(|aside| aside.row).collect();
        assert_eq!(aside, [RowId::Job(id(1))], "{what}");
    }
}
