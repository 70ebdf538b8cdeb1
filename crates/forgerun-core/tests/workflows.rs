//! Random workflows, random ends: whatever happens, every step has its turn at most once per
//! execution, exactly when it should, and the workflow ends as its steps did. What succeeded is
//! undone once, where it has to be.

mod world;

use std::collections::{BTreeMap, BTreeSet};

use forgerun_core::Command;
use forgerun_core::command::{Answer, NewStep, SignalTarget};
use forgerun_core::id::JobId;
use forgerun_core::job::Job;
use forgerun_core::record::RecordKind;
use forgerun_core::state::State;
use forgerun_core::workflow::{FailurePolicy, StepCondition, StepState, Wait, Workflow};
use proptest::prelude::*;
use world::World;
use world::build::*;
use world::flows::*;

const OWN: u128 = 1000;

/// A step in numbers: whom it waits for, when it has its turn, and how its job ends.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    edges: u16,
    when: u8,
    end: u8,
    undo: bool,
    wait: u8,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    (any::<u16>(), 0u8..6, 0u8..8, any::<bool>(), 0u8..6).prop_map(|(edges, when, end, undo, wait)| Drawn {
        edges,
        when,
        end,
        undo,
        wait,
    })
}

fn policy() -> impl Strategy<Value = FailurePolicy> {
    prop::sample::select(vec![FailurePolicy::Continue, FailurePolicy::Stop, FailurePolicy::Compensate])
}

fn steps(drawn: &[Drawn]) -> Vec<NewStep> {
    let step = |(index, drawn): (usize, &Drawn)| {
        let before = (0..index.min(16)).filter(|bit| drawn.edges >> bit & 1 == 1 && drawn.edges % 3 != 0);
        let after: Vec<u32> = before.map(|bit| (index - 1 - bit) as u32).collect();
        let when = match drawn.when {
            4 => StepCondition::AllEnded,
            5 => StepCondition::AnyFailed,
            _ => StepCondition::AllSucceeded,
        };
        let step = step_when(&index.to_string(), &after, when);
        let step = match drawn.wait {
            0 => NewStep { head: wait_step("", &[], Wait::For(secs(5))).head, ..step },
            1 => NewStep { head: wait_step("", &[], wait_for_signal(&step.id)).head, ..step },
            _ => step,
        };
        if drawn.undo { undoable(step) } else { step }
    };
    drawn.iter().enumerate().map(step).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_workflow_ends_as_its_steps_do(
        drawn in prop::collection::vec(drawn(), 1..24),
        policy in policy(),
        together in 1usize..6,
        order: u64,
    ) {
        let mut world = World::new();
        world.ask(workflow(OWN, policy, steps(&drawn)));
        let mut made: BTreeMap<JobId, u32> = BTreeMap::new();
        let mut order = order;
        while world.job(OWN).state == State::Running {
            note_made(&world, &mut made);
            let mut running: Vec<_> = world.jobs.values().filter(|job| job.head.workflow.is_some() && !job.state.is_final()).cloned().collect();
            prop_assert!(!running.is_empty(), "a workflow that runs has a step that does: {}", world.letters(OWN));
            world.start_all();
            running.iter_mut().for_each(|job| *job = world.jobs[&job.id].clone());
            order = order.rotate_left(7) ^ 0x9e37;
            let at = order as usize % running.len();
            running.rotate_left(at);
            let commands: Vec<Command> = running.iter().take(together).map(|job| command(&mut world, job, &drawn)).collect();
            world.apply(commands);
            turns_are_right(&world.workflow(id(OWN)), policy);
        }
        note_made(&world, &mut made);
        let own = world.job(OWN);
        let workflow = world.workflow(id(OWN));
        prop_assert!(workflow.is_over());
        let counts = workflow.counts();
        prop_assert_eq!(own.state == State::Succeeded, counts.failed == 0, "{:?}", own);
        let per_step: BTreeSet<u32> = made.values().copied().collect();
        prop_assert_eq!(per_step.len(), made.len(), "no step has two jobs in one execution");
        retried(&mut world)?;
    }

    #[test]
    fn a_workflow_ends_whichever_of_its_steps_are_retried_by_themselves(
        drawn in prop::collection::vec(drawn(), 1..24),
        policy in policy(),
        mut order: u64,
        retries in 1usize..12,
    ) {
        let mut world = World::new();
        world.ask(workflow(OWN, policy, steps(&drawn)));
        let mut executions = 0..retries as u128;
        while world.job(OWN).state == State::Running {
            world.start_all();
            let jobs = world.jobs.clone();
            let of_steps = |state| jobs.values().filter(move |job| job.head.workflow.is_some() && job.state == state);
            let (running, failed): (Vec<_>, Vec<_>) = (of_steps(State::Running).collect(), of_steps(State::Failed).collect());
            prop_assert!(!running.is_empty(), "a workflow that runs has a step that does: {}", world.letters(OWN));
            order = order.rotate_left(7) ^ 0x9e37;
            // While it is undone, a step that is retried runs by itself.
            let is_step = |job: &Job| job.head.workflow.is_some_and(|step| step.index < drawn.len() as u32);
            let alone = |job: &Job| is_step(job) && world.workflow(id(OWN)).is_compensating();
            let retried = failed.get(order as usize % failed.len().max(1));
            let retried = retried.filter(|job| order & 8 == 8 && !alone(job));
            let next = match retried.and_then(|job| Some((job, executions.next()?))) {
                Some((job, n)) => revive_any(job.id.as_u128(), 5000 + n),
                None => command(&mut world, running[order as usize % running.len()], &drawn),
            };
            world.ask(next);
            waits_are_right(&world.workflow(id(OWN)));
        }
        prop_assert!(world.workflow(id(OWN)).is_over());
        prop_assert!(world.jobs.values().all(|job| job.state.is_final()));
    }

    #[test]
    fn a_cancelled_workflow_leaves_nothing_to_do(drawn in prop::collection::vec(drawn(), 1..24), ends in 0usize..12) {
        let mut world = World::new();
        world.ask(workflow(OWN, FailurePolicy::Continue, steps(&drawn)));
        for _ in 0..ends {
            world.start_all();
            let running = world.jobs.values().find(|job| job.head.workflow.is_some() && job.state == State::Running).cloned();
            let Some(job) = running else { break };
            let next = command(&mut world, &job, &drawn);
            world.ask(next);
        }
        let ended = world.job(OWN).state.is_final();
        let answer = world.ask(cancel(OWN));
        prop_assert_eq!(matches!(answer, Answer::Unchanged(_)), ended);
        while world.job(OWN).state == State::Running {
            let undoing = running(&mut world);
            prop_assert_eq!(undoing.len(), 1, "one compensation after the other");
            world.ask(end_step(&undoing[0], true));
        }
        for (_, undone, step) in world.workflow(id(OWN)).compensations() {
            let succeeded = world.workflow(id(OWN)).steps[undone as usize].state == StepState::Succeeded;
            prop_assert_eq!(step.state == StepState::Succeeded, succeeded && !ended);
        }
        prop_assert!(world.jobs.values().all(|job| job.state.is_final()));
        prop_assert!(world.workflow(id(OWN)).is_over());
        world.pass(forgerun_core::limits::RETENTION * 2);
        while world.due() > 0 {}
        prop_assert!(world.jobs.is_empty());
        let of_workflows = |kind| {
            matches!(kind, RecordKind::Workflow | RecordKind::WorkflowPart | RecordKind::Signal)
        };
        prop_assert!(!world.records.keys().any(|key| of_workflows(key.kind)));
    }
}

/// How the job of a step ends: mostly well. A wait for a signal gets it, a wait for a time passes.
fn command(world: &mut World, job: &Job, drawn: &[Drawn]) -> Command {
    let step = job.head.workflow.unwrap();
    let n = drawn[step.index as usize % drawn.len()].end;
    match job.head.wait.as_deref() {
        None => {}
        Some(_) if n == 2 => {}
        Some(Wait::Signal(signal)) if n > 2 => {
            return signal_of(step.workflow.as_u128(), &signal.name, job, n);
        }
        Some(_) => {
            world.now = world.now.max(job.due_at().unwrap());
            return Command::Due(100);
        }
    }
    match drawn[step.index as usize % drawn.len()].end {
        0 | 1 => end_step(job, false),
        2 => cancel(job.id.as_u128()),
        _ => end_step(job, true),
    }
}

fn signal_of(own: u128, name: &str, job: &Job, n: u8) -> Command {
    if n.is_multiple_of(2) { signal(own, name, n) } else { send(SignalTarget::Token(token(job)), n) }
}

/// A job that waits ends in its own way; any other as said.
fn end_well(world: &mut World, job: &Job) -> Command {
    match job.head.wait.as_deref() {
        Some(Wait::Signal(_)) => send(SignalTarget::Token(token(job)), 9),
        Some(_) => {
            world.now = world.now.max(job.due_at().unwrap());
            Command::Due(100)
        }
        None => end_step(job, true),
    }
}

/// Claims what can be claimed; every job of a step that runs, waits among them.
fn running(world: &mut World) -> Vec<Job> {
    world.start_all();
    let is_step = |job: &&Job| job.head.workflow.is_some() && job.state == State::Running;
    world.jobs.values().filter(is_step).cloned().collect()
}

fn note_made(world: &World, made: &mut BTreeMap<JobId, u32>) {
    let steps = world.jobs.values().filter_map(|job| Some((job.id, job.head.workflow?.index)));
    made.extend(steps);
}

/// No step has its turn before those it waits for are over, none is skipped that could run, and
/// none is forgotten.
fn turns_are_right(workflow: &Workflow, policy: FailurePolicy) {
    undone_in_order(workflow);
    for (_, step) in workflow.declared() {
        let before = || step.after.iter().map(|&before| workflow.steps[before as usize].state);
        let over = before().all(StepState::is_over);
        let well = before().all(|state| state == StepState::Succeeded);
        let context = format!("{step:?} in {workflow:?}");
        match step.state {
            StepState::Waiting => {
                assert!(!over, "its turn has come: {context}");
                let hopeless = step.when == StepCondition::AllSucceeded
                    && before().any(|state| state.is_over() && state != StepState::Succeeded);
                assert!(!hopeless, "its turn never comes: {context}");
            }
            StepState::Skipped => match step.when {
                StepCondition::AllSucceeded => {
                    assert!(!well || policy != FailurePolicy::Continue, "{context}")
                }
                StepCondition::AllEnded => panic!("it runs however the others end: {context}"),
                StepCondition::AnyFailed => assert!(well, "{context}"),
            },
            StepState::Released | StepState::Succeeded | StepState::Failed | StepState::Canceled => {
                assert!(over, "it began too early: {context}");
                match step.when {
                    StepCondition::AllSucceeded => assert!(well, "{context}"),
                    StepCondition::AllEnded => {}
                    StepCondition::AnyFailed => assert!(!well, "{context}"),
                }
            }
        }
    }
}

/// Compensations wait until all steps are over, and run one after the other, the newest success
/// first.
fn undone_in_order(workflow: &Workflow) {
    let begun = || workflow.compensations().filter(|(_, _, step)| step.state != StepState::Skipped);
    let nth = |undone: u32| workflow.steps[undone as usize].nth_success;
    let waiting = begun().filter(|(_, _, step)| step.state == StepState::Waiting);
    let newest_waiting = waiting.map(|(_, undone, _)| nth(undone)).max().unwrap_or(0);
    let others = begun().filter(|(_, _, step)| step.state != StepState::Waiting);
    assert!(others.map(|(_, undone, _)| nth(undone)).all(|nth| nth > newest_waiting), "{workflow:?}");
    assert!(begun().filter(|(_, _, step)| step.state == StepState::Released).count() <= 1, "{workflow:?}");
    assert!(begun().next().is_none() || workflow.declared().all(|(_, step)| step.state.is_over()));
    assert!(begun().all(|(_, undone, _)| workflow.steps[undone as usize].state == StepState::Succeeded));
}

/// Every step that waits has one before it that is not over, whose end will move it on.
fn waits_are_right(workflow: &Workflow) {
    for (_, step) in workflow.declared().filter(|(_, step)| step.state == StepState::Waiting) {
        let mut before = step.after.iter().map(|&before| workflow.steps[before as usize].state);
        assert!(before.any(|state| !state.is_over()), "{step:?} in {workflow:?}");
    }
}

/// A failed workflow that is retried, with steps that all succeed now, succeeds; what had succeeded
/// does not run again.
fn retried(world: &mut World) -> Result<(), TestCaseError> {
    if world.job(OWN).state != State::Failed {
        return Ok(());
    }
    let before: BTreeMap<JobId, State> = world.jobs.iter().map(|(id, job)| (*id, job.state)).collect();
    let conditional =
        |workflow: &Workflow| workflow.steps.iter().any(|step| step.when != StepCondition::AllSucceeded);
    world.ask(retry(OWN, 5));
    let mut rounds = 0;
    while world.job(OWN).state == State::Running {
        let running = running(world);
        prop_assert!(!running.is_empty(), "{}", world.letters(OWN));
        if !conditional(&world.workflow(id(OWN))) {
            prop_assert!(running.iter().all(|job| before.get(&job.id) != Some(&State::Succeeded)));
        }
        let ends = running.iter().map(|job| end_well(world, job)).collect();
        world.apply(ends);
        rounds += 1;
        prop_assert!(rounds < 100);
    }
    prop_assert_eq!(world.job(OWN).state, State::Succeeded);
    Ok(())
}
