//! The journal: every event once, in order, and no reader skips any.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forgerun_core::command::Command;
use forgerun_core::history::{EventKind, EventName, JournalEntry};
use forgerun_core::state::State;

use super::Fixture;
use super::harness::{accepted, ask, at_once, claimed, done, run, the_one};
use super::make::{
    START, at, claim, fail, id, job, job_with, patient, progress, secs, start, submit, succeed, take,
};
use super::snapshot::{all_rows, check_order, snapshot};
use crate::{JournalRow, Store};

/// One row per transaction, with every event of it, in order; nothing for a batch that changed nothing.
pub async fn the_journal_tells_a_life_in_order(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit(job(1, "q"))).await);
    let taken = the_one(ask(&store, at(1), Command::Claim(claim(&["q"], 1))).await);
    assert_eq!(claimed(ask(&store, at(1), take(&["q"], 1)).await), []);
    run(&store, at(2), vec![start(&taken), progress(&taken, 50)]).await;
    done(ask(&store, at(3), succeed(&taken)).await);
    let rows = all_rows(&store, 0).await;
    let names: Vec<Vec<EventName>> =
        rows.iter().map(|row| row.job_events().map(|(_, event)| event.name()).collect()).collect();
    let expected = [
        vec![EventName::Created, EventName::Queued],
        vec![EventName::Assigned],
        vec![EventName::Started, EventName::Progress],
        vec![EventName::Succeeded],
    ];
    assert_eq!(names, expected);
    assert!(rows.is_sorted_by(|a, b| a.seq < b.seq) && rows[0].seq > 0);
    assert_eq!(store.journal_end().await.unwrap(), rows[3].seq);
    let moved: Vec<_> = rows.iter().flat_map(|row| row.job_events()).map(|(_, event)| *event).collect();
    let kept = moved.iter().filter(|event| matches!(event.kind, EventKind::Moved { .. })).copied();
    let found = store.job(id(1)).await.unwrap().expect("it exists");
    assert_eq!(found.history.events().collect::<Vec<_>>(), kept.collect::<Vec<_>>());
    snapshot(&store).await;
}

/// Pages begin after a cursor and are as long as asked.
pub async fn the_journal_is_read_in_pages(fixture: &dyn Fixture) {
    let store = fixture.store();
    for n in 1..=5 {
        accepted(ask(&store, at(n), submit(job(n, "q"))).await);
    }
    let all = all_rows(&store, 0).await;
    assert_eq!(all.len(), 5);
    assert_eq!(store.journal(0, 2).await.unwrap(), all[..2]);
    assert_eq!(store.journal(all[1].seq, 2).await.unwrap(), all[2..4]);
    assert_eq!(fixture.second().journal(all[3].seq, 9).await.unwrap(), all[4..]);
    assert_eq!(store.journal(all[4].seq, 9).await.unwrap(), []);
    assert_eq!(store.journal(i64::MAX - 1, 9).await.unwrap(), []);
    assert_eq!(store.journal(0, 0).await.unwrap(), []);
}

/// Writers on two nodes, a reader on each that only ever looks forward: none of them misses or repeats an event.
pub async fn a_reader_misses_nothing_while_many_write(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> =
        stores.iter().map(|store| tokio::spawn(follow(store.clone(), over.clone()))).collect();
    let n_tasks = 8;
    at_once(n_tasks, |task| {
        let store = stores[task as usize % 2].clone();
        async move { live_lives(&store, task).await }
    })
    .await;
    over.store(true, Ordering::SeqCst);
    let all = all_rows(&stores[0], 0).await;
    check_order(&all.iter().map(|row| row.entries.clone()).collect::<Vec<_>>());
    for reader in readers {
        let seen = reader.await.expect("the reader did not panic");
        assert_eq!(
            seen.iter().map(|row| row.seq).collect::<Vec<_>>(),
            all.iter().map(|row| row.seq).collect::<Vec<_>>()
        );
        assert!(seen == all, "a row changed after it was read");
    }
    let told: usize = all.iter().map(|row| row.entries.len()).sum();
    assert_eq!(told as u64, n_tasks * LIVES * EVENTS);
    snapshot(&stores[0]).await;
}

const LIVES: u64 = 12;
/// Created, queued, assigned, started, progress, failed, queued, assigned, started, succeeded.
const EVENTS: u64 = 10;

/// Jobs with two attempts each, some transactions long and some short.
async fn live_lives(store: &Arc<dyn Store>, task: u64) {
    let queue = format!("q{task}");
    for life in 0..LIVES {
        let n = task * 1000 + life;
        let now = at(life);
        let new = job_with(n, &queue, |head| head.retry = patient(5, secs(0)));
        accepted(ask(store, now, submit(new)).await);
        let taken = the_one(ask(store, now, take(&[&queue], 1)).await);
        run(store, now, vec![progress(&taken, 10), fail(&taken)]).await;
        let taken = the_one(ask(store, now, take(&[&queue], 1)).await);
        assert_eq!(done(ask(store, now, succeed(&taken)).await).state, State::Succeeded);
    }
}

/// Reads forward until the writers are done and the end is reached.
async fn follow(store: Arc<dyn Store>, over: Arc<AtomicBool>) -> Vec<JournalRow> {
    let (mut seen, mut cursor): (Vec<JournalRow>, i64) = (Vec::new(), 0);
    loop {
        let was_over = over.load(Ordering::SeqCst);
        let page = store.journal(cursor, 5).await.unwrap();
        if page.is_empty() && was_over && cursor >= store.journal_end().await.unwrap() {
            return seen;
        }
        assert!(page.iter().all(|row| row.seq > cursor), "a page begins after its cursor");
        cursor = page.last().map_or(cursor, |row| row.seq);
        seen.extend(page);
        tokio::task::yield_now().await;
    }
}

/// Who owns a job is told with each of its events.
pub async fn every_entry_names_the_owner_of_its_job(fixture: &dyn Fixture) {
    let store = fixture.store();
    let jobs = (1..=3).map(|n| job_with(n, "q", |head| head.client = super::make::client(n.into())));
    accepted(ask(&store, START, super::make::submit_all(jobs.collect())).await);
    let entries: Vec<JournalEntry> =
        all_rows(&store, 0).await.into_iter().flat_map(|row| row.entries).collect();
    for entry in &entries {
        let (job, _) = entry.job_event().expect("about a job");
        let job = store.job(job).await.unwrap().expect("it exists");
        assert_eq!(entry.client, job.head.client);
    }
    assert_eq!(entries.len(), 6);
}

/// From there on nothing of the moment or later is missed, whatever order the clocks of the writers gave.
pub async fn a_place_before_a_moment_misses_nothing_that_came_later(fixture: &dyn Fixture) {
    let store = fixture.store();
    assert_eq!(store.journal_before(START).await.unwrap(), store.journal_end().await.unwrap());
    // The third writer's clock is behind, the fourth's is right again.
    for (n, second) in [10, 20, 5, 30].into_iter().enumerate() {
        accepted(ask(&store, at(second), submit(job(n as u64 + 1, "q"))).await);
    }
    let all = all_rows(&store, 0).await;
    for (second, expected) in [(0, 0), (10, 0), (11, 1), (20, 1), (21, 3), (30, 3)] {
        let place = fixture.second().journal_before(at(second)).await.unwrap();
        assert_eq!(store.journal(place, 9).await.unwrap(), all[expected..], "second {second}");
    }
    let end = store.journal_end().await.unwrap();
    assert_eq!(store.journal_before(at(31)).await.unwrap(), end);
    // A row counts by its latest event, though another job's may stand last in it: here the first job's clock ran ahead.
    let ahead = the_one(ask(&store, at(100), take(&["q"], 1)).await);
    let batch = vec![progress(&ahead, 50), submit(job(9, "q"))];
    run(&store, at(40), batch).await;
    let newest = store.journal(store.journal_end().await.unwrap() - 1, 9).await.unwrap();
    let told = newest[0].entries.iter().map(JournalEntry::at).max().expect("an event");
    assert!(told > newest[0].entries.last().expect("an event").at());
    let place = store.journal_before(told).await.unwrap();
    assert_eq!(store.journal(place, 9).await.unwrap().last(), newest.last());
    assert!(place < newest[0].seq);
}
