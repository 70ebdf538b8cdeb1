//! Limits that jobs share: places (concurrency) and turns (rate).

use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

use crate::command::NewJob;
use crate::job::{Limit, Parked, Rate};
use crate::limits;
use crate::state::State;
use crate::time::Time;
use crate::world::World;
use crate::world::build::*;

fn limited(n: u128, concurrency: u32) -> NewJob {
    job(n, |head| head.limits = vec![limit(Some(concurrency))])
}

fn once_a_second(n: u128) -> NewJob {
    let rate = Rate { count: 1, per: secs(1) };
    job(n, |head| head.limits = vec![Limit { rate: Some(rate), ..limit(None) }])
}

#[test]
fn jobs_without_a_place_are_parked_and_do_not_stand_in_the_way() {
    let mut world = World::new();
    world.ask(submit([limited(1, 1), limited(2, 1), limited(3, 1), plain(4)]));
    assert_eq!(named(&world.ask(claim("q", 2))), ids([1]), "the claim saw jobs 1 and 2");
    assert_eq!(named(&world.ask(claim("q", 2))), ids([4]), "job 3 is passed by");
    assert_eq!([2, 3].map(|n| world.job(n).parked), [Parked::ForPlace; 2]);
    assert_eq!(world.limits[&name("shared")].active, 1);
}

#[test]
fn a_place_goes_to_whoever_waits_longest_however_it_became_free() {
    for free in [succeed(1, 1), fail(1, 1), cancel(1), hand_back(1, 1)] {
        let mut world = World::new();
        world.ask(submit([limited(1, 1), limited(2, 1), limited(3, 1)]));
        world.ask(claim("q", 9));
        world.ask(start(1, 1));
        let changes = world.apply(vec![free.clone()]);
        assert_eq!([2, 3].map(|n| world.job(n).parked), [Parked::No, Parked::ForPlace], "{free:?}");
        assert!(!changes.woken.is_empty(), "{free:?}: a worker is told");
        let next = if world.job(1).state == State::Queued { 1 } else { 2 };
        assert_eq!(named(&world.ask(claim("q", 9))), ids([next]), "{free:?}");
    }
}

#[test]
fn a_lost_lease_gives_its_place_back_too() {
    let mut world = World::new();
    world.ask(submit([limited(1, 1), limited(2, 1)]));
    world.ask(claim("q", 9));
    world.pass(secs(11)).due();
    assert_eq!(world.job(2).parked, Parked::No);
    assert_eq!(world.limits[&name("shared")].active, 0);
}

#[test]
fn a_place_is_free_for_the_claim_behind_it_in_the_same_batch() {
    let mut world = World::new();
    world.ask(submit([limited(1, 1), limited(2, 1)]));
    world.ask(claim_as("q", 9, |claim| claim.start = true));
    let changes = world.apply(vec![succeed(1, 1), claim("q", 9)]);
    assert_eq!(named(&changes.answers[1]), ids([2]));
}

#[test]
fn every_limited_job_runs_in_the_end_two_at_a_time() {
    let mut world = World::new();
    world.ask(submit((1..=100).map(|n| limited(n, 2))));
    let mut order = Vec::new();
    while order.len() < 100 {
        let claimed = named(&world.ask(claim_as("q", 9, |claim| claim.start = true)));
        assert!(world.n_active() <= 2);
        for job in claimed {
            world.ask(succeed(job.as_u128(), 1));
            order.push(job);
        }
    }
    assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 100);
}

#[test]
fn a_limited_job_is_not_handed_out_by_the_batch_that_bore_it() {
    let mut world = World::new();
    world.ask(submit([limited(1, 1)]));
    world.ask(claim("q", 1));
    // Nothing in this batch names a job that was there before, so the state of the limit was not
    // loaded.
    let changes = world.apply(vec![submit([limited(2, 1)]), claim("q", 9)]);
    assert_eq!(named(&changes.answers[1]), ids([]));
    assert!(!changes.woken.is_empty(), "the next batch looks at it");
    assert_eq!(named(&world.ask(claim("q", 9))), ids([]));
    assert_eq!(world.job(2).parked, Parked::ForPlace);
}

/// Whoever gets a free place is made claimable, and may be called off before it is claimed. The
/// others must not wait for it for ever.
#[test]
fn a_parked_job_is_looked_at_again_when_the_one_before_it_never_takes_its_place() {
    let mut world = World::new();
    world.ask(submit((1..=3).map(|n| limited(n, 1))));
    world.ask(claim("q", 9));
    world.apply(vec![cancel(1), cancel(2)]);
    assert_eq!(world.job(3).parked, Parked::ForPlace);
    assert_eq!(named(&world.ask(claim("q", 9))), ids([]));
    world.pass(limits::PARKED).due();
    assert_eq!(named(&world.ask(claim("q", 9))), ids([3]));
}

#[test]
fn a_parked_job_that_is_looked_at_in_vain_is_parked_again() {
    let mut world = World::new();
    world.ask(submit([limited(1, 1), limited(2, 1)]));
    world.ask(claim_as("q", 9, |claim| claim.lease = Some(limits::PARKED * 9)));
    world.pass(limits::PARKED).due();
    assert_eq!(world.job(2).parked, Parked::No);
    assert_eq!(named(&world.ask(claim("q", 9))), ids([]));
    assert_eq!(world.job(2).parked, Parked::ForPlace);
}

#[test]
fn the_first_of_a_rate_goes_at_once_and_each_other_gets_a_moment_of_its_own() {
    let mut world = World::new();
    world.ask(submit((1..=101).map(once_a_second)));
    assert_eq!(named(&world.ask(claim("q", 101))), ids([1]));
    let moments: Vec<Option<Time>> = (2..=101).map(|n| world.job(n).available_at).collect();
    let expected: Vec<Option<Time>> = (1..=100).map(|n| Some(world.now + secs(n))).collect();
    assert_eq!(moments, expected);
}

#[test]
fn a_job_goes_when_its_reserved_moment_has_come_and_not_before() {
    let mut world = World::new();
    world.ask(submit((1..=3).map(once_a_second)));
    world.ask(claim("q", 9));
    assert_eq!(world.due(), 0);
    assert_eq!(named(&world.ask(claim("q", 9))), ids([]));
    for n in [2, 3] {
        world.pass(secs(1)).due();
        assert_eq!(world.job(n).parked, Parked::TurnCame);
        assert_eq!(named(&world.ask(claim("q", 9))), ids([n]), "its turn is not counted twice");
    }
}

#[test]
fn a_rate_that_was_not_used_allows_its_burst_and_no_more() {
    let mut world = World::new();
    let rate = Some(Rate { count: 3, per: secs(3) });
    let bursting = |n| job(n, |head| head.limits = vec![Limit { rate, ..limit(None) }]);
    world.ask(submit((1..=9).map(bursting)));
    assert_eq!(named(&world.ask(claim("q", 9))), ids([1, 2, 3]));
    assert_eq!(world.job(4).available_at, Some(world.now + secs(1)));
}

#[test]
fn a_rate_is_shared_by_the_jobs_of_all_queues_with_its_key() {
    let mut world = World::new();
    world.ask(submit([once_a_second(1)]));
    world.ask(submit([job(2, |head| {
        head.queue = name("other");
        head.limits = once_a_second(2).head.limits.clone();
    })]));
    assert_eq!(named(&world.ask(claim("q other", 9))), ids([1]));
    assert_eq!(world.job(2).parked, Parked::ForTurn);
}

/// A job with a place in each of these keys, of which each has one.
fn in_all(n: u128, keys: &[&str]) -> NewJob {
    let of = |key: &&str| Limit { key: name(key), ..limit(Some(1)) };
    job(n, |head| head.limits = keys.iter().map(of).collect())
}

#[test]
fn a_job_takes_a_place_in_all_of_its_limits_or_in_none() {
    let mut world = World::new();
    world.ask(submit([in_all(1, &["a"]), in_all(2, &["a", "b"]), in_all(3, &["b"]), in_all(4, &["a"])]));
    assert_eq!(named(&world.ask(claim("q", 4))), ids([1, 3]), "job 2 keeps nothing of b");
    let active = |world: &World, key: &str| world.limits[&name(key)].active;
    assert_eq!([active(&world, "a"), active(&world, "b")], [1, 1]);
    world.apply(vec![start(1, 1), succeed(1, 1)]);
    assert_eq!(named(&world.ask(claim("q", 4))), ids([4]), "job 2 waits for b, and passes the place in a on");
    assert_eq!(world.job(2).parked_for, 1);
    world.apply(vec![start(3, 1), succeed(3, 1), start(4, 1), succeed(4, 1)]);
    assert_eq!(named(&world.ask(claim("q", 4))), ids([2]));
    assert_eq!([active(&world, "a"), active(&world, "b")], [1, 1]);
}

#[test]
fn jobs_that_need_the_same_places_in_another_order_do_not_wait_for_each_other() {
    let mut world = World::new();
    world.ask(submit([in_all(1, &["a", "b"]), in_all(2, &["b", "a"]), in_all(3, &["a", "b"])]));
    for n in 1..=3 {
        assert_eq!(named(&world.ask(claim("q", 4))), ids([n]));
        world.apply(vec![start(n, 1), succeed(n, 1)]);
    }
}

#[test]
fn a_job_waits_for_the_latest_of_its_rates_and_uses_a_turn_of_each() {
    let rate = |key: &str, per| Limit { key: name(key), rate: Some(Rate { count: 1, per }), ..limit(None) };
    let both = |n| job(n, |head| head.limits = vec![rate("fast", secs(1)), rate("slow", secs(60))]);
    let mut world = World::new();
    world.ask(submit([both(1), both(2), job(3, |head| head.limits = vec![rate("fast", secs(1))])]));
    assert_eq!(named(&world.ask(claim("q", 3))), ids([1]));
    assert_eq!(world.job(2).available_at, Some(world.now + secs(60)));
    assert_eq!(
        world.job(3).available_at,
        Some(world.now + secs(1)),
        "job 2 reserved nothing of the fast rate"
    );
    world.pass(secs(60));
    world.due();
    assert_eq!(named(&world.ask(claim("q", 3))), ids([2, 3]));
}
