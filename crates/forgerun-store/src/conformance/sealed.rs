//! Encryption around a store: what a lost key costs, and the change to another key. Each case gets a store that is empty and not
//! encrypted.

use std::sync::Arc;

use bytes::Bytes;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Blob, Command, Content, Fail, Output, Refusal, Succeed, WorkError};
use forgerun_core::id::BlobId;
use forgerun_core::item::{ItemEnd, ItemError, Items};
use forgerun_core::job::Conflict;
use forgerun_core::log::{LogBatch, LogLine};
use forgerun_core::state::State;

use super::Fixture;
use super::harness::{accepted, ask, done, existing, refused, the_one};
use super::make::{
    START, at, cancel, client, conclude, execution, held, id, job, job_with, name, retry, submit,
    submit_once, take, unique,
};
use super::snapshot::{Snapshot, snapshot};
use crate::sealed::{KEY_BYTES, KeyRing, Renewed, SealedStore};
use crate::{Error, Fault, LogQuery, Store};

const LARGE: usize = 600_001;

fn ring(ids: &[&str]) -> KeyRing {
    let key = |id: &&str| (String::from(*id), [id.as_bytes()[0]; KEY_BYTES]);
    KeyRing::new(ids.iter().map(key).collect())
}

async fn sealed(store: &Arc<dyn Store>, ids: &[&str]) -> Arc<dyn Store> {
    SealedStore::around(store.clone(), ring(ids)).await.unwrap()
}

async fn renew(store: &Arc<dyn Store>, ids: &[&str]) -> Renewed {
    SealedStore::renew(store.clone(), ring(ids), &|| at(100)).await.unwrap()
}

/// Jobs with contents of every kind: 1 succeeded, 2 failed, 3 waits, 4 left a large result, 5 was a batch.
async fn fill(store: &Arc<dyn Store>) {
    accepted(ask(store, START, submit(job(1, "one"))).await);
    let taken = the_one(ask(store, at(1), take(&["one"], 1)).await);
    let lines = [LogLine { at: at(1), level: "info".into(), stream: "log".into(), text: "a line".into() }];
    store.append_logs(vec![LogBatch::new(id(1), client(1), 1, &lines)], 1 << 20).await.unwrap();
    done(ask(store, at(2), super::make::succeed_with(&taken, "text/plain", b"a result")).await);
    accepted(ask(store, START, submit(job(2, "two"))).await);
    let taken = the_one(ask(store, at(1), take(&["two"], 1)).await);
    let error = WorkError::new(Kind::HandlerError, "a failure");
    done(ask(store, at(2), Command::Fail(Fail { held: held(&taken), error })).await);
    let with_keys = job_with(3, "three", |head| head.unique = Some(unique(9, Conflict::Reject)));
    accepted(ask(store, START, submit_once(with_keys, "key", 1)).await);
    accepted(ask(store, START, submit(job(4, "four"))).await);
    let taken = the_one(ask(store, at(1), take(&["four"], 1)).await);
    let content = Content::Stored(write_blob(store).await);
    let output = Output { media_type: "application/pdf".into(), file_name: None, content };
    done(
        ask(store, at(2), Command::Succeed(Succeed { held: held(&taken), output: Some(Arc::new(output)) }))
            .await,
    );
    let batch = job_with(5, "five", |head| head.items = Some(Items { n: 1, simulated: false }));
    accepted(ask(store, START, submit(batch)).await);
    let taken = the_one(ask(store, at(1), take(&["five"], 1)).await);
    let error = ItemError { kind: Kind::HandlerError, message: "of an item".into(), retryable: false };
    done(ask(store, at(2), conclude(&taken, &[ItemEnd { id: "0".into(), error: Some(error) }])).await);
}

async fn write_blob(store: &Arc<dyn Store>) -> Blob {
    let blob = Blob { id: BlobId::v7(START.unix_ms(), 1), size: LARGE as u64, digest: [1; 32] };
    let mut sink = store.blobs().begin(blob.id, START).await.unwrap();
    sink.write(large()).await.unwrap();
    sink.finish().await.unwrap();
    blob
}

fn large() -> Bytes {
    (0..LARGE as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// The large result from a byte on.
async fn read_blob(store: &Arc<dyn Store>, from: usize) -> Result<Vec<u8>, Error> {
    let result = store.result(id(4).first_execution()).await?.expect("job 4 left a result");
    let Some(Content::Stored(blob)) = result.content else { panic!("it is large") };
    let source = store.blobs().open(blob.id).await?;
    let mut found = Vec::new();
    while from + found.len() < LARGE {
        found.extend_from_slice(&source.read((from + found.len()) as u64, 100_000).await?);
    }
    Ok(found)
}

/// Everything that can be read. Blobs have other ids after a change of key, and their bytes are read.
async fn all(store: &Arc<dyn Store>) -> Snapshot {
    for from in [0, 1, 262_143, 262_144, LARGE - 1] {
        assert!(read_blob(store, from).await.unwrap() == large()[from..], "from byte {from}");
    }
    let mut found = snapshot(store).await;
    found.results.values_mut().filter(|result| result.size > 1000).for_each(|result| result.content = None);
    found.records.iter_mut().for_each(|record| record.version = 0);
    found
}

/// What was stored in the clear, and what older keys encrypted, has the first key afterwards, and means the same.
pub async fn everything_gets_another_key(fixture: &dyn Fixture) {
    let store = fixture.store();
    fill(&store).await;
    let clear = all(&store).await;
    for (ids, only) in [(&["a"][..], &["a"][..]), (&["b", "a"], &["b"])] {
        let renewed = renew(&store, ids).await;
        assert_eq!((renewed.n_jobs, renewed.n_lost, renewed.n_busy), (5, 0, 0), "{ids:?}");
        assert!(renewed.n_contents > 10, "{renewed:?}");
        let again = renew(&store, only).await;
        assert_eq!(
            (again.n_contents, again.n_lost),
            (0, 0),
            "nothing is left to do, and older keys are not needed"
        );
        assert_eq!(all(&sealed(&store, only).await).await, clear);
    }
    let input = store.inputs(vec![id(1)]).await.unwrap().pop().unwrap().1;
    assert_ne!(input.payload, b"payload 1");
}

/// Requests that were made before encryption was switched on, or before a change of key, are known again.
pub async fn keys_of_requests_outlive_the_keys_of_contents(fixture: &dyn Fixture) {
    let store = fixture.store();
    fill(&store).await;
    let again = |n| submit_once(job_with(n, "three", |head| head.unique = None), "key", 1);
    for ids in [&["a"][..], &["b", "a"]] {
        let store = sealed(&store, ids).await;
        assert_eq!(existing(ask(&store, at(3), again(7)).await)[0].id, id(3));
        let other = submit_once(job(8, "three"), "key", 2);
        assert_eq!(refused(ask(&store, at(3), other).await), Refusal::IdempotencyConflict(id(3)));
        let rival = job_with(9, "three", |head| head.unique = Some(unique(9, Conflict::Reject)));
        assert_eq!(refused(ask(&store, at(3), submit(rival)).await), held_by(3));
    }
    let store = sealed(&store, &["b", "a"]).await;
    let holder = job_with(10, "ten", |head| head.unique = Some(unique(10, Conflict::Reject)));
    accepted(ask(&store, at(4), submit_once(holder, "other key", 3)).await);
    let rival = job_with(11, "ten", |head| head.unique = Some(unique(10, Conflict::Reject)));
    assert_eq!(refused(ask(&store, at(4), submit(rival.clone())).await), held_by(10));
    done(ask(&store, at(5), cancel(10)).await);
    accepted(ask(&store, at(6), submit(rival)).await);
    ask(&store, at(7), super::make::forget(10)).await;
    let anew = submit_once(job(12, "ten"), "other key", 4);
    assert_eq!(accepted(ask(&store, at(8), anew).await)[0].id, id(12), "the key went with its job");
}

fn held_by(n: u64) -> Refusal {
    Refusal::Duplicate { existing: id(n), state: State::Queued, index: 0 }
}

fn is_sealed<T: std::fmt::Debug>(read: Result<T, Error>) {
    assert_eq!(read.expect_err("its key is lost").fault, Fault::Sealed);
}

/// Contents alone are lost, and only as long as the key is.
pub async fn a_lost_key_costs_the_contents(fixture: &dyn Fixture) {
    let store = fixture.store();
    let clear = sealed(&store, &["a"]).await;
    fill(&clear).await;
    for ids in [&["b"][..], &[]] {
        let store = sealed(&store, ids).await;
        is_sealed(store.inputs(vec![id(3)]).await);
        is_sealed(store.outcome(id(1).first_execution()).await);
        is_sealed(store.result(id(1).first_execution()).await);
        is_sealed(read_blob(&store, 0).await);
        is_sealed(store.logs(LogQuery { job: id(1), attempt: None, after: 0, limit: 1 }).await);
        let failed = store.job(id(2)).await.unwrap().unwrap();
        assert_eq!(failed.state, State::Failed);
        assert!(failed.errors[0].message.contains("key \"a\""), "{:?}", failed.errors);
        let outcomes = store.outcomes(vec![id(1).first_execution()]).await.unwrap();
        assert_eq!(outcomes, [], "a list goes on without it");
        assert!(store.journal(0, 100).await.unwrap().len() > 5);
    }
    let lost = sealed(&store, &["b"]).await;
    accepted(ask(&lost, at(10), submit(job(6, "six"))).await);
    assert_eq!(lost.inputs(vec![id(6)]).await.unwrap()[0].1.payload, b"payload 6");
    // A row whose texts cannot be read is written: they stay as they are.
    accepted_retry(&lost).await;
    let waiting = the_one(ask(&lost, at(11), take(&["three"], 1)).await);
    let error = WorkError { retryable: Some(false), ..WorkError::new(Kind::ContentUnreadable, "unreadable") };
    done(ask(&lost, at(12), Command::Fail(Fail { held: held(&waiting), error })).await);
    let found = sealed(&store, &["b", "a"]).await;
    let failed = found.job(id(2)).await.unwrap().unwrap();
    assert_eq!(failed.errors[0].message, "a failure");
    assert_eq!(found.inputs(vec![id(3)]).await.unwrap()[0].1.payload, b"payload 3");
    let renewed = renew(&store, &["b"]).await;
    assert!(renewed.n_lost > 5, "{renewed:?}");
    assert_eq!(renew(&store, &["b", "a"]).await.n_lost, 0);
}

async fn accepted_retry(store: &Arc<dyn Store>) {
    let failed = store.job(id(2)).await.unwrap().unwrap();
    assert_eq!(failed.head.queue, name("two"));
    done(ask(store, at(10), retry(2, execution(2))).await);
}
