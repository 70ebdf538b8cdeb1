//! Lists, shelves and queues.

use std::sync::Arc;

use forgerun_core::Command;
use forgerun_core::client::Client;
use forgerun_core::command::{Claim, WorkerKind};
use forgerun_core::failure::FailureId;
use forgerun_core::id::JobId;
use forgerun_core::job::{Head, Lane, Name};
use forgerun_core::queue::Owner;
use forgerun_core::retry::RetryPolicy;
use forgerun_core::rows::Counts;
use forgerun_core::state::{Facet, State};
use forgerun_core::work::{Definition, WorkKind};

use super::Fixture;
use super::harness::{accepted, ask, at_once, claimed, n_due, run};
use super::make::{
    START, at, by_state, cancel, claim, client, fail, id, job, job_with, mine, name, patient, pause,
    progress, secs, submit, submit_all, succeed, take,
};
use super::snapshot::snapshot;
use crate::{Filter, IdSuffix, JobsAhead, Store};

async fn listed(store: &Arc<dyn Store>, filter: Filter) -> Vec<JobId> {
    store.jobs(filter).await.unwrap().into_iter().map(|job| job.id).collect()
}

fn newest(numbers: &[u64]) -> Vec<JobId> {
    numbers.iter().map(|&n| id(n)).collect()
}

fn end_of(n: u64) -> IdSuffix {
    IdSuffix::parse(&id(n).to_string()[24..]).unwrap()
}

/// Twelve jobs of two clients, three queues, two types, in several states.
async fn a_colourful_store(fixture: &dyn Fixture) -> Arc<dyn Store> {
    let store = fixture.store();
    let jobs = (1..=12).map(|n| {
        job_with(n, ["a", "b", "c"][n as usize % 3], |head| {
            head.client = client(u128::from(n % 2));
            head.job_type = ["mail", "sms"][usize::from(n > 6)].into();
            head.priority = n as i16;
            head.tags = (2..=3).filter(|k| n % k == 0).map(|k| format!("by:{k}")).collect();
        })
    });
    let clients = (0..2).map(|n| Command::Register(Client::new(client(n), START)));
    run(&store, START, clients.collect()).await;
    accepted(ask(&store, START, submit_all(jobs.collect())).await);
    run(&store, at(1), vec![cancel(2), cancel(8), cancel(11)]).await;
    for (n, expected) in [(0, 12), (1, 9)] {
        let worker_kind = WorkerKind::External(Owner::client(client(n)));
        let one = Command::Claim(Claim { worker_kind, start: true, ..claim(&["a"], 1) });
        assert_eq!(claimed(ask(&store, at(2), one).await)[0].id, id(expected));
    }
    store
}

/// Newest first, from a cursor, as many as asked.
pub async fn lists_are_newest_first_and_go_on_from_a_cursor(fixture: &dyn Fixture) {
    let store = a_colourful_store(fixture).await;
    let page = |before, limit| Filter { before, limit, ..Filter::default() };
    assert_eq!(listed(&store, page(None, 5)).await, newest(&[12, 11, 10, 9, 8]));
    assert_eq!(listed(&store, page(Some(id(8)), 5)).await, newest(&[7, 6, 5, 4, 3]));
    assert_eq!(listed(&store, page(Some(id(3)), 5)).await, newest(&[2, 1]));
    assert_eq!(listed(&store, page(Some(id(1)), 5)).await, []);
    assert_eq!(listed(&store, page(None, 0)).await, []);
    // A cursor is a place, whether or not a job stands there.
    let between = JobId::from_u128(id(8).as_u128() - 1);
    assert_eq!(listed(&store, page(Some(between), 1)).await, newest(&[7]));
}

/// Every filter alone, and all together.
pub async fn lists_can_be_filtered(fixture: &dyn Fixture) {
    let store = a_colourful_store(fixture).await;
    let all = Filter { limit: 100, ..Filter::default() };
    let cases = [
        (Filter { client: Some(client(0)), ..all.clone() }, vec![12, 10, 8, 6, 4, 2]),
        (Filter { queue: Some(name("b")), ..all.clone() }, vec![10, 7, 4, 1]),
        (Filter { job_type: Some("sms".into()), ..all.clone() }, vec![12, 11, 10, 9, 8, 7]),
        (Filter { job_type: Some("".into()), ..all.clone() }, vec![]),
        (Filter { states: vec![State::Canceled], ..all.clone() }, vec![11, 8, 2]),
        (Filter { states: vec![State::Running, State::Canceled], ..all.clone() }, vec![12, 11, 9, 8, 2]),
        (Filter { states: vec![State::Created], ..all.clone() }, vec![]),
        (Filter { client: Some(client(7)), ..all.clone() }, vec![]),
        (Filter { queue: Some(name("nowhere")), ..all.clone() }, vec![]),
        (Filter { queue: Some(name("c")), states: vec![State::Canceled], ..all.clone() }, vec![11, 8, 2]),
        (Filter { client: Some(client(0)), states: vec![State::Canceled], ..all.clone() }, vec![8, 2]),
        (Filter { tags: vec!["by:3".into()], ..all.clone() }, vec![12, 9, 6, 3]),
        (Filter { tags: vec!["by:3".into(), "by:2".into()], ..all.clone() }, vec![12, 6]),
        (Filter { tags: vec!["by:".into()], ..all.clone() }, vec![]),
        (
            Filter { tags: vec!["by:2".into()], client: Some(client(0)), before: Some(id(5)), ..all.clone() },
            vec![4, 2],
        ),
        (Filter { id_suffix: Some(end_of(7)), ..all.clone() }, vec![7]),
        (Filter { id_suffix: Some(end_of(7)), client: Some(client(1)), ..all.clone() }, vec![7]),
        (Filter { id_suffix: Some(end_of(7)), client: Some(client(0)), ..all.clone() }, vec![]),
        (Filter { id_suffix: Some(end_of(8)), states: vec![State::Canceled], ..all.clone() }, vec![8]),
        (Filter { id_suffix: Some(end_of(8)), states: vec![State::Queued], ..all.clone() }, vec![]),
        (
            Filter {
                client: Some(client(0)),
                states: vec![State::Queued, State::Canceled],
                queue: Some(name("c")),
                job_type: Some("sms".into()),
                before: Some(id(10)),
                limit: 100,
                ..Filter::default()
            },
            vec![8],
        ),
    ];
    for (filter, expected) in cases {
        let whole = format!("{filter:?}");
        assert_eq!(listed(&store, filter.clone()).await, newest(&expected), "{whole}");
        let mut paged = Vec::new();
        let mut before = filter.before;
        while let [next] = listed(&store, Filter { before, limit: 1, ..filter.clone() }).await[..] {
            before = Some(next);
            paged.push(next);
        }
        assert_eq!(paged, newest(&expected), "one at a time: {whole}");
    }
}

/// A page that may not look further ends there, and those after it miss nothing.
pub async fn a_page_ends_where_it_may_look_no_further(fixture: &dyn Fixture) {
    let store = a_colourful_store(fixture).await;
    let own = Filter { client: Some(client(0)), limit: 100, ..Filter::default() };
    for filter in [
        own.clone(),
        Filter { states: vec![State::Queued], ..own.clone() },
        Filter { states: vec![State::Running, State::Canceled], ..own.clone() },
        Filter { queue: Some(name("b")), ..own.clone() },
        Filter { job_type: Some("mail".into()), states: vec![State::Queued], ..own.clone() },
        Filter { dead: Some(true), states: vec![State::Failed], ..own.clone() },
        Filter { dead: Some(false), ..own.clone() },
        Filter { client: None, states: vec![State::Canceled], ..own.clone() },
        Filter { tags: vec!["by:3".into()], ..own.clone() },
        Filter { id_suffix: Some(end_of(4)), ..own.clone() },
    ] {
        let whole = store.list_jobs(filter.clone()).await.unwrap();
        assert_eq!(whole.next, None, "everything was looked at: {filter:?}");
        for (look_max, limit) in [(1, 100), (2, 100), (3, 2), (100, 1), (5, 3)] {
            let (mut jobs, mut before, mut n_pages) = (Vec::new(), None, 0);
            loop {
                let page = Filter { before, look_max, limit, ..filter.clone() };
                let page = store.list_jobs(page).await.unwrap();
                let most = limit.min(look_max.max(filter.states.len()));
                assert!(page.rows.len() <= most, "{} rows of {look_max}", page.rows.len());
                jobs.extend(page.rows);
                n_pages += 1;
                assert!(page.next.is_none_or(|next| before.is_none_or(|before| next < before)));
                assert!(n_pages <= 14, "twelve jobs, and every page looks at one at least");
                before = page.next;
                if before.is_none() {
                    break;
                }
            }
            assert_eq!(jobs, whole.rows, "{look_max} rows, {limit} jobs a page: {filter:?}");
        }
    }
}

/// A job that failed and is tried again, before and after its wait; not one that was never tried or has ended.
pub async fn retrying_jobs_are_found(fixture: &dyn Fixture) {
    let store = fixture.store();
    let tried = |attempts| move |head: &mut Head| head.retry = patient(attempts, secs(60));
    let jobs = vec![job_with(1, "q", tried(1)), job_with(2, "q", tried(2)), job(3, "other")];
    accepted(ask(&store, START, submit_all(jobs)).await);
    let taken = claimed(ask(&store, at(1), take(&["q"], 2)).await);
    run(&store, at(2), taken.iter().map(fail).collect()).await;
    let retrying = Filter { retrying: true, limit: 9, ..Filter::default() };
    assert_eq!(listed(&store, retrying.clone()).await, newest(&[2]));
    assert_eq!(n_due(ask(&store, at(9_000), Command::Due(9)).await), 1);
    let client = Some(taken[0].head.client);
    let queued = Filter { states: vec![State::Queued], client, ..retrying.clone() };
    assert_eq!(listed(&store, queued).await, newest(&[2]), "its wait is over, and no worker came");
    assert_eq!(claimed(ask(&store, at(9_001), take(&["q"], 2)).await).len(), 1);
    assert_eq!(listed(&store, retrying).await, []);
}

/// Failed jobs by their reason, dead letters apart, oldest first whatever their priority, page by page.
pub async fn shelves_are_read_in_pages_oldest_first(fixture: &dyn Fixture) {
    let store = fixture.store();
    let jobs = (1..=6).map(|n| {
        job_with(n, "q", |head| {
            head.retry = patient(1, secs(1));
            head.priority = (n as i16 * 7) % 5;
            if n == 4 {
                head.job_type = "other".into();
            }
        })
    });
    accepted(ask(&store, START, submit_all(jobs.collect())).await);
    let mut manual = job(7, "manual");
    Arc::make_mut(&mut manual.head).retry = RetryPolicy::manual();
    accepted(ask(&store, START, submit(manual)).await);
    let taken = claimed(ask(&store, at(1), take(&["q", "manual"], 7)).await);
    run(&store, at(2), taken.iter().map(fail).collect()).await;
    let reason = store.job(id(1)).await.unwrap().unwrap().failure.unwrap();
    let [dead, failed] = reason.shelves();
    assert_eq!((dead.lane, failed.lane), (Lane::Dead, Lane::Failed));
    let on_failed = store.shelf(failed, None, 9).await.unwrap();
    assert_eq!(on_failed.iter().map(|job| job.id).collect::<Vec<_>>(), [id(7)]);
    let page = async |after, limit| -> Vec<JobId> {
        let jobs = store.shelf(dead.clone(), after, limit).await.unwrap();
        jobs.into_iter().map(|job| job.id).collect()
    };
    assert_eq!(page(None, 3).await, newest(&[1, 2, 3]));
    assert_eq!(page(Some(id(3)), 3).await, newest(&[5, 6]));
    assert_eq!(page(Some(id(6)), 3).await, []);
    assert_eq!(page(None, 0).await, []);
    assert_eq!(store.dead_letters(100).await.unwrap(), 6, "those of all queues");
    assert_eq!(store.dead_letters(4).await.unwrap(), 4, "counting has an end");
    let page = async |after, limit| -> Vec<JobId> {
        let jobs = fixture.second().failed_jobs(reason, after, limit).await.unwrap();
        jobs.into_iter().map(|job| job.id).collect()
    };
    assert_eq!(page(None, 5).await, newest(&[1, 2, 3, 5, 6]));
    assert_eq!(page(Some(id(5)), 5).await, newest(&[6, 7]));
    assert_eq!(store.count_failed(reason, 100).await.unwrap(), 6, "of both shelves");
    assert_eq!(store.count_failed(reason, 4).await.unwrap(), 4, "counting has an end");
    assert_eq!(store.count_failed(FailureId(1), 4).await.unwrap(), 0);
    snapshot(&store).await;
}

async fn ahead(store: &Arc<dyn Store>, n: u64, limit: usize) -> Option<JobsAhead> {
    let job = store.job(id(n)).await.unwrap().expect("the job is there");
    store.ahead(&job, limit).await.unwrap()
}

/// By priority, then by age, on its own shelf alone; and nowhere once it does not wait for a worker.
pub async fn a_waiting_job_knows_how_many_go_before_it(fixture: &dyn Fixture) {
    let store = fixture.store();
    let simulated = |head: &mut Head| {
        head.definition = Some(Definition::of(WorkKind::SuccessFast, 1000));
    };
    accepted(
        ask(
            &store,
            START,
            submit_all(vec![
                job(1, "q"),
                job_with(2, "q", |head| head.priority = 5),
                job(3, "q"),
                job_with(4, "q", |head| head.priority = -5),
                job(5, "other"),
                job_with(6, "q", simulated),
                job_with(7, "q", |head| head.execution_at = Some(at(3600))),
                job(8, "q"),
            ]),
        )
        .await,
    );
    for (n, expected) in [(1, 1), (2, 0), (3, 2), (4, 4), (5, 0), (6, 0), (8, 3)] {
        assert_eq!(ahead(&store, n, 100).await, Some(JobsAhead::Exactly(expected)), "job {n}");
    }
    assert_eq!(ahead(&store, 7, 100).await, None, "its time has not come");
    run(&store, at(1), vec![cancel(1)]).await;
    assert_eq!(ahead(&store, 1, 100).await, None, "it has ended");
    claimed(ask(&store, at(1), take(&["q"], 1)).await);
    assert_eq!(ahead(&store, 2, 100).await, None, "a worker has it");
    assert_eq!(ahead(&store, 3, 100).await, Some(JobsAhead::Exactly(0)));
}

/// Jobs are handed out in the order of acceptance, whatever ids their clients chose.
pub async fn a_chosen_id_jumps_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    let chosen = |n, place| job_with(n, "q", |head| head.place = Some(id(place)));
    accepted(ask(&store, START, submit_all(vec![job(50, "q"), chosen(2, 51)])).await);
    accepted(ask(&store, START, submit_all(vec![job(52, "q"), chosen(1, 53), job(54, "q")])).await);
    for (n, expected) in [(50, 0), (2, 1), (52, 2), (1, 3), (54, 4)] {
        assert_eq!(ahead(&store, n, 100).await, Some(JobsAhead::Exactly(expected)), "job {n}");
    }
    let shelf = store.job(id(1)).await.unwrap().and_then(|job| job.shelf()).unwrap();
    assert_eq!(store.oldest(shelf).await.unwrap().unwrap().id, id(50));
    let in_one_batch = run(&store, at(1), vec![submit_all(vec![chosen(3, 55)]), take(&["q"], 3)]).await;
    let first: Vec<JobId> = claimed(in_one_batch[1].clone()).iter().map(|job| job.id).collect();
    let rest: Vec<JobId> =
        claimed(ask(&store, at(2), take(&["q"], 9)).await).iter().map(|job| job.id).collect();
    assert_eq!([first, rest].concat(), [50, 2, 52, 1, 54, 3].map(id));
}

/// Counting stops at the bound; what is told then follows from the numbers of the queue.
pub async fn beyond_the_bound_the_place_of_a_job_is_an_estimate(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit_all((1..=20).map(|n| job(n, "q")).collect())).await);
    assert_eq!(ahead(&store, 10, 10).await, Some(JobsAhead::Exactly(9)));
    assert_eq!(ahead(&store, 11, 10).await, Some(JobsAhead::About(19)));
    assert_eq!(ahead(&store, 20, 10).await, Some(JobsAhead::About(19)));
    claimed(ask(&store, at(1), take(&["q"], 10)).await);
    assert_eq!(ahead(&store, 20, 10).await, Some(JobsAhead::Exactly(9)));
}

/// Every queue that has a job, by its key, with its numbers.
pub async fn queues_are_listed_by_name_with_their_numbers(fixture: &dyn Fixture) {
    let store = fixture.store();
    let held = job_with(3, "b", |head| head.hold = true);
    accepted(ask(&store, START, submit_all(vec![job(1, "b"), job(2, "b"), held, job(4, "Z")])).await);
    run(&store, at(1), vec![pause("a", true), cancel(4)]).await;
    claimed(ask(&store, at(2), take(&["b"], 1)).await);
    let found = fixture.second().queues().await.unwrap();
    let seen: Vec<(Name, Counts)> = found.into_iter().map(|stats| (stats.queue, stats.counts)).collect();
    let mut b = by_state([0, 1, 0, 1, 0, 0, 0]);
    b.add(Facet::Held, 1);
    assert_eq!(seen, [(mine("Z"), by_state([0, 0, 0, 0, 0, 0, 1])), (mine("b"), b)]);
    let of = |n| Owner::client(client(n));
    assert_eq!(store.queues_of(&of(1)).await.unwrap().len(), 2);
    assert_eq!(store.queues_of(&of(2)).await.unwrap(), []);
    assert_eq!(store.counts(mine("b")).await.unwrap(), b);
    snapshot(&store).await;
}

/// Many tasks on two nodes do all sorts of things; the numbers per queue are still those of the jobs.
pub async fn counts_equal_a_recount_however_many_write(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    at_once(8, |task| {
        let store = stores[task as usize % 2].clone();
        async move {
            for round in 0..12 {
                let n = task * 100 + 4 * round;
                let queue = ["a", "b", "c"][(task + round) as usize % 3];
                let new =
                    (0..4).map(|k| submit(job_with(n + k, queue, |head| head.retry = patient(2, secs(0)))));
                run(&store, at(round), new.collect()).await;
                let taken = claimed(ask(&store, at(round), take(&["a", "b", "c"], 3)).await);
                let mut commands: Vec<_> = taken.iter().skip(1).map(succeed).collect();
                commands.extend(taken.iter().take(1).flat_map(|job| [progress(job, 5), fail(job)]));
                commands.push(cancel(n + 3));
                run(&store, at(round), commands).await;
            }
        }
    })
    .await;
    assert_eq!(snapshot(&stores[0]).await.jobs.len(), 8 * 12 * 4);
}
