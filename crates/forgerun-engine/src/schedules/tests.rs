//! Which ticks are due, and which are not looked at.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::id::ClientId;
use forgerun_core::job::{Head, Name};
use forgerun_core::queue::Owner;
use forgerun_core::schedule::ScheduleId;

use super::*;

const NOON: Time = Time::from_millis(1_780_000_000_000 / 86_400_000 * 86_400_000 + 43_200_000);

fn schedule(expression: &str, next_at: Time) -> Schedule {
    let owner = Owner::client(ClientId::from_u128(1));
    let head = Head::new(owner.client, Name::new("q").unwrap(), NOON);
    let id = ScheduleId { owner, name: Name::new("s").unwrap() };
    let schedule = Schedule::new(id, expression.into(), "UTC".into(), head, Arc::default());
    Schedule { next_at: Some(next_at), ..schedule }
}

fn due(schedule: &Schedule, now: Time) -> DueTicks {
    due_ticks(&Recurrence::of(schedule).unwrap(), schedule, now)
}

#[test]
fn ticks_are_due_up_to_now_and_the_next_one_is_not() {
    let minute = Duration::from_secs(60);
    let found = due(&schedule("* * * * *", NOON), NOON + minute * 2);
    assert_eq!(found.ticks, [NOON, NOON + minute, NOON + minute * 2]);
    assert_eq!((found.n_older, found.next), (0, Some(NOON + minute * 3)));
    let early = due(&schedule("* * * * *", NOON), NOON - Duration::from_micros(1));
    assert_eq!((early.ticks.len(), early.next), (0, Some(NOON)));
}

#[test]
fn a_tick_with_jitter_is_due_when_its_job_comes() {
    let schedule = Schedule { jitter: Duration::from_secs(3600), ..schedule("@daily", NOON) };
    let comes_at = schedule.comes_at(NOON);
    assert!(comes_at > NOON);
    assert_eq!(due(&schedule, comes_at - Duration::from_micros(1)).ticks.len(), 0);
    assert_eq!(due(&schedule, comes_at).ticks, [NOON]);
}

#[test]
fn of_a_month_of_seconds_the_newest_are_found_without_looking_at_all() {
    let now = NOON + Duration::from_secs(30 * 24 * 3600);
    let found = due(&schedule("* * * * * *", NOON), now);
    assert_eq!(found.ticks.len(), CATCH_UP_MAX);
    assert_eq!((found.ticks.back(), found.next), (Some(&now), Some(now + Duration::from_secs(1))));
    assert!(found.n_older < 200_000, "{} were looked at", found.n_older);
}

#[test]
fn the_tick_of_a_schedule_whose_zone_is_gone_is_put_off() {
    let gone = Schedule { zone: "Atlantis/City".into(), ..schedule("* * * * *", NOON) };
    let command = fire(gone.clone(), NOON, None, || JobId::from_u128(1));
    let Command::Schedule(ScheduleCommand::PutOff(seen)) = command else { panic!("{command:?}") };
    assert_eq!(*seen, gone);
}
