//! What a job leaves, and for how long.

use std::sync::Arc;
use std::time::Duration;
use std::vec;

use crate::command::{Blob, Command, Content, HeldJob, LeaseProof, Output, Succeed};
use crate::id::BlobId;
use crate::job::{Head, ResultNote, ResultRetention};
use crate::limits;
use crate::state::State;
use crate::world::World;
use crate::world::build::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

const KEEP: ResultRetention =
    ResultRetention { small: Duration::from_secs(30 * 24 * 3600), medium: DAY, large: DAY };

fn kept(head: &mut Head) {
    head.retention = Some(40 * DAY);
    head.result_retention = Some(ResultRetention { medium: 7 * DAY, ..KEEP });
}

fn output(media_type: &str, size: u64) -> Arc<Output> {
    let blob = Blob { id: BlobId::from_u128(1), size, digest: [7; 32] };
    Arc::new(Output { media_type: media_type.into(), file_name: None, content: Content::Stored(blob) })
}

fn succeed_with(output: Arc<Output>) -> Command {
    let held = HeldJob { job: id(1), proof: LeaseProof::Token(1), client: None };
    Command::Succeed(Succeed { held, output: Some(output) })
}

#[test]
fn the_content_of_a_result_is_kept_by_its_class() {
    let check = |media_type: &str, size: u64, days: u32| {
        let mut world = World::with_job_in(State::Running, kept);
        let output = output(media_type, size);
        let changes = world.apply(vec![succeed_with(output.clone())]);
        let job = world.job(1);
        let expires_at = job.finished_at.map(|at| at + days * DAY);
        let note = ResultNote { media_type: media_type.into(), size, expires_at };
        assert_eq!(job.result, Some(note), "{media_type} of {size}");
        assert_eq!((changes.results[0].expires_at, &changes.results[0].output), (expires_at, &output));
        assert_eq!(job.forget_at, job.finished_at.map(|at| at + 40 * DAY), "the record stays");
    };
    let (small, medium) = (limits::SMALL_RESULT_BYTES_MAX, limits::MEDIUM_RESULT_BYTES_MAX);
    check("application/json", 0, 30);
    check("application/json; charset=utf-8", small, 30);
    check("Application/Problem+JSON", small, 30);
    check("application/json", small + 1, 7);
    check("application/pdf", 1, 7);
    check("json", 1, 7);
    check("", medium, 7);
    check("application/pdf", medium + 1, 1);
    check("application/json", u64::MAX, 1);
}

#[test]
fn nothing_outlives_the_record_of_its_job() {
    for (retention, expires_after) in [(2 * DAY, None), (DAY, None), (8 * DAY, Some(7 * DAY))] {
        let mut world = World::with_job_in(State::Running, |head| {
            kept(head);
            head.retention = Some(retention);
        });
        world.apply(vec![succeed_with(output("text/csv", 10))]);
        let job = world.job(1);
        let expires_at = job.result.as_ref().unwrap().expires_at;
        assert_eq!(expires_at, expires_after.and_then(|span| Some(job.finished_at? + span)));
    }
    let mut world = World::with_job_in(State::Running, |_| {});
    world.apply(vec![succeed_with(output("text/csv", 10))]);
    assert_eq!(world.job(1).result.as_ref().unwrap().expires_at, None, "no class, no moment of its own");
}

#[test]
fn the_record_of_a_job_is_kept_equally_long_however_it_ended() {
    for state in [State::Failed, State::Succeeded, State::Canceled] {
        let world = World::with_job_in(state, kept);
        let job = world.job(1);
        assert_eq!(job.forget_at, job.finished_at.map(|at| at + 40 * DAY), "{state:?}");
        assert_eq!(job.due_at(), job.forget_at);
    }
}
