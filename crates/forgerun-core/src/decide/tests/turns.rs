//! Fair keys: who is next.

use std::vec;
use std::vec::Vec;

use crate::command::NewJob;
use crate::fair::Fair;
use crate::id::JobId;
use crate::world::World;
use crate::world::build::*;

/// A job accepted as the `n`th, with a key.
fn of_key(n: u128, key: &str, weight: u8) -> NewJob {
    job(n, |head| {
        head.fair = Fair::new(name(key), weight);
        head.place = Some(JobId::v7(1, n));
    })
}

fn without_key(n: u128) -> NewJob {
    job(n, |head| head.place = Some(JobId::v7(1, n)))
}

/// The key or number of each job that is handed out, one claim after the other.
fn order(world: &mut World, n: usize) -> Vec<u128> {
    (0..n).flat_map(|_| named(&world.ask(claim("q", 1)))).map(JobId::as_u128).collect()
}

#[test]
fn one_job_of_a_key_is_next_but_one_whatever_others_have_waiting() {
    let mut world = World::new();
    world.ask(submit((1..=60).map(|n| of_key(n, "many", 1))));
    world.ask(submit([of_key(900, "one", 1)]));
    assert_eq!(order(&mut world, 4), [1, 900, 2, 3]);
}

#[test]
fn keys_take_turns_by_weight() {
    let jobs = || (1..=12).map(|n| of_key(n, "a", 3)).chain((101..=104).map(|n| of_key(n, "b", 1)));
    let mut world = World::new();
    world.ask(submit(jobs()));
    let one_by_one = order(&mut world, 16);
    for four in one_by_one.chunks(4) {
        assert_eq!(four.iter().filter(|&&n| n > 100).count(), 1, "{one_by_one:?}");
    }
    let mut world = World::new();
    world.ask(submit(jobs()));
    let at_once: Vec<u128> = named(&world.ask(claim("q", 16))).into_iter().map(JobId::as_u128).collect();
    assert_eq!(at_once, one_by_one, "one claim takes what sixteen take");
}

#[test]
fn a_key_that_was_idle_gets_no_credit() {
    let mut world = World::new();
    world.ask(submit((1..=100).map(|n| of_key(n, "busy", 1))));
    order(&mut world, 50);
    world.ask(submit((201..=210).map(|n| of_key(n, "idle", 1))));
    let next = order(&mut world, 10);
    assert_eq!(next.iter().filter(|&&n| n > 200).count(), 5, "{next:?}");
}

#[test]
fn a_key_that_submits_one_job_at_a_time_takes_its_turns_only() {
    let mut world = World::new();
    world.ask(submit((1..=100).map(|n| of_key(n, "busy", 1))));
    world.ask(submit([of_key(201, "eager", 1)]));
    let mut n_eager = 0;
    for n in 0..20 {
        let handed = order(&mut world, 1);
        if handed[0] > 200 {
            n_eager += 1;
            world.ask(submit([of_key(300 + n, "eager", 1)]));
        }
    }
    assert_eq!(n_eager, 10);
}

#[test]
fn a_turn_counts_when_a_job_is_handed_out() {
    let mut world = World::new();
    world.ask(submit((1..=9).map(|n| of_key(n, "a", 1)).chain((101..=109).map(|n| of_key(n, "b", 1)))));
    world.apply((101..=107).map(cancel).collect());
    assert_eq!(order(&mut world, 4), [1, 108, 2, 109], "what was cancelled took no turn");
    world.ask(hold_back(3, true));
    assert_eq!(order(&mut world, 1), [4], "the next of the key steps forward");
    world.ask(hold_back(3, false));
    assert_eq!(order(&mut world, 2), [5, 3], "job 5 stood in line");
}

#[test]
fn the_weight_of_the_newest_job_counts() {
    let mut world = World::new();
    world.ask(submit((1..=40).map(|n| of_key(n, "a", 1)).chain((101..=140).map(|n| of_key(n, "b", 1)))));
    world.ask(submit([of_key(41, "a", 4)]));
    let next = order(&mut world, 20);
    assert_eq!(next.iter().filter(|&&n| n < 100).count(), 16, "{next:?}");
}

#[test]
fn jobs_without_a_key_share_one_of_weight_one() {
    let mut world = World::new();
    world.ask(submit((1..=50).map(without_key)));
    world.ask(submit((101..=150).map(|n| of_key(n, "a", 1))));
    world.ask(submit((201..=250).map(|n| of_key(n, "b", 2))));
    for limit in [1, 1, 1, 1, 4, 8, 12, 12] {
        world.ask(claim("q", limit));
    }
    let held = |from| (from..from + 50).filter(|&n| world.job(n).fence > 0).count();
    assert_eq!([1, 101, 201].map(held), [10, 10, 20]);
}

#[test]
fn keys_take_turns_within_a_priority() {
    let mut world = World::new();
    world.ask(submit((1..=3).map(|n| of_key(n, "a", 1))));
    let urgent = |n| {
        job(n, |head| {
            head.fair = Fair::new(name("a"), 1);
            head.priority = 5;
        })
    };
    world.ask(submit([urgent(8), urgent(9)]));
    world.ask(submit([of_key(101, "b", 1)]));
    assert_eq!(order(&mut world, 6), [8, 9, 1, 101, 2, 3]);
}

#[test]
fn a_job_without_room_in_its_limit_passes_its_turn_on() {
    let limited = |n| {
        job(n, |head| {
            head.fair = Fair::new(name("a"), 1);
            head.limits = vec![limit(Some(1))];
        })
    };
    let mut world = World::new();
    world.ask(submit([limited(1), limited(2), of_key(3, "a", 1), of_key(101, "b", 1)]));
    // The third claim sees job 2 alone, parks it, and says that there is more.
    assert_eq!(order(&mut world, 4), [1, 101, 3]);
    world.ask(start(1, 1));
    world.ask(succeed(1, 1));
    assert_eq!(order(&mut world, 1), [2], "woken, it stands in line again");
}

#[test]
fn a_retry_stands_in_line_before_newer_jobs_of_its_key() {
    let mut world = World::new();
    world.ask(submit((1..=4).map(|n| of_key(n, "a", 1))));
    assert_eq!(order(&mut world, 1), [1]);
    world.ask(hand_back(1, 1));
    assert_eq!(order(&mut world, 4), [2, 1, 3, 4]);
}

#[test]
fn a_job_that_comes_while_a_worker_waits_is_handed_out_in_the_same_batch() {
    let mut world = World::new();
    let changes = world.apply(vec![submit([of_key(1, "a", 1), of_key(2, "a", 1)]), claim("q", 2)]);
    assert_eq!(named(&changes.answers[1]), ids([1, 2]));
}

#[test]
fn without_keys_nothing_is_locked_or_written_for_turns() {
    let mut world = World::new();
    for command in [submit([plain(1), plain(2)]), claim("q", 1)] {
        let batch = crate::Batch { now: world.now, seed: 1, commands: vec![command.clone()] };
        assert!(crate::wants(&batch).limits.is_empty());
        assert!(world.apply(vec![command]).limits.is_empty());
    }
}
