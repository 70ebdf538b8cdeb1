//! Steps with a job per element of a list.

use std::string::String;
use std::vec;
use std::vec::Vec;

use crate::command::{Answer, Command, ListElements, ListRead, NewStep};
use crate::id::JobId;
use crate::job::Job;
use crate::limits;
use crate::record::RecordKind;
use crate::state::State;
use crate::workflow::ElementState;
use crate::workflow::FailurePolicy::{self, Continue, Stop};
use crate::world::World;
use crate::world::build::*;
use crate::world::flows::*;

const W: u128 = 1000;

/// A list, a step for each of its elements, and one behind. The own job of the `for_each`.
fn listed(policy: FailurePolicy, parallel: u32) -> (World, JobId) {
    let mut world = World::new();
    let steps: Vec<NewStep> = vec![step("list", &[]), for_each("each", 0, parallel), step("after", &[1])];
    world.ask(workflow(W, policy, steps));
    world.run_step(W, 0, true);
    let own = world.step_job(W, 1);
    assert_eq!((own.state, world.letters(W)), (State::Running, "srw".into()));
    (world, own.id)
}

/// Where the elements stand: `w`aiting, `r`eleased, `s`ucceeded, `f`ailed.
fn letters(world: &World, own: JobId) -> String {
    let letter = |state: &ElementState| match state {
        ElementState::Waiting => 'w',
        ElementState::Released => 'r',
        ElementState::Succeeded => 's',
        ElementState::Failed => 'f',
    };
    world.for_each(own).states.iter().map(letter).collect()
}

fn element(world: &World, own: JobId, index: u32) -> Job {
    let job = world.for_each(own).job_of(index);
    world.jobs.get(&job).cloned().unwrap_or_else(|| panic!("element {index} has no job"))
}

fn run_element(world: &mut World, own: JobId, index: u32, well: bool) {
    world.start_all();
    let job = element(world, own, index);
    assert_eq!(job.state, State::Running, "element {index} can be run");
    world.ask(end_step(&job, well));
}

#[test]
fn elements_begin_in_order_some_at_a_time_and_the_step_ends_with_the_last() {
    let (mut world, own) = listed(Continue, 2);
    let changes = world.apply(vec![elements(own, 0, 4, true)]);
    let inputs = changes.inserted.iter().map(|(_, input)| String::from_utf8(input.payload.clone()).unwrap());
    assert_eq!(inputs.collect::<Vec<_>>(), ["[0,0]", "[1,1]"]);
    assert_eq!(letters(&world, own), "rrww");
    run_element(&mut world, own, 1, true);
    assert_eq!(letters(&world, own), "rsrw");
    for index in [0, 2, 3] {
        run_element(&mut world, own, index, true);
    }
    assert_eq!((letters(&world, own), world.letters(W)), ("ssss".into(), "ssr".into()));
    let job = &world.jobs[&own];
    assert_eq!((job.state, job.tally.completed, job.tally.failed), (State::Succeeded, 4, 0));
}

#[test]
fn an_empty_list_is_a_success_at_once() {
    let (mut world, own) = listed(Continue, 2);
    world.ask(elements(own, 0, 0, true));
    assert_eq!((world.jobs[&own].state, world.letters(W)), (State::Succeeded, "ssr".into()));
}

#[test]
fn a_list_comes_in_slices_and_a_slice_that_comes_twice_counts_once() {
    let (mut world, own) = listed(Continue, 3);
    world.ask(elements(own, 0, 2, false));
    world.ask(elements(own, 0, 2, false));
    assert_eq!(letters(&world, own), "rr");
    run_element(&mut world, own, 0, true);
    run_element(&mut world, own, 1, true);
    assert_eq!(world.jobs[&own].state, State::Running, "the list is not whole");
    world.ask(elements(own, 1, 3, true));
    assert_eq!(letters(&world, own), "ss", "another one reads from elsewhere");
    world.ask(elements(own, 2, 300, true));
    assert_eq!(world.for_each(own).parts.len(), 4, "a part has 128 elements at most");
    assert_eq!(letters(&world, own).len(), 300);
    world.ask(elements(own, 300, 301, true));
    assert_eq!(letters(&world, own).len(), 300);
}

#[test]
fn the_list_is_asked_for_when_it_is_due_and_again_if_the_node_goes_silent() {
    let (mut world, own) = listed(Continue, 2);
    let lists = |world: &mut World| match world.ask(Command::Due(10)) {
        Answer::Due { lists, .. } => lists,
        answer => panic!("{answer:?}"),
    };
    let first = lists(&mut world);
    assert_eq!((first.len(), first[0].id, first[0].n_known), (1, own, 0));
    assert_eq!((first[0].pointer.as_str(), first[0].source), ("/list", world.step_job(W, 0).id));
    assert_eq!(lists(&mut world), []);
    world.ask(elements(own, 0, 5, false));
    world.pass(limits::LIST_AGAIN);
    assert_eq!(lists(&mut world)[0].n_known, 5);
    world.ask(elements(own, 5, 6, true));
    world.pass(limits::LIST_AGAIN);
    assert_eq!(lists(&mut world), []);
}

#[test]
fn what_is_no_list_fails_the_step_and_a_retry_reads_it_again() {
    let (mut world, own) = listed(Continue, 2);
    let read = ListRead::Failed("The result has no list at `/list`.".into());
    world.ask(Command::ListElements(std::boxed::Box::new(ListElements { id: own, first: 0, read })));
    assert_eq!((world.jobs[&own].state, world.letters(W)), (State::Failed, "sf-".into()));
    assert_eq!(world.workflow(id(W)).errors[0].error.message, "The result has no list at `/list`.");
    world.ask(retry(W, 70));
    assert_eq!((world.letters(W), world.for_each(own).due_at), ("srw".into(), Some(world.now)));
    world.ask(elements(own, 0, 1, true));
    run_element(&mut world, own, 0, true);
    assert_eq!(world.letters(W), "ssr");
}

#[test]
fn more_elements_than_there_may_be_fail_the_step() {
    let (mut world, own) = listed(Continue, 2);
    world.ask(elements(own, 0, limits::ELEMENTS_MAX as u32 + 1, true));
    assert_eq!(world.letters(W), "sf-");
    assert_eq!(world.workflow(id(W)).errors[0].error.message, "The list has more than 10000 elements.");
}

#[test]
fn a_failed_element_fails_the_step_at_its_end_and_a_retry_runs_it_alone() {
    let (mut world, own) = listed(Continue, 2);
    world.ask(elements(own, 0, 3, true));
    for (index, well) in [(0, true), (1, false), (2, true)] {
        run_element(&mut world, own, index, well);
    }
    assert_eq!((letters(&world, own), world.letters(W)), ("sfs".into(), "sf-".into()));
    let message = &world.workflow(id(W)).errors[0].error.message;
    assert_eq!(message, "1 of 3 elements did not succeed; the first is 1: it broke");
    world.ask(retry(W, 71));
    assert_eq!((letters(&world, own), world.letters(W)), ("srs".into(), "srw".into()));
    run_element(&mut world, own, 1, true);
    assert_eq!((letters(&world, own), world.letters(W)), ("sss".into(), "ssr".into()));
}

#[test]
fn a_policy_that_stops_begins_no_element_after_a_failure() {
    let (mut world, own) = listed(Stop, 2);
    world.ask(elements(own, 0, 5, true));
    run_element(&mut world, own, 0, false);
    assert_eq!(letters(&world, own), "frwww");
    run_element(&mut world, own, 1, true);
    assert_eq!((letters(&world, own), world.letters(W)), ("fswww".into(), "sf-".into()));
    world.ask(retry(W, 72));
    assert_eq!(letters(&world, own), "rsrww");
}

#[test]
fn a_cancel_ends_the_elements_that_run_and_begins_no_other() {
    let (mut world, own) = listed(Continue, 2);
    world.ask(elements(own, 0, 4, false));
    run_element(&mut world, own, 0, true);
    world.ask(cancel(W));
    assert_eq!((letters(&world, own), world.letters(W)), ("sffw".into(), "sc-".into()));
    assert!(world.jobs.values().all(|job| job.state.is_final()));
    world.ask(elements(own, 4, 6, true));
    assert_eq!((letters(&world, own).len(), world.for_each(own).due_at), (4, None));
}

#[test]
fn an_element_that_is_retried_by_itself_is_waited_for() {
    let (mut world, own) = listed(Continue, 2);
    world.ask(elements(own, 0, 2, true));
    run_element(&mut world, own, 0, false);
    let job = element(&world, own, 0);
    world.ask(revive_any(job.id.as_u128(), 73));
    assert_eq!(letters(&world, own), "rr");
    run_element(&mut world, own, 1, true);
    assert_eq!(world.jobs[&own].state, State::Running);
    run_element(&mut world, own, 0, true);
    assert_eq!(world.letters(W), "ssr");
}

#[test]
fn a_batch_that_ends_elements_of_a_long_list_writes_little() {
    let (mut world, own) = listed(Continue, 50);
    world.ask(elements(own, 0, 1000, false));
    world.ask(elements(own, 1000, 2000, true));
    let mut most = 0;
    while world.jobs[&own].state == State::Running {
        let jobs = world.start_all();
        let changes = world.apply(jobs.iter().map(|job| end_step(job, true)).collect());
        let written = changes.records.values().filter_map(|change| change.new.as_ref());
        most = most.max(written.map(|record| record.bytes.len()).sum::<usize>());
        assert!(changes.inserted.len() <= 51, "{}", changes.inserted.len());
    }
    assert!(most < 1500, "a batch wrote {most} bytes of records");
    assert_eq!(world.letters(W), "ssr");
    let events = world.jobs[&own].history.clone();
    assert!(events.events().count() < 250);
}

#[test]
fn everything_goes_with_the_workflow() {
    let (mut world, own) = listed(Continue, 2);
    world.ask(elements(own, 0, 200, false));
    world.ask(cancel(W));
    for _ in 0..3 {
        world.pass(limits::RETENTION + secs(3600));
        while world.due() > 0 {}
    }
    assert!(world.jobs.is_empty());
    let of_flows = |kind: RecordKind| (30..40).contains(&(kind as u8));
    assert!(!world.records.keys().any(|key| of_flows(key.kind)), "{:?}", world.records.keys());
}

#[test]
fn a_paused_list_begins_no_element_and_goes_on_when_it_is_resumed() {
    for paused in [W, 0] {
        let (mut world, own) = listed(Continue, 2);
        world.ask(elements(own, 0, 4, true));
        let paused = if paused == W { W } else { own.as_u128() };
        world.start_all();
        world.ask(hold_back(paused, true));
        let held: Vec<Job> = (0..2).map(|index| element(&world, own, index)).collect();
        assert!(held.iter().all(|job| job.paused), "their workers learn of it");
        world.ask(end_step(&held[0], true));
        assert_eq!(letters(&world, own), "srww");
        world.ask(hold_back(paused, false));
        assert_eq!(letters(&world, own), "srrw");
        world.ask(end_step(&held[1], true));
        for index in [2, 3] {
            run_element(&mut world, own, index, true);
        }
        assert_eq!((letters(&world, own), world.letters(W)), ("ssss".into(), "ssr".into()));
    }
}
