//! The traps of queue hints, one by one.

use forgerun_core::history::{Event, RetryStatus};
use forgerun_core::id::ClientId;

use super::*;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn shelf(lane: Lane, queue: &str) -> Shelf {
    Shelf { lane, name: name(queue) }
}

/// Hints of one who has read the store and found nothing there.
fn queue_hints() -> QueueHints {
    let queue_hints = QueueHints::default();
    assert!(queue_hints.take_missed());
    queue_hints
}

fn announce(queue_hints: &QueueHints, queues: &[&str]) {
    let shelves: Vec<Shelf> = queues.iter().map(|queue| shelf(Lane::BuiltIn, queue)).collect();
    queue_hints.announce(&shelves);
}

fn queues(queue_hints: &QueueHints, last: Option<&str>) -> Vec<String> {
    let look = queue_hints.look(last.map(name).as_ref());
    look.map_or(Vec::new(), |look| look.queues.iter().map(Name::to_string).collect())
}

#[test]
fn a_queue_stands_there_until_a_claim_leaves_nothing_in_it() {
    let queue_hints = queue_hints();
    queue_hints.announce(&[shelf(Lane::External, "x"), shelf(Lane::Dead, "y")]);
    assert!(queues(&queue_hints, None).is_empty());
    announce(&queue_hints, &["a", "b"]);
    assert_eq!(queues(&queue_hints, None), ["a", "b"]);
    queue_hints.found_nothing_left(&queue_hints.look(None).unwrap());
    assert!(queues(&queue_hints, None).is_empty());
}

/// A claim that is stopped by the bound holds the jobs it looks at for a moment, and another one
/// then finds none.
#[test]
fn a_queue_that_a_capped_claim_hid_from_another_is_there_when_there_is_room() {
    for capped_first in [true, false] {
        let queue_hints = queue_hints();
        announce(&queue_hints, &["a"]);
        let (capped, empty) = (queue_hints.look(None).unwrap(), queue_hints.look(None).unwrap());
        if capped_first {
            queue_hints.found_cap(&capped);
            queue_hints.found_nothing_left(&empty);
        } else {
            queue_hints.found_nothing_left(&empty);
            queue_hints.found_cap(&capped);
        }
        assert!(queues(&queue_hints, None).is_empty(), "there is no room");
        queue_hints.announce_room();
        assert_eq!(queues(&queue_hints, None), ["a"]);
    }
}

#[test]
fn a_queue_announced_while_a_claim_is_under_way_stays() {
    let queue_hints = queue_hints();
    announce(&queue_hints, &["a", "b"]);
    let look = queue_hints.look(None).unwrap();
    announce(&queue_hints, &["b"]);
    queue_hints.found_nothing_left(&look);
    assert_eq!(queues(&queue_hints, None), ["b"]);
}

#[test]
fn each_queue_has_its_turn_to_be_first_however_many_there_are() {
    let queue_hints = queue_hints();
    announce(&queue_hints, &["a", "b", "c"]);
    assert_eq!(queues(&queue_hints, Some("a")), ["b", "c", "a"]);
    assert_eq!(queues(&queue_hints, Some("bb")), ["c", "a", "b"]);
    assert_eq!(queues(&queue_hints, Some("c")), ["a", "b", "c"]);
    let many: Vec<String> = (100..200).map(|n| format!("q{n}")).collect();
    announce(&queue_hints, &many.iter().map(String::as_str).collect::<Vec<_>>());
    let found = queues(&queue_hints, Some("q150"));
    assert_eq!((found.len(), found[0].as_str()), (limits::CLAIM_QUEUES_MAX, "q151"));
    let distinct: std::collections::BTreeSet<&String> = found.iter().collect();
    assert_eq!(distinct.len(), found.len());
}

#[test]
fn the_bound_on_active_jobs_shuts_the_board_until_a_job_ends() {
    let queue_hints = queue_hints();
    announce(&queue_hints, &["a"]);
    queue_hints.found_cap(&queue_hints.look(None).unwrap());
    announce(&queue_hints, &["b"]);
    assert!(queues(&queue_hints, None).is_empty());
    queue_hints.announce_room();
    assert_eq!(queues(&queue_hints, None), ["a", "b"]);
    let look = queue_hints.look(None).unwrap();
    queue_hints.announce_room();
    queue_hints.found_cap(&look);
    assert_eq!(queues(&queue_hints, None), ["a", "b"], "a job ended since the look");
}

#[test]
fn what_does_not_fit_is_read_from_the_store_once_there_is_room() {
    let queue_hints = queue_hints();
    for n in 0..=QUEUES_MAX {
        announce(&queue_hints, &[&format!("q{n}")]);
    }
    assert!(!queue_hints.take_missed(), "there is work enough");
    while let Some(look) = queue_hints.look(None) {
        queue_hints.found_nothing_left(&look);
    }
    assert!(queue_hints.take_missed());
    assert!(!queue_hints.take_missed(), "one who reads is enough");
}

#[tokio::test]
async fn a_wake_up_is_kept_for_whoever_waits_next() {
    let queue_hints = queue_hints();
    announce(&queue_hints, &["a"]);
    queue_hints.announced().await;
    let waits = tokio::time::timeout(std::time::Duration::ZERO, queue_hints.announced()).await;
    assert!(waits.is_err(), "only one is kept");
}

#[test]
fn only_jobs_taken_from_a_holder_are_called_off() {
    let queue_hints = queue_hints();
    let mut heard = queue_hints.called_off();
    let entry = |n: u128, from, to, cause| {
        let kind = EventKind::Moved { from: Some(from), to, cause, retry_status: RetryStatus::Open };
        let event = Event { n: 1, kind, at: forgerun_core::time::Time::ZERO, attempt: 1, execution: 1 };
        JournalEntry::of_job(JobId::from_u128(n), ClientId::from_u128(1), event)
    };
    queue_hints.call_off(&[
        entry(1, State::Queued, State::Canceled, Cause::CancelByUser),
        entry(2, State::Running, State::Succeeded, Cause::Finish),
        entry(3, State::Running, State::Failed, Cause::Fail),
    ]);
    assert!(heard.try_recv().is_err());
    queue_hints.call_off(&[
        entry(4, State::Running, State::Canceled, Cause::CancelByUser),
        entry(5, State::Running, State::Failed, Cause::Timeout),
        entry(6, State::Running, State::Failed, Cause::RunnerLost),
    ]);
    assert_eq!(*heard.try_recv().unwrap(), [4, 5, 6].map(JobId::from_u128));
}
