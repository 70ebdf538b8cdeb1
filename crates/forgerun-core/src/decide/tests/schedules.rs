//! Schedules: each tick makes one job at most, whatever happens around it.

use std::boxed::Box;
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use crate::command::{
    Answer, Command, DueTick, Firing, PutSchedule, Refusal, ResumeSchedule, ScheduleCommand, Trigger,
};
use crate::id::JobId;
use crate::job::{Conflict, Head, ScheduledRun, Unique};
use crate::limits;
use crate::queue::Owner;
use crate::record::{Record, Stored};
use crate::schedule::{CatchUp, Overlap, Schedule, ScheduleCount, ScheduleId, TickSkip};
use crate::state::State;
use crate::time::Time;
use crate::world::World;
use crate::world::build::*;

fn schedule_id() -> ScheduleId {
    ScheduleId { owner: Owner::client(CLIENT), name: name("nightly") }
}

/// A schedule that ticks every minute, with its next tick in a minute.
fn every_minute(world: &World) -> Schedule {
    let head = Head::new(CLIENT, name("q"), world.now);
    let schedule = Schedule::new(schedule_id(), "* * * * *".into(), "UTC".into(), head, Arc::default());
    Schedule { next_at: Some(world.now + secs(60)), ..schedule }
}

fn put(schedule: Schedule) -> Command {
    Command::Schedule(ScheduleCommand::Put(Box::new(PutSchedule { schedule, enabled: None })))
}

fn registered(set: impl FnOnce(&mut Schedule)) -> World {
    let mut world = World::new();
    let mut schedule = every_minute(&world);
    set(&mut schedule);
    assert!(matches!(world.ask(put(schedule)), Answer::Schedule { created: true, .. }));
    world
}

fn stored(world: &World) -> Schedule {
    Schedule::of(record(world)).unwrap()
}

fn record(world: &World) -> &Record {
    &world.records[&Schedule::record_key(schedule_id().key())]
}

fn due(world: &mut World) -> Vec<Schedule> {
    match world.ask(Command::Due(100)) {
        Answer::Due { schedules, .. } => schedules,
        answer => panic!("{answer:?}"),
    }
}

/// What a node does that finds the schedule due: jobs have the numbers from `first` on.
fn firing(seen: Schedule, now: Time, first: u128) -> Command {
    let next = seen.next_at.unwrap();
    let ticks = (0..).map(|n| next + secs(60) * n).take_while(|tick| *tick <= now);
    let ticks: Vec<DueTick> = ticks.zip(first..).map(|(at, n)| DueTick { at, job: id(n) }).collect();
    let next = ticks.last().map(|tick| tick.at + secs(60));
    Command::Schedule(ScheduleCommand::Fire(Box::new(Firing {
        seen,
        ticks,
        n_older: 0,
        next,
        queue_max: Some(2),
    })))
}

/// Lets `n` minutes pass, and deals with the ticks.
fn minutes(world: &mut World, n: u64, first: u128) {
    world.pass(secs(60 * n));
    let seen = due(world).pop().expect("it is due");
    let command = firing(seen, world.now, first);
    assert_eq!(world.ask(command), Answer::Settled);
}

fn jobs(world: &World) -> Vec<JobId> {
    world.jobs.keys().copied().collect()
}

#[test]
fn a_tick_makes_a_job_and_moves_the_schedule_on_in_one_step() {
    let mut world = registered(|_| {});
    assert!(due(&mut world).is_empty());
    world.pass(secs(60));
    let tick = world.now;
    let seen = due(&mut world).pop().unwrap();
    let command = firing(seen, tick, 1);
    let changes = world.apply(vec![command]);
    assert_eq!((changes.inserted.len(), changes.records.len()), (1, 1));
    let job = world.job(1);
    assert_eq!(job.head.schedule, Some(ScheduledRun { name: name("nightly"), tick }));
    assert_eq!((job.state, job.head.created_at), (State::Queued, tick));
    let schedule = stored(&world);
    assert_eq!((schedule.last_at, schedule.last_job, schedule.n_runs), (Some(tick), Some(id(1)), 1));
    assert_eq!(record(&world).due_at, Some(tick + secs(60)));
}

#[test]
fn two_nodes_that_find_one_tick_make_one_job() {
    let mut world = registered(|_| {});
    world.pass(secs(60));
    let seen = due(&mut world).pop().unwrap();
    let (one, other) = (firing(seen.clone(), world.now, 1), firing(seen, world.now, 2));
    let answers = world.apply(vec![one.clone(), other]).answers;
    assert_eq!(answers, [Answer::Settled, Answer::Settled]);
    assert_eq!(jobs(&world), [id(1)]);
    // And so in a transaction of its own, however late.
    world.ask(one);
    assert_eq!((jobs(&world), stored(&world).n_runs), (ids([1]), 1));
}

#[test]
fn a_schedule_that_was_changed_deleted_or_paused_meanwhile_is_left_alone() {
    let changes: [fn(&Schedule) -> Command; 3] = [
        |_| Command::Schedule(ScheduleCommand::Delete(schedule_id())),
        |_| Command::Schedule(ScheduleCommand::Pause(schedule_id())),
        |seen| put(Schedule { description: Some("new".into()), ..seen.clone() }),
    ];
    for change in changes {
        let mut world = registered(|_| {});
        world.pass(secs(60));
        let seen = due(&mut world).pop().unwrap();
        world.ask(change(&seen));
        let command = firing(seen, world.now, 1);
        world.ask(command);
        assert_eq!(jobs(&world), []);
    }
}

#[test]
fn a_clock_that_goes_back_brings_no_tick_twice() {
    let mut world = registered(|schedule| schedule.overlap = Overlap::Allow);
    minutes(&mut world, 1, 1);
    world.now = world.now - secs(600);
    assert!(due(&mut world).is_empty());
    world.pass(secs(659));
    assert!(due(&mut world).is_empty());
    minutes(&mut world, 1, 2);
    assert_eq!(jobs(&world), ids([1, 2]));
}

#[test]
fn missed_ticks_are_made_up_for_as_the_policy_says() {
    let cases = [
        (CatchUp::Nothing, vec![5], 4),
        (CatchUp::One, vec![5], 4),
        (CatchUp::All(3), vec![3, 4, 5], 2),
        (CatchUp::All(9), vec![1, 2, 3, 4, 5], 0),
    ];
    for (catch_up, expected, n_missed) in cases {
        let mut world = registered(|schedule| {
            schedule.catch_up = catch_up;
            schedule.overlap = Overlap::Allow;
        });
        world.pass(secs(300));
        let seen = due(&mut world).pop().unwrap();
        let Command::Schedule(ScheduleCommand::Fire(mut all)) = firing(seen, world.now, 1) else { panic!() };
        all.queue_max = None;
        world.ask(Command::Schedule(ScheduleCommand::Fire(all)));
        assert_eq!(jobs(&world), ids(expected), "{catch_up:?}");
        assert_eq!(stored(&world).n_missed, n_missed, "{catch_up:?}");
    }
    let mut world = registered(|schedule| schedule.catch_up = CatchUp::Nothing);
    world.pass(secs(60) + limits::SCHEDULE_LATE + secs(1));
    let seen = due(&mut world).pop().unwrap();
    let mut command = firing(seen, world.now, 1);
    if let Command::Schedule(ScheduleCommand::Fire(firing)) = &mut command {
        firing.ticks.truncate(1);
    }
    world.ask(command);
    assert_eq!((jobs(&world), stored(&world).n_missed), (vec![], 1));
}

#[test]
fn while_an_earlier_job_has_not_ended_the_overlap_policy_decides() {
    let of = |overlap| {
        let mut world = registered(|schedule| schedule.overlap = overlap);
        minutes(&mut world, 1, 1);
        minutes(&mut world, 1, 2);
        world
    };
    let world = of(Overlap::Skip);
    let tick = world.now;
    assert_eq!(jobs(&world), ids([1]));
    assert_eq!(stored(&world).last_skip, Some((tick, TickSkip::Overlap)));
    let world = of(Overlap::Allow);
    assert_eq!(jobs(&world), ids([1, 2]));
    let world = of(Overlap::CancelPrevious);
    assert_eq!((world.job(1).state, world.job(2).state), (State::Canceled, State::Queued));
    let mut world = of(Overlap::Enqueue);
    assert_eq!(named(&world.ask(claim("q", 2))), ids([1]), "only one is handed out at a time");
}

#[test]
fn a_job_that_has_ended_is_no_overlap() {
    let mut world = registered(|_| {});
    minutes(&mut world, 1, 1);
    world.ask(cancel(1));
    minutes(&mut world, 1, 2);
    assert_eq!((jobs(&world), stored(&world).n_skipped), (ids([1, 2]), 0));
}

#[test]
fn a_full_queue_puts_the_tick_off() {
    let mut world = registered(|schedule| schedule.overlap = Overlap::Allow);
    world.ask(submit([plain(100), plain(101)]));
    minutes(&mut world, 1, 1);
    let tick = world.now;
    assert_eq!(jobs(&world), ids([100, 101]));
    assert_eq!(stored(&world).next_at, Some(tick));
    assert_eq!(record(&world).due_at, Some(tick + limits::SCHEDULE_PUT_OFF));
    world.ask(cancel(100));
    world.pass(limits::SCHEDULE_PUT_OFF);
    let seen = due(&mut world).pop().unwrap();
    let command = firing(seen, world.now, 1);
    world.ask(command);
    assert_eq!(world.job(1).head.schedule.as_ref().unwrap().tick, tick);
    assert_eq!(record(&world).due_at, Some(tick + secs(60)));
}

#[test]
fn a_tick_whose_job_is_not_unique_is_skipped() {
    let unique =
        Unique { key: [7; 32], facets: Unique::UNFINISHED, until: None, on_conflict: Conflict::Reject };
    let mut world = registered(|schedule| {
        schedule.overlap = Overlap::Allow;
        Arc::make_mut(&mut schedule.head).unique = Some(unique.clone());
    });
    world.ask(submit([job(100, |head| head.unique = Some(unique.clone()))]));
    minutes(&mut world, 1, 1);
    assert_eq!(jobs(&world), ids([100]));
    assert_eq!(stored(&world).last_skip, Some((world.now, TickSkip::Duplicate)));
}

#[test]
fn registering_again_keeps_what_happened_and_the_tick_that_is_due() {
    let mut world = registered(|_| {});
    minutes(&mut world, 1, 1);
    world.pass(secs(60));
    let again = Schedule { description: Some("again".into()), ..every_minute(&world) };
    let Answer::Schedule { schedule, created: false } = world.ask(put(again)) else { panic!() };
    assert_eq!((schedule.n_runs, schedule.last_job), (1, Some(id(1))));
    assert_eq!(schedule.next_at, Some(world.now), "the tick of now is not lost");
    let other = Schedule { expression: "0 0 * * *".into(), ..every_minute(&world) };
    let Answer::Schedule { schedule, .. } = world.ask(put(other)) else { panic!() };
    assert_eq!(schedule.next_at, Some(world.now + secs(60)), "with another expression, the old tick is void");
}

#[test]
fn a_paused_schedule_stays_paused_until_it_is_resumed() {
    let mut world = registered(|_| {});
    world.ask(Command::Schedule(ScheduleCommand::Pause(schedule_id())));
    assert_eq!(record(&world).due_at, None);
    let again = every_minute(&world);
    world.ask(put(again));
    assert!(stored(&world).paused_at.is_some(), "registering it again does not resume it");
    world.pass(secs(600));
    let (seen, next) = (stored(&world), Some(world.now + secs(60)));
    let other = Schedule { zone: "Europe/Berlin".into(), ..seen.clone() };
    let resume = |seen| Command::Schedule(ScheduleCommand::Resume(Box::new(ResumeSchedule { seen, next })));
    assert_eq!(world.ask(resume(other)), Answer::Refused(Refusal::ScheduleChanged));
    world.ask(resume(seen));
    assert_eq!((stored(&world).paused_at, record(&world).due_at), (None, next));
    let schedule = every_minute(&world);
    world.ask(Command::Schedule(ScheduleCommand::Put(Box::new(PutSchedule {
        schedule,
        enabled: Some(false),
    }))));
    assert_eq!(stored(&world).paused_at, Some(world.now));
}

#[test]
fn a_trigger_makes_a_job_at_any_time_and_leaves_the_ticks_alone() {
    let mut world = registered(|_| {});
    minutes(&mut world, 1, 1);
    world.ask(Command::Schedule(ScheduleCommand::Pause(schedule_id())));
    let seen = stored(&world);
    let trigger = |seen, job| {
        let trigger = Trigger { seen, job: id(job), queue_max: None };
        Command::Schedule(ScheduleCommand::Trigger(Box::new(trigger)))
    };
    assert_eq!(named(&world.ask(trigger(seen.clone(), 2))), ids([2]));
    let schedule = stored(&world);
    assert_eq!((schedule.next_at, schedule.n_runs, schedule.last_job), (seen.next_at, 2, Some(id(2))));
    let other = Schedule { head: Arc::new(Head::new(CLIENT, name("other"), world.now)), ..seen };
    assert_eq!(world.ask(trigger(other.clone(), 3)), Answer::Refused(Refusal::ScheduleChanged));
    world.ask(Command::Schedule(ScheduleCommand::Delete(schedule_id())));
    assert_eq!(world.ask(trigger(other, 3)), Answer::Refused(Refusal::ScheduleNotFound));
}

#[test]
fn a_trigger_does_not_hide_the_job_of_the_last_tick_from_the_next_one() {
    for (overlap, left) in [(Overlap::Skip, State::Queued), (Overlap::CancelPrevious, State::Canceled)] {
        let mut world = registered(|schedule| schedule.overlap = overlap);
        minutes(&mut world, 1, 1);
        let trigger = Trigger { seen: stored(&world), job: id(2), queue_max: None };
        world.ask(Command::Schedule(ScheduleCommand::Trigger(Box::new(trigger))));
        world.ask(cancel(2));
        minutes(&mut world, 1, 3);
        assert_eq!(world.job(1).state, left, "{overlap:?}");
        assert_eq!(world.jobs.contains_key(&id(3)), overlap == Overlap::CancelPrevious);
    }
}

#[test]
fn a_job_is_not_cancelled_for_one_that_finds_no_room() {
    let mut world = registered(|schedule| schedule.overlap = Overlap::CancelPrevious);
    minutes(&mut world, 1, 1);
    world.ask(claim_as("q", 1, |claim| {
        (claim.start, claim.lease) = (true, Some(secs(600)));
    }));
    world.ask(submit([job(100, |_| {}), job(101, |_| {})]));
    minutes(&mut world, 1, 2);
    assert_eq!((jobs(&world), world.job(1).state), (ids([1, 100, 101]), State::Running));
    assert_eq!(stored(&world).next_at, Some(world.now), "the tick is tried again");
    world.ask(cancel(100));
    world.pass(limits::SCHEDULE_PUT_OFF);
    let seen = due(&mut world).pop().unwrap();
    let command = firing(seen, world.now, 2);
    world.ask(command);
    assert_eq!((world.job(1).state, world.job(2).state), (State::Canceled, State::Queued));
}

#[test]
fn a_tick_that_a_node_cannot_read_is_kept_and_looked_at_again_in_a_while() {
    let mut world = registered(|_| {});
    world.pass(secs(60));
    let seen = due(&mut world).pop().unwrap();
    let put_off = Command::Schedule(ScheduleCommand::PutOff(Box::new(seen.clone())));
    assert_eq!(world.ask(put_off), Answer::Settled);
    assert_eq!(stored(&world).next_at, seen.next_at);
    assert_eq!(record(&world).due_at, Some(world.now + limits::SCHEDULE_UNREADABLE_PUT_OFF));
}

#[test]
fn registering_a_schedule_again_gives_it_the_next_tick_that_it_had_lost() {
    let mut world = registered(|schedule| schedule.next_at = None);
    let again = every_minute(&world);
    world.ask(put(again));
    assert_eq!(record(&world).due_at, Some(world.now + secs(60)));
}

#[test]
fn a_schedule_that_cannot_be_read_is_kept_and_is_not_due_for_ever() {
    let mut world = registered(|_| {});
    let key = Schedule::record_key(schedule_id().key());
    world.records.get_mut(&key).unwrap().bytes = vec![1];
    world.pass(secs(60));
    assert!(due(&mut world).is_empty());
    assert_eq!((record(&world).due_at, record(&world).bytes.as_slice()), (None, &[1][..]));
}

#[test]
fn a_client_has_so_many_schedules_and_no_more() {
    let mut world = registered(|_| {});
    let full = ScheduleCount { client: CLIENT, n: limits::SCHEDULES_MAX };
    let key = ScheduleCount::record_key(full.key());
    let count = |world: &World| ScheduleCount::of(&world.records[&key]).unwrap().n;
    let again = every_minute(&world);
    world.ask(put(again));
    assert_eq!(count(&world), 1, "a change is no second one");
    world.ask(Command::Schedule(ScheduleCommand::Delete(schedule_id())));
    assert_eq!(count(&world), 0);
    world.records.insert(key.clone(), full.to_record(7));
    let more = every_minute(&world);
    assert_eq!(world.ask(put(more)), Answer::Refused(Refusal::TooManySchedules));
}
