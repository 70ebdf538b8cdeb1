//! Queues: what owners and the operator set for them, and what is counted.

use core::time::Duration;
use std::vec;

use crate::command::{Answer, Command, QueueChange, QueueCommand, Submit};
use crate::id::ClientId;
use crate::job::{Conflict, Unique};
use crate::pace::QueueRate;
use crate::queue::{Owner, QueueId, QueueSettings};
use crate::record::RecordKind;
use crate::rows::{Activity, Counts, Minute};
use crate::state::Facet;
use crate::world::World;
use crate::world::build::*;

fn mine() -> QueueId {
    QueueId { owner: Some(Owner::client(CLIENT)), name: name("q") }
}

fn set(queue: QueueId, change: QueueChange) -> Command {
    Command::Queue(QueueCommand { queue, change })
}

fn settings(answer: Answer) -> QueueSettings {
    match answer {
        Answer::Queue(settings) => *settings,
        other => panic!("{other:?}"),
    }
}

fn paused(paused: bool) -> QueueChange {
    QueueChange { paused: Some(paused), ..QueueChange::default() }
}

#[test]
fn a_pause_holds_until_whoever_set_it_lifts_it() {
    let mut world = World::new();
    world.ask(submit([plain(1)]));
    let all = || QueueId::shared(name("q"));
    let answer = world.ask(set(all(), paused(true)));
    assert_eq!(settings(answer).paused_at, Some(world.now));
    world.ask(set(mine(), paused(true)));
    world.ask(set(all(), paused(false)));
    assert_eq!(named(&world.ask(claim("q", 1))), ids([]), "its owner paused it too");
    world.ask(set(mine(), paused(false)));
    assert_eq!(named(&world.ask(claim("q", 1))), ids([1]));
}

#[test]
fn the_pause_of_one_owner_is_not_felt_by_another() {
    let other = ClientId::from_u128(2);
    let mut world = World::new();
    world.ask(submit([plain(1)]));
    world.ask(set(QueueId { owner: Some(Owner::client(other)), name: name("q") }, paused(true)));
    assert_eq!(named(&world.ask(claim("q", 1))), ids([1]));
}

#[test]
fn resuming_wakes_those_who_wait() {
    let mut world = World::new();
    world.ask(set(mine(), paused(true)));
    let changes = world.apply(vec![set(mine(), paused(false))]);
    assert!(changes.woken.iter().any(|shelf| shelf.name == mine().key()));
    let changes = world.apply(vec![set(QueueId::shared(name("q")), paused(false))]);
    assert!(changes.wake_all, "the queues of every owner are meant");
}

#[test]
fn a_queue_takes_no_more_than_its_owner_or_the_operator_allows() {
    let bound = |max| QueueChange { waiting_max: Some(max), ..QueueChange::default() };
    let mut world = World::new();
    world.ask(set(mine(), bound(Some(2))));
    world.ask(submit([plain(1), plain(2)]));
    assert!(word(&world.ask(submit([plain(3)]))).starts_with("QueueFull"));
    world.ask(set(mine(), bound(None)));
    world.ask(submit([plain(3)]));
    world.ask(set(QueueId::shared(name("q")), bound(Some(1))));
    assert!(word(&world.ask(submit([plain(4)]))).starts_with("QueueFull"));
}

#[test]
fn a_queue_whose_settings_are_forgotten_is_as_if_it_had_none() {
    let mut world = World::new();
    world.ask(submit([plain(1)]));
    world.ask(set(mine(), QueueChange { waiting_max: Some(Some(1)), ..paused(true) }));
    assert!(word(&world.ask(submit([plain(2)]))).starts_with("QueueFull"));
    let forget = QueueChange { forget: true, ..QueueChange::default() };
    let left = settings(world.ask(set(mine(), forget)));
    assert_eq!((left.paused_at, left.waiting_max), (None, None));
    world.ask(submit([plain(2)]));
    assert_eq!(named(&world.ask(claim("q", 9))), ids([1, 2]));
}

#[test]
fn workers_hold_no_more_of_a_queue_than_is_set_for_it() {
    let mut world = World::new();
    world.ask(submit((1..=4).map(plain)));
    world.ask(set(mine(), QueueChange { active_max: Some(Some(2)), ..QueueChange::default() }));
    assert_eq!(named(&world.ask(claim("q", 9))), ids([1, 2]));
    let changes = world.apply(vec![claim("q", 9)]);
    assert!(matches!(&changes.answers[0], Answer::Claimed { capped: true, .. }), "{:?}", changes.answers);
    assert!(changes.woken.is_empty(), "what it may not have does not wake it");
    world.ask(cancel(1));
    assert_eq!(named(&world.ask(claim("q", 9))), ids([3]));
}

#[test]
fn jobs_of_a_queue_are_handed_out_no_faster_than_is_set_for_it() {
    let rate = |per_1000_s| QueueChange {
        rate: Some(Some(QueueRate::per_1000_s(per_1000_s))),
        ..QueueChange::default()
    };
    let mut world = World::new();
    world.ask(submit((1..=9).map(plain)));
    world.ask(set(QueueId::shared(name("q")), rate(2000)));
    let changes = world.apply(vec![claim("q", 9)]);
    assert_eq!(named(&changes.answers[0]), ids([1, 2]), "the jobs of a second");
    assert!(changes.woken.is_empty(), "what it may not have does not wake it");
    assert_eq!(changes.next_due, Some(world.now + Duration::from_millis(500)));
    let changes = world.apply(vec![claim("q", 9)]);
    assert_eq!((named(&changes.answers[0]), changes.next_due), (ids([]), None), "it is to be woken already");

    let changes = world.pass(Duration::from_millis(500)).apply(vec![Command::Due(usize::MAX)]);
    assert!(changes.woken.iter().any(|shelf| shelf.name == mine().key()), "{:?}", changes.woken);
    assert_eq!(named(&world.ask(claim("q", 9))), ids([3]));
    world.ask(cancel(4));
    world.pass(secs(1));
    assert_eq!(named(&world.ask(claim("q", 9))), ids([5, 6]), "one that was called off costs no turn");

    world.ask(set(mine(), rate(1)));
    world.pass(secs(999));
    assert_eq!(named(&world.ask(claim("q", 9))), ids([7]), "the slower of owner and operator counts");
    // A faster rate does not wait for the turn of the slower one.
    assert_eq!(named(&world.ask(claim("q", 9))), ids([]));
    world.ask(set(mine(), rate(1000)));
    let changes = world.apply(vec![claim("q", 9)]);
    assert_eq!((named(&changes.answers[0]), changes.next_due), (ids([]), Some(world.now + secs(1))));
    world.pass(secs(1));
    assert_eq!(named(&world.ask(claim("q", 9))), ids([8]));
    let lifted = QueueChange { rate: Some(None), ..QueueChange::default() };
    world.ask(set(mine(), lifted));
    world.ask(set(QueueId::shared(name("q")), lifted));
    assert_eq!(named(&world.ask(claim("q", 9))), ids([9]));
}

#[test]
fn the_pace_of_a_queue_that_rests_is_forgotten() {
    let mut world = World::new();
    world.ask(submit([plain(1)]));
    let rate = Some(Some(QueueRate::per_1000_s(1000)));
    world.ask(set(mine(), QueueChange { rate, ..QueueChange::default() }));
    world.ask(claim("q", 9));
    let n_paces =
        |world: &World| world.records.keys().filter(|key| key.kind == RecordKind::QueuePace).count();
    assert_eq!(n_paces(&world), 1);
    world.pass(secs(120)).due();
    assert_eq!(n_paces(&world), 0);
}

#[test]
fn a_paused_queue_takes_jobs_unless_the_caller_wants_it_refused() {
    let mut world = World::new();
    world.ask(set(mine(), paused(true)));
    let submit = |n, refuse_paused| {
        Command::Submit(Submit { jobs: vec![plain(n)], idempotency: None, queue_max: None, refuse_paused })
    };
    assert!(word(&world.ask(submit(1, true))).starts_with("QueuePaused"));
    assert_eq!(named(&world.ask(submit(2, false))), ids([2]));
}

#[test]
fn counts_tell_held_scheduled_waiting_and_expired_apart() {
    let mut world = World::new();
    let now = world.now;
    world.ask(submit([
        job(1, |head| head.hold = true),
        job(2, |head| head.execution_at = Some(now + secs(3600))),
        job(3, auto),
        job(4, |head| head.expires_at = Some(now + secs(1))),
        plain(5),
    ]));
    world.pass(secs(2)).due();
    world.fail_once(3, |error| error.retryable = Some(true));
    let counts = world.counts[&mine().key()];
    let mut expected = Counts::default();
    for facet in [Facet::Held, Facet::Scheduled, Facet::Expired, Facet::Available, Facet::Waiting] {
        expected.add(facet, 1);
    }
    assert_eq!(world.job(3).facet(), Facet::Waiting);
    assert_eq!(counts, expected);
    world.ask(activate(1));
    assert_eq!(world.counts[&mine().key()].at(Facet::Held), 0);
    assert_eq!(world.counts[&mine().key()].at(Facet::Available), 2);
}

#[test]
fn what_happens_in_a_queue_is_summed_up_by_minute() {
    let mut world = World::new();
    let mut seen = Activity::default();
    let minute = Minute::of(world.now);
    for command in [submit([plain(1), plain(2)]), claim_as("q", 2, |claim| claim.start = true)] {
        for (key, activity) in world.apply(vec![command]).activity {
            assert_eq!(key, (mine().key(), minute));
            seen.merge(activity);
        }
    }
    world.pass(std::time::Duration::from_millis(40));
    for command in [succeed(1, 1), fail(2, 1)] {
        world.apply(vec![command]).activity.into_values().for_each(|activity| seen.merge(activity));
    }
    assert_eq!((seen.submitted, seen.started, seen.succeeded, seen.failed), (2, 2, 1, 1));
    // Two times 40, less what rounding takes: no two moments are the same.
    assert!((76..=80).contains(&seen.ran_ms), "{seen:?}");
}

#[test]
fn a_newcomer_may_take_over_the_schedule_of_the_job_it_replaces() {
    let mut world = World::new();
    let at = world.now + secs(60);
    let unique =
        |on_conflict| Some(Unique { key: [5; 32], facets: Unique::UNFINISHED, until: None, on_conflict });
    world.ask(submit([job(1, |head| {
        head.execution_at = Some(at);
        head.unique = unique(Conflict::Reject);
    })]));
    world.ask(submit([job(2, |head| head.unique = unique(Conflict::ReplaceKeepingSchedule))]));
    assert_eq!((world.job(1).facet(), world.job(2).facet()), (Facet::Canceled, Facet::Scheduled));
    assert_eq!(world.job(2).head.execution_at, Some(at));
}
