//! Workers outside: whose jobs they get, what they may report, heartbeats, directives, and what
//! becomes of their jobs.

use std::sync::Arc;
use std::time::Duration;
use std::vec;
use std::vec::Vec;

use crate::catalog::Kind;
use crate::command::{
    Answer, Command, Heartbeat, HeartbeatAnswer, HeldJob, LeaseProof, Output, Succeed, Upload, WorkerCommand,
    WorkerKind, WorkerLost,
};
use crate::id::{ClientId, JobId};
use crate::job::{Head, Name};
use crate::limits;
use crate::queue::Owner;
use crate::state::State;
use crate::worker::{WorkerFacts, WorkerId, WorkerState};
use crate::world::World;
use crate::world::build::*;

const STRANGER: ClientId = ClientId::from_u128(99);

fn me() -> WorkerId {
    WorkerId { owner: Owner::client(CLIENT), name: name("w") }
}

fn beat_of(worker: WorkerId, jobs: &[(u128, LeaseProof)], set: impl FnOnce(&mut Heartbeat)) -> Command {
    let mut beat = Heartbeat {
        worker,
        state: None,
        facts: WorkerFacts::default(),
        jobs: jobs.iter().map(|(n, proof)| (id(*n), proof.clone())).collect(),
        lease: None,
    };
    set(&mut beat);
    Command::Worker(WorkerCommand::Heartbeat(beat))
}

fn beat(world: &mut World, jobs: &[(u128, LeaseProof)]) -> HeartbeatAnswer {
    beaten(world.ask(beat_of(me(), jobs, |_| {})))
}

fn beaten(answer: Answer) -> HeartbeatAnswer {
    match answer {
        Answer::Heartbeat(beaten) => *beaten,
        other => panic!("{other:?}"),
    }
}

fn direct(to: WorkerState) -> Command {
    Command::Worker(WorkerCommand::Direct { worker: me(), to })
}

/// Claims for this owner, begun at once.
fn claim_for(owner: Owner) -> Command {
    claim_as("q", 9, |claim| {
        claim.worker_kind = WorkerKind::External(owner);
        claim.start = true;
    })
}

fn take(world: &mut World) -> Vec<JobId> {
    named(&world.ask(claim_for(Owner::client(CLIENT))))
}

/// Does what is due, and what follows for workers that are gone.
fn due(world: &mut World) {
    if let Answer::Due { workers_lost, .. } = world.ask(Command::Due(100)) {
        world
            .apply(workers_lost.into_iter().map(|lost| Command::Worker(WorkerCommand::Lost(lost))).collect());
    }
}

#[test]
fn a_worker_gets_jobs_of_its_own_client_and_tenant_alone() {
    let acme = || Some(name("acme"));
    let mut world = World::new();
    world.ask(submit([plain(1), job(2, |head| head.client = STRANGER), job(3, |head| head.tenant = acme())]));
    let of = |client, tenant: Option<Name>| Owner { client, tenant };
    assert_eq!(named(&world.ask(claim_for(of(CLIENT, Some(name("other")))))), ids([]));
    assert_eq!(named(&world.ask(claim_for(of(STRANGER, acme())))), ids([]));
    assert_eq!(named(&world.ask(claim_for(of(CLIENT, acme())))), ids([3]));
    assert_eq!(named(&world.ask(claim_for(of(STRANGER, None)))), ids([2]));
    assert_eq!(named(&world.ask(claim_for(of(CLIENT, None)))), ids([1]));
}

#[test]
fn a_worker_of_another_client_is_not_heard_even_with_the_token() {
    let mut world = World::with_job_in(State::Running, |_| {});
    let token = world.job(1).fence;
    let held = |client| HeldJob { job: id(1), proof: LeaseProof::Token(token), client };
    let succeed = |client| Command::Succeed(Succeed { held: held(client), output: None });
    assert_eq!(word(&world.ask(succeed(Some(STRANGER)))), "Foreign");
    assert_eq!(word(&world.ask(Command::HandBack(held(Some(STRANGER))))), "Foreign");
    assert_eq!(world.job(1).state, State::Running);
    world.ask(succeed(Some(CLIENT)));
    assert_eq!(world.job(1).state, State::Succeeded);
}

#[test]
fn a_heartbeat_extends_what_the_worker_holds_and_passes_over_the_rest() {
    let mut world = World::new();
    world.ask(submit([plain(1), plain(2), plain(3), job(4, |head| head.client = STRANGER)]));
    assert_eq!(take(&mut world), ids([1, 2, 3]));
    world.ask(claim_for(Owner::client(STRANGER)));
    world.ask(cancel(3));
    world.pass(secs(5));
    let until = world.job(1).lease.as_ref().unwrap().until;
    let listed = [
        (1, LeaseProof::Token(1)),
        (2, LeaseProof::Token(77)),
        (3, LeaseProof::Token(1)),
        (4, LeaseProof::Anyone),
        (50, LeaseProof::Anyone),
    ];
    let beaten = beat(&mut world, &listed);
    assert_eq!((beaten.extended, beaten.canceled), (ids([1]), ids([3])));
    assert!(world.job(1).lease.as_ref().unwrap().until > until + secs(4));
    assert_eq!(world.job(2).lease.as_ref().unwrap().until, until);
}

#[test]
fn a_worker_is_forgotten_unless_it_holds_a_job() {
    let forget = |jobs: Vec<JobId>| Command::Worker(WorkerCommand::Forget(WorkerLost { worker: me(), jobs }));
    let mut world = World::new();
    assert_eq!(word(&world.ask(forget(ids([])))), "WorkerNotFound");
    world.ask(submit([plain(1)]));
    beat(&mut world, &[]);
    assert_eq!(take(&mut world), ids([1]));
    assert_eq!(word(&world.ask(forget(ids([1])))), "wrong state");
    assert_eq!(word(&world.ask(forget(ids([])))), "wrong state", "it was fetched meanwhile");
    world.ask(cancel(1));
    assert_eq!(word(&world.ask(forget(ids([1])))), "settled");
    assert_eq!(word(&world.ask(forget(ids([1])))), "WorkerNotFound");
}

#[test]
fn a_worker_that_is_told_to_be_quiet_gets_nothing_until_it_may_go_on() {
    for to in [WorkerState::Quiet, WorkerState::Terminate] {
        let mut world = World::new();
        assert_eq!(word(&world.ask(direct(to))), "WorkerNotFound");
        world.ask(submit([plain(1)]));
        assert_eq!(beat(&mut world, &[]).worker.directive, WorkerState::Running);
        world.ask(direct(to));
        assert_eq!(beat(&mut world, &[]).worker.directive, to);
        let answer = world.ask(claim_for(Owner::client(CLIENT)));
        assert_eq!(named(&answer), ids([]));
        assert!(
            matches!(answer, Answer::Claimed { capped: true, .. }),
            "others may find what it may not have"
        );
        world.ask(direct(WorkerState::Running));
        assert_eq!(take(&mut world), ids([1]));
    }
}

#[test]
fn a_worker_that_says_it_is_quiet_gets_nothing() {
    let mut world = World::new();
    world.ask(submit([plain(1)]));
    world.ask(beat_of(me(), &[], |beat| beat.state = Some(WorkerState::Quiet)));
    assert_eq!(take(&mut world), ids([]));
    world.ask(beat_of(me(), &[], |beat| beat.state = Some(WorkerState::Running)));
    assert_eq!(take(&mut world), ids([1]));
}

#[test]
fn what_a_silent_worker_held_is_taken_back_before_its_leases_end() {
    let long = |head: &mut Head| {
        head.lease = Some(secs(3600));
        auto(head);
    };
    let mut world = World::new();
    world.ask(submit([job(1, long), job(2, long)]));
    beat(&mut world, &[]);
    assert_eq!(take(&mut world), ids([1, 2]), "fetched after the heartbeat, and known all the same");
    world.pass(limits::WORKER_SILENCE);
    due(&mut world);
    for n in [1, 2] {
        assert_eq!(world.job(n).state, State::Queued);
        let error = world.job(n).last_error().unwrap();
        assert_eq!((error.kind, error.class.as_deref()), (Kind::RunnerLost, Some("visibility_timeout")));
        assert_eq!(error.wait, Some(Duration::ZERO), "tried again at once");
    }
    assert!(world.records.is_empty(), "and the worker is forgotten");
}

#[test]
fn a_worker_that_comes_back_in_time_keeps_its_jobs() {
    let mut world = World::new();
    world.ask(submit([job(1, |head| head.lease = Some(secs(3600)))]));
    beat(&mut world, &[]);
    take(&mut world);
    world.pass(limits::WORKER_SILENCE);
    let Answer::Due { workers_lost, .. } = world.ask(Command::Due(100)) else { panic!("not due") };
    assert_eq!(workers_lost.len(), 1);
    // Its next sign of life comes before what follows.
    assert_eq!(beat(&mut world, &[(1, LeaseProof::Token(1))]).extended, ids([1]));
    world.apply(workers_lost.into_iter().map(|lost| Command::Worker(WorkerCommand::Lost(lost))).collect());
    assert_eq!(world.job(1).state, State::Running);
}

#[test]
fn a_worker_without_heartbeats_keeps_its_jobs_until_the_lease_ends() {
    let mut world = World::new();
    world.ask(submit([job(1, |head| head.lease = Some(secs(3600)))]));
    take(&mut world);
    assert!(world.records.is_empty(), "its silence means nothing");
    world.pass(secs(3000));
    due(&mut world);
    assert_eq!(world.job(1).state, State::Running);
}

#[test]
fn a_heartbeat_is_bounded() {
    let mut world = World::new();
    let listed: Vec<_> = (0..5000).map(|n| (n, LeaseProof::Anyone)).collect();
    let changes = world.apply(vec![beat_of(me(), &listed, |_| {})]);
    assert!(beaten(changes.answers[0].clone()).extended.is_empty());
    let wanted = crate::wants(&crate::Batch {
        now: world.now,
        seed: 1,
        commands: vec![beat_of(me(), &listed, |_| {})],
    });
    assert_eq!(wanted.jobs_sought.len(), limits::WORKER_JOBS_MAX);
}

fn upload(token: u64, text: &str) -> Command {
    let held = HeldJob { job: id(1), proof: LeaseProof::Token(token), client: Some(CLIENT) };
    Command::Upload(Upload { held, output: Arc::new(Output::inline("text/plain", text.as_bytes())) })
}

fn end(world: &mut World, output: Option<&str>) {
    let held = HeldJob { job: id(1), proof: LeaseProof::Token(world.job(1).fence), client: Some(CLIENT) };
    let output = output.map(|text| Arc::new(Output::inline("text/plain", text.as_bytes())));
    world.ask(Command::Succeed(Succeed { held, output }));
}

#[test]
fn an_upload_is_the_result_unless_the_report_brings_another() {
    for (output, expected) in [(None, "second"), (Some("reported"), "reported")] {
        let mut world = World::with_job_in(State::Running, |_| {});
        world.ask(upload(1, "first"));
        world.ask(upload(1, "second"));
        end(&mut world, output);
        let kept = &world.results[&world.job(1).execution];
        assert_eq!(**kept, Output::inline("text/plain", expected.as_bytes()));
    }
}

#[test]
fn an_upload_does_not_outlive_its_lease() {
    let mut world = World::with_job_in(State::Running, auto);
    assert_eq!(word(&world.ask(upload(7, "stale"))), "LeaseLost");
    world.ask(upload(1, "first"));
    world.ask(hand_back(1, 1));
    take(&mut world);
    assert_eq!(word(&world.ask(upload(1, "late"))), "LeaseLost");
    end(&mut world, None);
    assert!(world.results.is_empty(), "what the first holder sent is gone");
}
