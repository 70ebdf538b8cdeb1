//! Signals that the handler of a job waits for.

use std::string::String;
use std::vec::Vec;

use crate::command::{
    Answer, CheckpointCommand, Command, HeldJob, LeaseProof, Owned, Refusal, SignalTarget, Snooze,
};
use crate::id::ClientId;
use crate::limits;
use crate::memo::StepMemo;
use crate::record::Stored;
use crate::state::State;
use crate::work::{Definition, WorkKind};
use crate::world::World;
use crate::world::build::*;
use crate::world::flows::send;

fn signal_as(client: ClientId, name: &str, body: u8) -> Command {
    let job = Owned { job: id(1), client: Some(client) };
    send(SignalTarget::Job { job, name: name.into() }, body)
}

fn signal(body: u8) -> Command {
    signal_as(CLIENT, "approved", body)
}

fn held(fence: u64) -> HeldJob {
    HeldJob { job: id(1), proof: LeaseProof::Token(fence), client: Some(CLIENT) }
}

fn wait_for(name: &str, fence: u64) -> Command {
    let until_signal = Some(String::from(name));
    Command::Snooze(Snooze { held: held(fence), delay: secs(60), until_signal })
}

/// What the worker records once the wait has lasted too long.
fn time_out(fence: u64) -> Command {
    let (step, result) = ("signal:approved".into(), b"{\"timed_out\":true}".to_vec());
    Command::Checkpoint(CheckpointCommand::SaveStep { held: held(fence), step, result })
}

fn recorded(world: &World) -> Vec<u8> {
    StepMemo::of(&world.records[&StepMemo::key_of(id(1), "signal:approved")]).unwrap().result
}

fn waiting() -> World {
    let mut world = World::with_job_in(State::Running, |_| {});
    world.ask(wait_for("approved", 1));
    world
}

#[test]
fn a_job_that_waits_for_a_signal_comes_back_with_it_and_counts_no_attempt() {
    for state in [State::Assigned, State::Running] {
        let mut world = World::with_job_in(state, |_| {});
        world.ask(wait_for("approved", 1));
        let job = world.job(1);
        assert_eq!((job.state, job.attempt), (State::Queued, 1), "{state:?}");
        assert_eq!(job.awaited_signal.as_deref(), Some("approved"), "{state:?}");
        assert_eq!(named(&world.ask(claim("q", 1))), ids([]), "{state:?}");
        world.ask(signal_as(CLIENT, "other", b'1'));
        assert_eq!(named(&world.ask(claim("q", 1))), ids([]), "another signal: {state:?}");
        assert!(matches!(world.ask(signal(b'1')), Answer::Done(_)));
        assert_eq!(named(&world.ask(claim("q", 1))), ids([1]), "{state:?}");
        assert_eq!(world.job(1).awaited_signal, None);
        assert_eq!(recorded(&world), br#"{"signal":1}"#);
    }
}

#[test]
fn an_early_signal_is_kept_and_ends_its_wait_at_once() {
    let mut world = World::with_job_in(State::Running, |_| {});
    world.ask(signal(b'1'));
    world.ask(wait_for("approved", 1));
    assert_eq!((world.job(1).available_at, &world.job(1).awaited_signal), (None, &None));
    assert_eq!(named(&world.ask(claim("q", 1))), ids([1]));
}

#[test]
fn the_job_comes_back_without_the_signal_when_its_time_is_over() {
    let mut world = waiting();
    world.pass(secs(60)).due();
    assert_eq!(world.job(1).awaited_signal, None);
    assert_eq!(named(&world.ask(claim("q", 1))), ids([1]));
}

#[test]
fn of_a_signal_and_a_timeout_the_first_counts() {
    let mut world = waiting();
    world.pass(secs(60)).due();
    world.ask(claim("q", 1));
    world.ask(time_out(2));
    assert_eq!(world.ask(signal(b'1')), Answer::Refused(Refusal::WaitOver));

    let mut world = waiting();
    world.ask(signal(b'1'));
    world.ask(claim("q", 1));
    assert_eq!(world.ask(time_out(2)), Answer::Refused(Refusal::StepRecorded));
    assert_eq!(recorded(&world), br#"{"signal":1}"#);
}

#[test]
fn a_repeated_signal_changes_nothing_and_another_is_refused() {
    let mut world = waiting();
    world.ask(signal(b'1'));
    for _ in 0..2 {
        assert!(matches!(world.ask(signal(b'1')), Answer::Unchanged(_)));
        assert_eq!(world.ask(signal(b'2')), Answer::Refused(Refusal::SignalTaken));
        world.ask(cancel(1));
    }
    assert_eq!(
        world.ask(signal_as(CLIENT, "late", b'1')),
        Answer::Refused(Refusal::WrongState(State::Canceled))
    );
}

#[test]
fn signals_are_for_jobs_of_their_client_that_have_a_handler() {
    let mut world = waiting();
    let stranger = signal_as(ClientId::from_u128(99), "approved", b'1');
    assert_eq!(world.ask(stranger), Answer::Refused(Refusal::Foreign));
    let mut world = World::new();
    world.ask(submit([job(1, |head| {
        head.definition = Some(Definition {
            work_kind: WorkKind::SuccessFast,
            duration_ms: 1,
            should_fail: false,
            payload_kb: 0,
        });
    })]));
    assert_eq!(world.ask(signal(b'1')), Answer::Refused(Refusal::SignalUnknown));
}

#[test]
fn recorded_steps_stay_as_long_as_their_job_waits() {
    let mut world = waiting();
    world.ask(signal_as(CLIENT, "early", b'1'));
    for _ in 0..3 {
        world.pass(limits::RETENTION).due();
        assert_eq!(world.records.len(), 2, "the step and the index");
    }
    world.ask(cancel(1));
    world.pass(limits::RETENTION).due();
    world.pass(limits::RETENTION).due();
    assert!(world.records.is_empty());
}
