//! Submitting: idempotency, uniqueness, lists, full queues, schedules.

use std::string::String;
use std::vec;
use std::vec::Vec;

use crate::command::{Answer, Command, NewJob, Refusal, Submit};
use crate::id::{ClientId, JobId};
use crate::job::{Conflict, Head, Unique};
use crate::limits::SUBMISSION_JOBS_MAX;
use crate::state::{Facet, State};
use crate::world::World;
use crate::world::build::*;

fn existing(answer: &Answer) -> bool {
    matches!(answer, Answer::Submitted { existing: true, .. })
}

#[test]
fn a_key_used_before_names_the_same_job_as_it_stands_now() {
    let mut world = World::new();
    world.ask(keyed(1, "a", 0));
    world.ask(claim("q", 1));
    let changes = world.apply(vec![keyed(2, "a", 0)]);
    let Answer::Submitted { jobs, existing: true } = &changes.answers[0] else { panic!("{changes:?}") };
    assert_eq!((jobs[0].id, jobs[0].state), (id(1), State::Assigned));
    assert!(changes.is_empty());
    assert_eq!(world.jobs.len(), 1);
}

#[test]
fn equal_requests_in_one_batch_make_one_job() {
    let mut world = World::new();
    let changes = world.apply((1..=50).map(|n| keyed(n, "a", 0)).collect());
    assert!(changes.answers.iter().all(|answer| named(answer) == ids([1])));
    assert_eq!(changes.answers.iter().filter(|answer| existing(answer)).count(), 49);
    assert_eq!(world.jobs.len(), 1);
}

#[test]
fn a_key_with_another_request_is_refused() {
    let mut world = World::new();
    world.ask(keyed(1, "a", 0));
    let changes = world.apply(vec![keyed(2, "a", 1)]);
    assert_eq!(word(&changes.answers[0]), word(&Answer::Refused(Refusal::IdempotencyConflict(id(1)))));
    assert!(changes.is_empty());
    let same_batch = World::new().apply(vec![keyed(1, "a", 0), keyed(2, "a", 1)]);
    assert!(matches!(same_batch.answers[1], Answer::Refused(Refusal::IdempotencyConflict(_))));
}

#[test]
fn a_request_that_is_too_late_repeats_one_that_was_not_and_makes_no_new_job() {
    let late = |n| {
        let Command::Submit(mut submit) = keyed(n, "a", 0) else { unreachable!() };
        submit.idempotency.as_mut().unwrap().too_late = true;
        Command::Submit(submit)
    };
    let mut world = World::new();
    let changes = world.apply(vec![late(1)]);
    assert_eq!(word(&changes.answers[0]), word(&Answer::Refused(Refusal::TooLate)));
    assert!(changes.is_empty());
    world.ask(keyed(2, "a", 0));
    let repeated = world.ask(late(3));
    assert!(existing(&repeated));
    assert_eq!(named(&repeated), ids([2]));
}

#[test]
fn keys_of_other_clients_operations_and_names_never_meet() {
    let mut world = World::new();
    world.ask(keyed(1, "a", 0));
    let altered = |n, alter: fn(&mut crate::job::IdempotencyKey)| {
        let Command::Submit(mut submit) = keyed(n, "a", 0) else { unreachable!() };
        let idempotency = submit.idempotency.as_mut().unwrap();
        alter(&mut idempotency.key);
        Command::Submit(submit)
    };
    let others: [fn(&mut crate::job::IdempotencyKey); 3] = [
        |key| key.client = ClientId::from_u128(2),
        |key| key.operation = String::from("retry"),
        |key| key.key = String::from("b"),
    ];
    for (n, alter) in (2..).zip(others) {
        assert_eq!(named(&world.ask(altered(n, alter))), ids([n]));
    }
    assert_eq!(named(&world.ask(submit([plain(9)]))), ids([9]), "without a key there is always a new job");
}

#[test]
fn a_key_is_forgotten_with_its_job_and_can_be_used_anew() {
    let mut world = World::new();
    world.ask(keyed(1, "a", 0));
    world.ask(cancel(1));
    world.ask(forget(1));
    assert!(world.keys.is_empty());
    assert_eq!(named(&world.ask(keyed(2, "a", 1))), ids([2]));
}

#[test]
fn a_key_forgotten_and_used_anew_in_one_batch_belongs_to_the_new_job() {
    let mut world = World::new();
    world.ask(keyed(1, "a", 0));
    world.ask(cancel(1));
    let changes = world.apply(vec![forget(1), keyed(2, "a", 1)]);
    assert_eq!(named(&changes.answers[1]), ids([2]));
    assert!(existing(&world.ask(keyed(3, "a", 1))));
    // The other way round: used and forgotten again before the batch is over.
    world.apply(vec![keyed(4, "b", 0), cancel(4), forget(4)]);
    assert_eq!(named(&world.ask(keyed(5, "b", 0))), ids([5]));
}

#[test]
fn a_key_whose_job_was_only_met_and_is_gone_counts_as_unused() {
    let mut world = World::new();
    world.ask(submit([unique(1, |_| {})]));
    let Command::Submit(mut submit) = keyed(2, "a", 0) else { unreachable!() };
    submit.jobs = vec![unique(2, |unique| unique.on_conflict = Conflict::Ignore)];
    let changes = world.apply(vec![Command::Submit(submit)]);
    assert_eq!(named(&changes.answers[0]), ids([1]));
    assert!(!changes.is_empty(), "the key is worth a transaction of its own");
    world.ask(cancel(1));
    world.ask(forget(1));
    assert_eq!(named(&world.ask(keyed(3, "a", 0))), ids([3]));
}

fn unique(n: u128, set: impl FnOnce(&mut Unique)) -> NewJob {
    let mut unique =
        Unique { key: [5; 32], facets: Unique::UNFINISHED, until: None, on_conflict: Conflict::Reject };
    set(&mut unique);
    job(n, |head| head.unique = Some(unique))
}

#[test]
fn a_second_unique_job_meets_the_first_as_its_policy_says() {
    use State::{Assigned, Canceled, Created, Failed, Queued, Running, Succeeded};
    let table = [
        (Conflict::Reject, [Created, Queued, Assigned, Running].as_slice(), "refused"),
        (Conflict::Reject, &[Succeeded, Failed, Canceled], "born"),
        (Conflict::Ignore, &[Created, Queued, Assigned, Running], "existing"),
        (Conflict::Ignore, &[Succeeded, Failed, Canceled], "born"),
        (Conflict::Replace, &[Created, Queued], "replaces"),
        (Conflict::Replace, &[Assigned, Running], "refused"),
        (Conflict::Replace, &[Succeeded, Failed, Canceled], "born"),
    ];
    for (on_conflict, states, expected) in table {
        for &state in states {
            let first = unique(1, |_| {}).head.unique.clone();
            let mut world = World::with_job_in(state, |head| head.unique = first);
            let answer = world.ask(submit([unique(2, |unique| unique.on_conflict = on_conflict)]));
            let canceled_now = world.job(1).state == Canceled && state != Canceled;
            let found = match &answer {
                Answer::Refused(Refusal::Duplicate { existing, state: known, index: 0 }) => {
                    assert_eq!((*existing, *known), (id(1), state));
                    "refused"
                }
                Answer::Submitted { existing: true, .. } => "existing",
                Answer::Submitted { .. } if canceled_now => "replaces",
                Answer::Submitted { .. } => "born",
                other => panic!("{other:?}"),
            };
            assert_eq!(found, expected, "{on_conflict:?} meets {state:?}");
            assert_eq!(world.jobs.contains_key(&id(2)), matches!(expected, "born" | "replaces"));
        }
    }
}

#[test]
fn a_unique_key_is_free_after_its_period_and_outside_its_states() {
    let mut world = World::new();
    let until = world.now + secs(60);
    world.ask(submit([unique(1, |unique| unique.until = Some(until))]));
    world.pass(secs(59));
    assert!(matches!(world.ask(submit([unique(2, |_| {})])), Answer::Refused(_)));
    world.pass(secs(1));
    assert_eq!(named(&world.ask(submit([unique(3, |_| {})]))), ids([3]));
    let running_only = Facet::Running.bit();
    assert_eq!(named(&world.ask(submit([unique(4, |unique| unique.facets = running_only)]))), ids([4]));
    assert_eq!(world.uniques[&[5; 32]], id(4), "the newest job holds the key");
}

#[test]
fn a_unique_key_counts_within_the_batch_and_is_forgotten_with_its_job() {
    let mut world = World::new();
    let changes = world.apply(vec![submit([unique(1, |_| {})]), submit([unique(2, |_| {})])]);
    assert!(matches!(changes.answers[1], Answer::Refused(Refusal::Duplicate { .. })));
    let twice = world
        .ask(submit([unique(3, |unique| unique.key = [6; 32]), unique(4, |unique| unique.key = [6; 32])]));
    let within = Refusal::DuplicateWithin { index: 1 };
    assert_eq!(twice, Answer::Refused(within), "a list is checked against itself");
    world.apply(vec![cancel(1), forget(1), submit([unique(5, |_| {})])]);
    assert_eq!(world.uniques[&[5; 32]], id(5));
}

/// Every list of three jobs with one unique key, in one submission and in three.
#[test]
fn the_jobs_of_a_list_meet_each_other_as_if_they_came_one_after_the_other() {
    use Conflict::{Ignore, Reject, Replace, ReplaceKeepingSchedule};
    // Some let through what others would not, so the world must not expect one unfinished job.
    let waiting = Facet::Scheduled.bit() | Facet::Available.bit();
    let mut kinds = Vec::new();
    for on_conflict in [Reject, Ignore, Replace, ReplaceKeepingSchedule] {
        for facets in [waiting, Facet::Scheduled.bit()] {
            for later in [false, true] {
                kinds.push((on_conflict, facets, later));
            }
        }
    }
    let make = |n: u128, (on_conflict, facets, later): (Conflict, u16, bool)| {
        job(n, |head| {
            head.unique = Some(Unique { key: [5; 32], facets, until: None, on_conflict });
            head.execution_at = later.then(|| head.created_at + secs(n as u64));
        })
    };
    let tell = |world: &World| {
        let jobs = world.jobs.values().map(|job| (job.id, job.state, job.head.execution_at));
        (jobs.collect::<Vec<_>>(), world.uniques.clone())
    };
    let (mut n_whole, mut n_refused) = (0, 0);
    for first in &kinds {
        for second in &kinds {
            for third in &kinds {
                let news = [make(1, *first), make(2, *second), make(3, *third)];
                let (mut one, mut three) = (World::new(), World::new());
                let answers: Vec<Answer> = news.iter().map(|new| three.ask(submit([new.clone()]))).collect();
                let refused = answers.iter().position(|answer| matches!(answer, Answer::Refused(_)));
                let whole = one.ask(submit(news.clone()));
                match refused {
                    Some(index) => {
                        n_refused += 1;
                        assert_eq!(whole, Answer::Refused(Refusal::DuplicateWithin { index }), "{news:?}");
                        assert!(one.jobs.is_empty());
                    }
                    None => {
                        n_whole += 1;
                        assert_eq!(tell(&one), tell(&three), "{news:?}");
                        let each: Vec<JobId> = answers.iter().flat_map(named).collect();
                        assert_eq!(named(&whole), each, "{news:?}");
                    }
                }
            }
        }
    }
    assert!(n_whole > 500 && n_refused > 500, "{n_whole} {n_refused}");
}

#[test]
fn a_list_counts_once_what_takes_the_place_of_another_of_it() {
    let replacing = |n| unique(n, |unique| unique.on_conflict = Conflict::Replace);
    let ignoring = |n| unique(n, |unique| unique.on_conflict = Conflict::Ignore);
    let mut world = World::new();
    let list = with_room_for(1, [replacing(1), replacing(2), ignoring(3)]);
    assert_eq!(named(&world.ask(list)), ids([1, 2, 2]));
    assert_eq!((world.job(1).state, world.job(2).state), (State::Canceled, State::Queued));
    let full = World::new().ask(with_room_for(1, [replacing(1), plain(2), replacing(3)]));
    assert!(matches!(full, Answer::Refused(Refusal::QueueFull { .. })));
}

#[test]
fn a_list_is_born_whole_or_not_at_all() {
    let mut world = World::new();
    world.ask(submit([unique(1, |_| {})]));
    let changes = world.apply(vec![submit([plain(2), unique(3, |_| {}), plain(4)])]);
    assert!(matches!(changes.answers[0], Answer::Refused(_)));
    assert!(changes.is_empty());
    assert_eq!(named(&world.ask(submit([plain(2), plain(4)]))), ids([2, 4]));
}

#[test]
fn a_list_longer_than_it_may_be_is_refused_whole() {
    let mut world = World::new();
    let most = SUBMISSION_JOBS_MAX as u128;
    let refused = world.ask(with_room_for(u64::MAX, (1..=most + 1).map(plain)));
    assert_eq!(refused, Answer::Refused(Refusal::TooManyJobs));
    assert!(world.jobs.is_empty());
    world.ask(with_room_for(u64::MAX, (1..=most).map(plain)));
    assert_eq!(world.jobs.len(), SUBMISSION_JOBS_MAX);
}

#[test]
fn an_id_that_is_taken_is_refused() {
    let given = |n| NewJob { id_given: true, ..plain(n) };
    let duplicate = |answer: &Answer| matches!(answer, Answer::Refused(Refusal::Duplicate { existing, .. }) if *existing == id(1));
    let mut world = World::new();
    world.ask(submit([given(1)]));
    assert!(duplicate(&world.ask(submit([given(1)]))), "by a job that is there");
    let changes = World::new().apply(vec![submit([given(1)]), submit([given(1)])]);
    assert!(duplicate(&changes.answers[1]), "by a job of the same batch");
    let within = World::new().ask(submit([given(1), given(2), given(1)]));
    let expected = Answer::Refused(Refusal::DuplicateWithin { index: 2 });
    assert_eq!(within, expected, "by a job of the same list, which is not there either");
    world.ask(cancel(1));
    let changes = world.apply(vec![forget(1), submit([given(1)])]);
    assert!(duplicate(&changes.answers[1]), "by a job that this very batch forgets");
}

fn with_room_for(queue_max: u64, jobs: impl IntoIterator<Item = NewJob>) -> Command {
    let jobs = jobs.into_iter().collect();
    Command::Submit(Submit { jobs, idempotency: None, queue_max: Some(queue_max), refuse_paused: false })
}

#[test]
fn a_full_queue_refuses_and_keeps_nothing() {
    let mut world = World::new();
    assert_eq!(named(&world.ask(with_room_for(2, [plain(1), plain(2)]))), ids([1, 2]));
    let full = Answer::Refused(Refusal::QueueFull { queue: name("q"), waiting: 2, max: 2 });
    let changes = world.apply(vec![with_room_for(2, [plain(3)])]);
    assert_eq!(word(&changes.answers[0]), word(&full));
    assert!(changes.is_empty());
    let elsewhere = job(4, |head| head.queue = name("other"));
    assert_eq!(named(&world.ask(with_room_for(2, [elsewhere]))), ids([4]), "queues are full one by one");
    world.ask(claim("q", 1));
    let changes = world.apply(vec![with_room_for(2, [plain(5)]), with_room_for(2, [plain(6)])]);
    assert_eq!(named(&changes.answers[0]), ids([5]), "a claimed job makes room");
    assert_eq!(word(&changes.answers[1]), word(&full), "the batch counts its own");
    let list = with_room_for(4, [plain(7), plain(8), plain(9)]);
    assert_eq!(named(&world.ask(list)), Vec::<JobId>::new(), "a list counts its own");
}

#[test]
fn a_newcomer_that_replaces_a_waiting_job_needs_no_room_but_another_does() {
    let replacing = |n| unique(n, |unique| unique.on_conflict = Conflict::Replace);
    let mut world = World::new();
    world.ask(submit([unique(1, |_| {})]));
    assert_eq!(named(&world.ask(with_room_for(1, [replacing(2)]))), ids([2]));
    // The holder waits in another queue, so its end makes no room in this one.
    world.ask(submit([job(3, |head| {
        head.queue = name("other");
        head.unique = Some(Unique { key: [6; 32], ..replacing(3).head.unique.clone().unwrap() });
    })]));
    let into_full = job(4, |head| head.unique = world.job(3).head.unique.clone());
    assert!(matches!(world.ask(with_room_for(1, [into_full])), Answer::Refused(Refusal::QueueFull { .. })));
}

#[test]
fn a_new_job_waits_for_its_hold_and_its_time() {
    let check = |set: fn(&mut Head), expected: State| {
        let mut world = World::new();
        world.ask(submit([job(1, set)]));
        assert_eq!(world.job(1).state, expected);
    };
    check(|_| {}, State::Queued);
    check(|head| head.hold = true, State::Created);
    check(|head| head.execution_at = Some(head.created_at + secs(1)), State::Created);
    check(|head| head.execution_at = Some(head.created_at), State::Queued);
}
