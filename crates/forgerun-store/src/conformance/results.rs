//! What executions leave: small results in rows, large ones beside them, for as long as they are promised and no longer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forgerun_core::command::{Answer, Blob, Command, Content, Extend, Output, Succeed, Upload};
use forgerun_core::id::BlobId;
use forgerun_core::job::{Job, ResultRetention};
use forgerun_core::state::State;
use forgerun_core::time::Time;

use super::Fixture;
use super::harness::{accepted, ask, commit, done, the_one};
use super::make::{START, at, forget, held, id, job, job_with, secs, submit, submit_all, take};
use super::snapshot::snapshot;
use crate::{Error, Fault, Store, StoredResult, Sweep};

/// More than two chunks of the store that has chunks, and no multiple of anything.
const LARGE: usize = 600_001;

fn blob_id(n: u64) -> BlobId {
    BlobId::v7(START.unix_ms(), u128::from(n))
}

/// Bytes in which no two places look alike.
fn bytes(size: usize) -> Bytes {
    (0..size as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Writes a blob in parts of odd sizes, and finishes it.
async fn write(store: &Arc<dyn Store>, n: u64, size: usize, now: Time) -> Blob {
    let mut sink = store.blobs().begin(blob_id(n), now).await.unwrap();
    let mut rest = bytes(size);
    for part in [0, 1, 300_000, 7].into_iter().cycle() {
        if rest.is_empty() {
            break;
        }
        sink.write(rest.split_to(part.min(rest.len()))).await.unwrap();
    }
    sink.finish().await.unwrap();
    Blob { id: blob_id(n), size: size as u64, digest: [n as u8; 32] }
}

/// Reads from a place to the end, in parts of at most `len`.
async fn read(store: &Arc<dyn Store>, blob: &Blob, from: u64, len: usize) -> Result<Vec<u8>, Error> {
    let source = store.blobs().open(blob.id).await?;
    let mut found = Vec::new();
    while from + (found.len() as u64) < blob.size {
        let part = source.read(from + found.len() as u64, len).await?;
        assert!((1..=len).contains(&part.len()), "at least one byte and at most as many as asked");
        found.extend_from_slice(&part);
    }
    Ok(found)
}

async fn is_there(store: &Arc<dyn Store>, blob: &Blob) -> bool {
    read(store, blob, 0, LARGE).await.is_ok()
}

fn stored(blob: Blob) -> Output {
    let media_type = "application/pdf".into();
    Output { media_type, file_name: Some("report.pdf".into()), content: Content::Stored(blob) }
}

fn succeed(job: &Job, output: Output) -> Command {
    Command::Succeed(Succeed { held: held(job), output: Some(Arc::new(output)) })
}

/// A job in hand whose results are kept for a hundred seconds.
async fn in_hand(store: &Arc<dyn Store>, n: u64) -> Job {
    let keep = ResultRetention { small: secs(100), medium: secs(100), large: secs(100) };
    accepted(ask(store, START, submit(job_with(n, "q", |head| head.result_retention = Some(keep)))).await);
    the_one(ask(store, START, take(&["q"], 1)).await)
}

fn sweep(results_until: Time, loose_before: Time, limit: usize) -> Sweep {
    Sweep { results_until, loose_before, ..Sweep::nothing(limit) }
}

/// Results keep their bytes, their media type and their name, empty ones too.
pub async fn results_come_back_as_they_were_handed_in(fixture: &dyn Fixture) {
    let store = fixture.store();
    let inline = |media_type, bytes: Vec<u8>| Output::inline(media_type, bytes);
    let named = |name: &str| Output { file_name: Some(name.into()), ..inline("text/csv", b"a,b".to_vec()) };
    let outputs = [
        inline("application/octet-stream", (0..=255).collect()),
        inline("text/plain; charset=\"ütf-8\"", vec![]),
        inline("", vec![0]),
        named("Übersicht \"2026\".csv"),
        named(""),
    ];
    let n_jobs = outputs.len() as u64;
    accepted(ask(&store, START, submit_all((1..=n_jobs).map(|n| job(n, "q")).collect())).await);
    for output in outputs {
        let taken = the_one(ask(&store, at(1), take(&["q"], 1)).await);
        let ended = done(ask(&store, at(2), succeed(&taken, output.clone())).await);
        assert_eq!(ended.result.map(|note| note.size), Some(output.content.size()));
        let Output { media_type, file_name, content } = output;
        let size = content.size();
        let expected = StoredResult { media_type, file_name, size, expires_at: None, content: Some(content) };
        assert_eq!(store.result(taken.execution).await.unwrap(), Some(Box::new(expected)));
    }
    snapshot(&store).await;
}

/// Any part of a blob can be read, by every node and after a restart, and nothing beyond its end.
pub async fn a_blob_is_read_in_parts_from_any_place(fixture: &dyn Fixture) {
    let store = fixture.store();
    let blob = write(&store, 1, LARGE, START).await;
    let empty = write(&store, 2, 0, START).await;
    for store in [fixture.store(), fixture.second(), fixture.reopen().await] {
        let all = bytes(LARGE);
        for (from, len) in [(0, LARGE), (0, 65_536), (262_143, 1_000), (262_144, 99_999), (LARGE - 1, 5)] {
            let found = read(&store, &blob, from as u64, len).await.unwrap();
            assert!(found == all[from..], "from {from} in parts of {len}");
        }
        let source = store.blobs().open(blob.id).await.unwrap();
        assert_eq!(source.read(LARGE as u64, 10).await.unwrap_err().fault, Fault::Corrupt);
        assert_eq!(read(&store, &empty, 0, 10).await.unwrap(), b"");
        let none = store.blobs().open(blob_id(9)).await.err().map(|error| error.fault);
        assert_eq!(none, Some(Fault::Corrupt), "there is no such blob");
    }
}

/// A blob that a result names stays, however long ago it was written.
pub async fn a_blob_belongs_to_the_result_that_names_it(fixture: &dyn Fixture) {
    let store = fixture.store();
    let taken = in_hand(&store, 1).await;
    let blob = write(&store, 1, LARGE, START).await;
    done(ask(&store, at(10), succeed(&taken, stored(blob))).await);
    assert_eq!(fixture.second().sweep(sweep(at(50), at(100_000), 9)).await.unwrap().total(), 0);

    let store = fixture.reopen().await;
    let kept = store.result(taken.execution).await.unwrap().expect("it succeeded");
    assert_eq!((kept.size, kept.content), (LARGE as u64, Some(Content::Stored(blob))));
    assert_eq!(
        (kept.media_type.as_str(), kept.file_name.as_deref()),
        ("application/pdf", Some("report.pdf"))
    );
    assert!(read(&store, &blob, 0, LARGE).await.unwrap() == bytes(LARGE));
    snapshot(&store).await;
}

/// A result without its bytes is not written: the batch is rejected whole.
pub async fn a_blob_that_is_not_there_cannot_be_named(fixture: &dyn Fixture) {
    let store = fixture.store();
    let taken = in_hand(&store, 1).await;
    let blob = write(&store, 1, 10, START).await;
    assert_eq!(store.sweep(sweep(START, at(1), 9)).await.unwrap().total(), 1);
    for blob in [blob, Blob { id: blob_id(2), ..blob }] {
        let refused = commit(&store, at(10), vec![succeed(&taken, stored(blob))]).await.unwrap_err();
        assert_eq!(refused.fault, Fault::Rejected, "{refused}");
        assert_eq!(store.job(id(1)).await.unwrap().unwrap().state, State::Running);
        assert_eq!(store.result(taken.execution).await.unwrap(), None);
    }
    snapshot(&store).await;
}

/// Whatever was written and never named goes, finished or not, in bites; what is young stays.
pub async fn what_no_result_names_is_swept_after_a_while(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mut old = Vec::new();
    for n in 1..=3 {
        old.push(write(&store, n, 10, at(n)).await);
    }
    let mut broken_off = store.blobs().begin(blob_id(4), at(4)).await.unwrap();
    broken_off.write(bytes(300_000)).await.unwrap();
    drop(broken_off);
    let young = write(&store, 5, 10, at(50)).await;

    let store = fixture.reopen().await;
    assert_eq!(store.sweep(sweep(START, at(20), 3)).await.unwrap().total(), 3);
    assert_eq!(fixture.second().sweep(sweep(START, at(20), 3)).await.unwrap().total(), 1);
    assert_eq!(store.sweep(sweep(START, at(20), 3)).await.unwrap().total(), 0);
    for blob in &old {
        assert!(!is_there(&store, blob).await);
    }
    let half = store.blobs().open(blob_id(4)).await.err().map(|error| error.fault);
    assert_eq!(half, Some(Fault::Corrupt));
    assert!(is_there(&store, &young).await);
}

/// However many a store deletes at a time: the sweeper goes on only after a full sweep.
pub async fn a_sweep_frees_as_many_blobs_as_it_may(fixture: &dyn Fixture) {
    let store = fixture.store();
    for n in 0..50 {
        write(&store, n, 10, at(1)).await;
    }
    let swept = store.sweep(sweep(START, at(2), 45)).await.unwrap();
    assert_eq!((swept.blobs, swept.total()), (45, 45), "a full one, so that another follows");
    assert_eq!(store.sweep(sweep(START, at(2), 45)).await.unwrap().blobs, 5);
}

/// A worker may take longer to write than loose blobs are kept, as long as it says so.
pub async fn a_blob_that_is_still_written_is_not_swept(fixture: &dyn Fixture) {
    let store = fixture.store();
    let taken = in_hand(&store, 1).await;
    let blob = write(&store, 1, 10, START).await;
    store.blobs().touch(blob.id, at(5)).await.unwrap();
    assert_eq!(store.sweep(sweep(START, at(5), 9)).await.unwrap().total(), 0);
    done(ask(&store, at(10), succeed(&taken, stored(blob))).await);
    store.blobs().touch(blob.id, at(11)).await.unwrap();
    assert_eq!(store.sweep(sweep(START, at(99), 9)).await.unwrap().total(), 0, "it has been named since");
    assert!(is_there(&store, &blob).await);
}

/// A result that was sent before its attempt ends is there for as long as the lease is, however often that is extended.
pub async fn an_upload_is_kept_while_its_lease_lasts(fixture: &dyn Fixture) {
    let store = fixture.store();
    let (taken, given_up) = (in_hand(&store, 1).await, in_hand(&store, 2).await);
    let blobs = [write(&store, 1, 10, START).await, write(&store, 2, 10, START).await];
    for (job, blob) in [(&taken, blobs[0]), (&given_up, blobs[1])] {
        let output = Arc::new(stored(blob));
        done(ask(&store, at(1), Command::Upload(Upload { held: held(job), output })).await);
    }
    let extend = Extend { held: held(&taken), lease: Some(secs(1000)), note: None };
    done(ask(&store, at(5), Command::Extend(extend)).await);
    assert_eq!(fixture.second().sweep(sweep(START, at(900), 9)).await.unwrap().blobs, 1);
    assert!(!is_there(&store, &blobs[1]).await, "nobody holds it any more");
    done(ask(&store, at(901), Command::Succeed(Succeed { held: held(&taken), output: None })).await);
    let kept = store.result(taken.execution).await.unwrap().expect("it succeeded");
    assert_eq!(kept.content, Some(Content::Stored(blobs[0])));
    snapshot(&store).await;
}

/// What is known of a result outlives its content; a blob goes a while later, for those who are at it.
pub async fn the_content_of_an_expired_result_goes_and_the_rest_stays(fixture: &dyn Fixture) {
    let store = fixture.store();
    let (small, large) = (in_hand(&store, 1).await, in_hand(&store, 2).await);
    let blob = write(&store, 1, LARGE, START).await;
    let inline = Output { content: Content::Inline(vec![7; 10]), ..stored(blob) };
    done(ask(&store, at(10), succeed(&small, inline)).await);
    done(ask(&store, at(10), succeed(&large, stored(blob))).await);
    let until = store.result(large.execution).await.unwrap().and_then(|kept| kept.expires_at);
    let until = until.expect("it is kept for a hundred seconds");
    assert!((at(110)..at(111)).contains(&until));

    let just_before = Time::from_micros(until.as_micros() - 1_000);
    assert_eq!(store.sweep(sweep(just_before, START, 9)).await.unwrap().total(), 0);
    assert_eq!(store.sweep(sweep(at(112), START, 9)).await.unwrap().total(), 2);
    assert_eq!(store.sweep(sweep(at(112), START, 9)).await.unwrap().total(), 0);
    let store = fixture.reopen().await;
    for (execution, size) in [(small.execution, 10), (large.execution, LARGE as u64)] {
        let kept = store.result(execution).await.unwrap().expect("what is known of it stays");
        assert_eq!((kept.size, kept.media_type.as_str()), (size, "application/pdf"));
        assert!(kept.content.is_none() && kept.expires_at.is_some());
    }
    assert!(is_there(&store, &blob).await, "a reader may be at it");
    assert_eq!(store.sweep(sweep(START, at(112), 9)).await.unwrap().total(), 0);
    assert_eq!(store.sweep(sweep(START, at(113), 9)).await.unwrap().total(), 1);
    assert!(!is_there(&store, &blob).await);
    snapshot(&store).await;
}

/// Many results that expire together do not go in one transaction.
pub async fn expired_results_go_in_bites(fixture: &dyn Fixture) {
    let store = fixture.store();
    for n in 1..=5 {
        let taken = in_hand(&store, n).await;
        let blob = write(&store, n, 10, START).await;
        done(ask(&store, at(1), succeed(&taken, stored(blob))).await);
    }
    for (limit, swept) in [(0, 0), (2, 2), (2, 2), (2, 1), (2, 0)] {
        assert_eq!(store.sweep(sweep(at(200), START, limit)).await.unwrap().total(), swept);
    }
    assert_eq!(
        fixture.second().sweep(sweep(START, at(300), 9)).await.unwrap().total(),
        5,
        "all are loose now"
    );
}

/// With its job a result is gone altogether, and its blob soon after.
pub async fn a_forgotten_job_lets_its_blob_go(fixture: &dyn Fixture) {
    let store = fixture.store();
    let taken = in_hand(&store, 1).await;
    let blob = write(&store, 1, LARGE, START).await;
    done(ask(&store, at(1), succeed(&taken, stored(blob))).await);
    assert!(matches!(ask(&store, at(50), forget(1)).await, Answer::Settled));
    assert_eq!(store.result(taken.execution).await.unwrap(), None);
    assert_eq!(store.sweep(sweep(START, at(50), 9)).await.unwrap().total(), 0);
    let store = fixture.reopen().await;
    assert_eq!(store.sweep(sweep(START, at(50) + Duration::from_secs(1), 9)).await.unwrap().total(), 1);
    assert!(!is_there(&store, &blob).await);
}
