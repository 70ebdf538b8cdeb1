//! The rules, command by command, in a world small enough to see whole. What holds for every
//! command is here; the rest has the same files as the rules.

mod audit;
mod checkpoints;
mod claim;
mod client_limits;
mod compensation;
mod conclude;
mod control;
mod deadline;
mod deliveries;
mod due;
mod exact;
mod failures;
mod for_each;
mod handler_signals;
mod keys;
mod limit;
mod nested;
mod nodes;
mod pause;
mod queues;
mod redrives;
mod results;
mod schedules;
mod schemas;
mod sinks;
mod submit;
mod turns;
mod waits;
mod webhooks;
mod work;
mod workers;
mod workflows;

use std::format;
use std::string::String;
use std::time::Duration;
use std::vec;
use std::vec::Vec;

use crate::command::{Answer, Command, LeaseProof, Owned};
use crate::history::{Event, EventName, JournalEntry};
use crate::id::ClientId;
use crate::job::Shelf;
use crate::queue::QueueId;
use crate::state::State;
use crate::time::Time;
use crate::world::World;
use crate::world::build::*;

/// Every command on a job in every state: the state it leads to, or the word of the refusal.
#[test]
fn every_command_does_in_every_state_what_the_table_says() {
    const WRONG: &str = "wrong state";
    const ENDED: [&str; 3] = ["completed", "completed", "canceled"];
    let ended = |[a, b, c, d]: [&'static str; 4]| [a, b, c, d, ENDED[0], ENDED[1], ENDED[2]];
    let table: [(&str, Command, [&str; 7]); 12] = [
        // CREATED (held), QUEUED, ASSIGNED, RUNNING, then SUCCEEDED, FAILED, CANCELED
        ("start", start(1, 1), ended([WRONG, WRONG, "Running", WRONG])),
        ("extend", extend(1, 1, None), ended([WRONG, WRONG, "Assigned", "Running"])),
        ("succeed", succeed(1, 1), ended([WRONG, WRONG, WRONG, "Succeeded"])),
        ("fail", fail(1, 1), ended([WRONG, WRONG, WRONG, "Failed"])),
        ("hand back", hand_back(1, 1), ended([WRONG, WRONG, "Queued", "Queued"])),
        ("cancel", cancel(1), ["Canceled", "Canceled", "Canceled", "Canceled", "same", "same", "same"]),
        ("pause", hold_back(1, true), ["Created", "Queued", "Assigned", "Running", WRONG, WRONG, WRONG]),
        ("resume", hold_back(1, false), ["same"; 7]),
        ("retry", retry(1, 100), [WRONG, WRONG, WRONG, WRONG, WRONG, "Queued", WRONG]),
        ("revive", revive(1, 100), [WRONG, WRONG, WRONG, WRONG, WRONG, "Queued", WRONG]),
        ("activate", activate(1), ["Queued", WRONG, WRONG, WRONG, WRONG, WRONG, WRONG]),
        ("forget", forget(1), [WRONG, WRONG, WRONG, WRONG, "settled", "settled", "settled"]),
    ];
    for (title, command, expected) in table {
        for (state, expected) in State::ALL.into_iter().zip(expected) {
            let mut world = World::with_job_in(state, |_| {});
            let command = by_anyone_unless_held(command.clone(), state);
            let before = (world.jobs.clone(), world.journal.len());
            let changes = world.apply(vec![command]);
            assert_eq!(word(&changes.answers[0]), expected, "{title} in {state:?}");
            let done =
                State::ALL.iter().any(|state| expected == format!("{state:?}")) || expected == "settled";
            assert_eq!(changes.is_empty(), !done, "{title} in {state:?}: only what is done is written");
            let unchanged = (world.jobs.clone(), world.journal.len()) == before;
            assert!(done || unchanged, "{title} in {state:?}: what is not done changes nothing");
        }
    }
}

/// Before the first claim there is no token to show, so that the table shows the state rather than
/// the token.
fn by_anyone_unless_held(mut command: Command, state: State) -> Command {
    let held = match &mut command {
        Command::Start(held) | Command::HandBack(held) => held,
        Command::Extend(extend) => &mut extend.held,
        Command::Succeed(succeed) => &mut succeed.held,
        Command::Fail(fail) => &mut fail.held,
        _ => return command,
    };
    if matches!(state, State::Created | State::Queued | State::Canceled) {
        held.proof = LeaseProof::Anyone;
    }
    command
}

#[test]
fn a_command_on_a_job_that_is_not_there_is_refused() {
    let commands = [
        start(9, 1),
        extend(9, 1, None),
        succeed(9, 1),
        fail(9, 1),
        hand_back(9, 1),
        cancel(9),
        hold_back(9, true),
        retry(9, 100),
    ];
    for command in commands.into_iter().chain([activate(9), forget(9)]) {
        let changes = World::new().apply(vec![command]);
        assert_eq!(word(&changes.answers[0]), "NotFound");
        assert!(changes.is_empty());
    }
}

#[test]
fn a_job_of_another_client_is_out_of_reach_but_not_for_the_operator() {
    let stranger = Some(ClientId::from_u128(2));
    for (state, command) in [
        (State::Queued, cancel(1)),
        (State::Queued, hold_back(1, true)),
        (State::Failed, retry(1, 100)),
        (State::Created, activate(1)),
        (State::Failed, forget(1)),
    ] {
        let asked_by = |client| match command.clone() {
            Command::Cancel(mut cancel) => {
                cancel.owned.client = client;
                Command::Cancel(cancel)
            }
            Command::Pause(mut pause) => {
                pause.owned.client = client;
                Command::Pause(pause)
            }
            Command::Retry(mut retry) => {
                retry.owned.client = client;
                Command::Retry(retry)
            }
            Command::Activate(owned) => Command::Activate(Owned { client, ..owned }),
            Command::Forget(owned) => Command::Forget(Owned { client, ..owned }),
            other => panic!("{other:?} has no owner"),
        };
        let mut world = World::with_job_in(state, |_| {});
        let changes = world.apply(vec![asked_by(stranger)]);
        assert_eq!(word(&changes.answers[0]), "Foreign", "{command:?}");
        assert!(changes.is_empty(), "{command:?}");
        assert!(!matches!(world.ask(asked_by(None)), Answer::Refused(_)), "{command:?}");
    }
}

#[test]
fn a_life_is_told_in_events_one_per_change_of_state() {
    let mut world = World::with_job_in(State::Succeeded, |_| {});
    assert_eq!(
        names(&world),
        [
            EventName::Created,
            EventName::Queued,
            EventName::Assigned,
            EventName::Started,
            EventName::Succeeded
        ]
    );
    world.ask(submit([job(2, auto)]));
    world.fail_once(2, |_| {});
    let retried = [
        EventName::Created,
        EventName::Queued,
        EventName::Assigned,
        EventName::Started,
        EventName::Failed,
        EventName::Queued,
    ];
    assert_eq!(names(&world)[5..], retried);
}

#[test]
fn events_are_numbered_and_timed_upwards_whatever_the_clock_does() {
    let mut world = World::new();
    world.ask(submit([plain(1)]));
    let birth = world.now;
    world.ask(claim("q", 1));
    world.now = Time::from_millis(500_000);
    world.ask(start(1, 1));
    world.apply(vec![progress(1, 1, 10), progress(1, 1, 20)]);
    world.ask(succeed(1, 1));
    let events = events(&world.journal);
    let times: Vec<Duration> = events.iter().map(|event| event.at.since(birth)).collect();
    assert_eq!(events.iter().map(|event| event.n).collect::<Vec<_>>(), (1..=7).collect::<Vec<_>>());
    assert_eq!(times, (0..7).map(Duration::from_micros).collect::<Vec<_>>());
}

#[test]
fn a_refused_command_does_not_disturb_its_neighbours() {
    let alone = World::with_job_in(State::Running, |_| {}).apply(vec![progress(1, 1, 40), succeed(1, 1)]);
    let stale = |command: Command| vec![progress(1, 1, 40), command, succeed(1, 1)];
    for refused in
        [start(1, 7), fail(1, 7), succeed(1, 7), hand_back(1, 7), cancel(9), retry(1, 100), activate(1)]
    {
        let changes = World::with_job_in(State::Running, |_| {}).apply(stale(refused));
        assert!(matches!(changes.answers[1], Answer::Refused(_)));
        assert_eq!((changes.updated, changes.journal), (alone.updated.clone(), alone.journal.clone()));
        assert_eq!(changes.outcomes, alone.outcomes);
    }
}

#[test]
fn the_same_batch_and_rows_give_the_same_changes() {
    let mut world = World::new();
    world.ask(submit((1..=8).map(|n| job(n, |head| head.retry = crate::retry::RetryPolicy::auto()))));
    world.ask(claim_as("q", 4, |claim| claim.start = true));
    let batch = || {
        let failures = (1..=4).map(|n| fail(n, 1));
        failures.chain([claim("q", 2), submit([plain(20)]), cancel(8), Command::Due(9)]).collect::<Vec<_>>()
    };
    let told = |changes| format!("{changes:?}");
    assert_eq!(told(world.decide(batch())), told(world.decide(batch())));
    let waits = |world: &World| -> Vec<_> { (1..=4).map(|n| world.job(n).available_at).collect() };
    let mut other = world.clone();
    other.seed += 1000;
    world.apply(batch());
    other.apply(batch());
    assert_ne!(waits(&world), waits(&other), "another seed, another chance");
}

#[test]
fn woken_are_the_shelves_with_work_that_nobody_took() {
    let shelves = |changes: crate::Changes| -> Vec<String> {
        changes
            .woken
            .iter()
            .map(|Shelf { lane, name }| format!("{lane:?} {}", QueueId::parse(name).name))
            .collect()
    };
    let check = |commands: Vec<Command>, expected: &[&str]| {
        let mut world = World::new();
        world.ask(submit([plain(1), job(2, |head| head.queue = name("paused"))]));
        world.ask(pause("paused", true));
        assert_eq!(shelves(world.apply(commands.clone())), expected, "{commands:?}");
    };
    let built_in = job(7, |head| {
        head.definition = Some(crate::work::Definition::random(0, 0, 1000));
    });
    check(vec![submit([plain(7)])], &["External q"]);
    check(vec![submit([built_in])], &["BuiltIn q"]);
    check(vec![submit([job(7, |head| head.hold = true)])], &[]);
    check(vec![submit([plain(7)]), claim("q", 2)], &[]);
    check(vec![submit([plain(7)]), claim("q", 1)], &["External q"]);
    check(vec![claim("q", 1)], &[]);
    check(vec![claim("paused", 1)], &[]);
    check(vec![claim("q", 1), hand_back(1, 1)], &["External q"]);
    check(vec![claim_as("q", 1, |claim| claim.active_max = Some(0))], &[]);
    check(vec![cancel(1)], &[]);
    // Refused, but the row was held: a claim beside it may have passed over it.
    check(vec![start(1, 1)], &["External q"]);
    check(vec![start(1, 1), claim("q", 1)], &[]);
}

#[test]
fn next_due_is_the_earliest_moment_of_what_was_written() {
    let mut world = World::new();
    let start_at = world.now + secs(60);
    let later = job(1, |head| head.execution_at = Some(start_at));
    let held = job(2, |head| head.hold = true);
    assert_eq!(world.apply(vec![submit([later, held])]).next_due, Some(start_at));
    assert_eq!(world.apply(vec![activate(2)]).next_due, None, "a queued job waits for workers, not for time");
    let lease_end = world.job(2).updated_at + secs(10) + Duration::from_micros(1);
    assert_eq!(world.apply(vec![claim("q", 1)]).next_due, Some(lease_end));
}

fn names(world: &World) -> Vec<EventName> {
    events(&world.journal).iter().map(Event::name).collect()
}

/// The events of jobs in a journal.
fn events(journal: &[JournalEntry]) -> Vec<Event> {
    journal.iter().filter_map(|entry| Some(*entry.job_event()?.1)).collect()
}
