//! Texts and moments that a database might bend.

use std::sync::Arc;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{Cancel, Command, Fail, NewJob, WorkError};
use forgerun_core::job::Head;
use forgerun_core::limits;
use forgerun_core::retry::RetryPolicy;
use forgerun_core::time::Time;

use super::Fixture;
use super::harness::{accepted, ask, claimed, commit, done, run, the_one};
use super::make::{
    START, at, cancel, client, held, id, job, job_with, name, owned, pause, submit, submit_once,
    succeed_with, take,
};
use super::snapshot::snapshot;
use crate::{Fault, Filter};

/// Texts that end quotes, look like placeholders, or are hard to spell.
const ODD: [&str; 14] = [
    "it's \"quoted\" `three` ways",
    "'; DROP TABLE jobs; --",
    "$1 ?1 :name @name %s {} \\",
    "back\\slash \\n \\x00 \\u0000",
    "Grüße, Ωμέγα, Привет, 你好, שלום",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🦀",
    "e\u{301} and é are not the same",
    "\u{feff}byte order mark",
    "right\u{202e}to left",
    "\u{fffd}\u{ffff}\u{10ffff}",
    "tab\tline\nfeed\r\nreturn\u{7f}",
    "   spaces around   ",
    "NULL",
    "",
];

fn odd_job(n: u64, text: &str) -> NewJob {
    job_with(n, "q", |head| {
        head.job_type = text.into();
        head.callback = Some(text.into());
        head.correlation_id = Some(text.into());
        head.traceparent = Some(text.into());
        head.tracestate = Some(text.into());
        head.language = Some(text.into());
        head.tags = vec![text.into(), text.into()];
        head.retry = RetryPolicy { non_retryable: vec![text.into()], ..RetryPolicy::manual() };
    })
}

/// Every text of a job, whatever is in it, comes back to the byte, and can be looked for.
pub async fn texts_come_back_as_they_went_in(fixture: &dyn Fixture) {
    let store = fixture.store();
    for (n, text) in (1..).zip(ODD) {
        let new = odd_job(n, text);
        accepted(ask(&store, START, submit_once(new.clone(), &format!("key {text}"), 1)).await);
        let found = store.job(id(n)).await.unwrap().expect("it was accepted");
        assert_eq!(found.head.tags, new.head.tags, "{text:?}");
        assert_eq!(found.head.job_type, text);
        let filter = Filter { job_type: Some(text.into()), limit: 9, ..Filter::default() };
        assert_eq!(store.jobs(filter).await.unwrap(), [Arc::unwrap_or_clone(found)], "{text:?}");
    }
    snapshot(&store).await;
}

/// What workers and clients say comes back too.
pub async fn what_workers_say_comes_back_as_they_said_it(fixture: &dyn Fixture) {
    let store = fixture.store();
    for (n, text) in (1..).zip(ODD) {
        accepted(ask(&store, START, submit_all_two(n)).await);
        let taken = claimed(ask(&store, at(1), take(&["q"], 2)).await);
        let mut error = WorkError::new(Kind::HandlerTransient, text);
        (error.code, error.class) = (text.into(), Some(text.into()));
        error.details = text.as_bytes().to_vec();
        let stop = Cancel {
            owned: owned(2 * n + 1),
            execution: None,
            by: text.into(),
            reason: text.into(),
            compensate: true,
        };
        let commands = vec![Command::Fail(Fail { held: held(&taken[0]), error }), Command::Cancel(stop)];
        for ended in run(&store, at(2), commands).await.into_iter().map(done) {
            assert_eq!(store.job(ended.id).await.unwrap(), Some(Arc::new(ended)), "{text:?}");
        }
    }
    snapshot(&store).await;
}

fn submit_all_two(n: u64) -> Command {
    super::make::submit_all(vec![job(2 * n, "q"), job(2 * n + 1, "q")])
}

/// Names of queues and keys: to the byte, never folded, sorted by bytes.
pub async fn names_that_look_alike_stay_apart(fixture: &dyn Fixture) {
    let store = fixture.store();
    let longest = "ü".repeat(limits::NAME_BYTES_MAX / 2);
    let names = ["a", "A", "ä", "a\u{308}", "a ", " a", "a'b", "a%", "a_", "b", "a-b", "ab", "🦀", &longest];
    for (n, queue) in (1..).zip(names) {
        accepted(ask(&store, START, submit(job(n, queue))).await);
        ask(&store, START, pause(queue, n % 2 == 0)).await;
    }
    snapshot(&store).await;
    for (n, queue) in (1..).zip(names) {
        let filter = Filter { queue: Some(name(queue)), limit: 9, ..Filter::default() };
        let found = store.jobs(filter).await.unwrap();
        assert_eq!(found.iter().map(|job| job.id).collect::<Vec<_>>(), [id(n)], "{queue:?}");
        let taken = claimed(ask(&store, at(1), take(&[queue], 9)).await);
        assert_eq!(taken.len(), n as usize % 2, "{queue:?} is paused, or its one job is taken");
    }
    snapshot(&store).await;
}

/// Labels of four kilobytes, many of them.
pub async fn long_texts_come_back(fixture: &dyn Fixture) {
    let store = fixture.store();
    let long = "ë🦀'".repeat(4096 / 7);
    let new = job_with(1, "q", |head| {
        head.tags = vec![long.clone(); 20];
        head.job_type = "t".repeat(limits::NAME_BYTES_MAX);
        head.callback = Some(format!("https://example.com/{}", "x".repeat(4000)));
    });
    accepted(ask(&store, START, submit_once(new.clone(), &"k".repeat(255), 1)).await);
    let found = store.job(id(1)).await.unwrap().expect("it was accepted");
    assert_eq!(found.head.tags, new.head.tags);
    assert_eq!(found.head.callback, new.head.callback);
    snapshot(&store).await;
}

/// What some databases do not take (a zero byte in a text, a key too long for an index): kept as it is, or the whole
/// batch rejected.
pub async fn a_text_that_cannot_be_kept_is_rejected_whole(fixture: &dyn Fixture) {
    let store = fixture.store();
    let zero = |n| odd_job(n, "a\0b");
    // Not to be compressed: each character follows from the ones before, but not by repetition.
    let long: String =
        (0..20_000_u32).map(|n| char::from(b'!' + (n.wrapping_mul(n) >> 7) as u8 % 90)).collect();
    let commands = [
        submit(zero(1)),
        submit_once(job(2, "q"), "a\0b", 1),
        submit_once(job(4, "q"), &long, 1),
        submit(odd_job(5, &long)),
    ];
    for command in commands {
        let before = snapshot(&store).await;
        match commit(&store, START, vec![command, submit(job(9, "q"))]).await {
            Ok(changes) => {
                for (job, _) in changes.inserted {
                    assert_eq!(store.job(job.id).await.unwrap(), Some(Arc::new(job)));
                }
                run(&store, at(1), vec![cancel(9), super::make::forget(9)]).await;
            }
            Err(error) => {
                assert_eq!(error.fault, Fault::Rejected, "{error}");
                assert_eq!(snapshot(&store).await, before);
            }
        }
    }
    accepted(ask(&store, at(2), submit(job(3, "p"))).await);
    let taken = the_one(ask(&store, at(3), take(&["p"], 1)).await);
    if let Err(error) = commit(&store, at(4), vec![succeed_with(&taken, "a\0b", b"")]).await {
        assert_eq!(error.fault, Fault::Rejected, "{error}");
        done(ask(&store, at(5), succeed_with(&taken, "text/plain", b"")).await);
    }
    snapshot(&store).await;
}

/// Moments and spans as far apart as there are.
pub async fn moments_at_the_ends_of_time_come_back(fixture: &dyn Fixture) {
    let store = fixture.store();
    let moments =
        [Time::ZERO, Time::from_micros(1), Time::from_micros(-1), Time::MAX, Time::from_micros(i64::MIN + 1)];
    for (n, moment) in (1..).zip(moments) {
        let head = Head {
            execution_at: Some(Time::MAX),
            expires_at: Some(Time::MAX),
            ..Head::new(client(1), name("q"), moment)
        };
        let new = NewJob { head: Arc::new(head), ..job(n, "q") };
        accepted(ask(&store, START, submit(new.clone())).await);
        let found = store.job(id(n)).await.unwrap().expect("it was accepted");
        assert_eq!(found.head, new.head);
    }
    assert_eq!(store.next_due().await.unwrap(), Some(Time::MAX));
    snapshot(&store).await;
}

/// A clock that stands at the epoch, or before it, is odd but no reason to lose anything.
pub async fn a_clock_at_the_epoch_loses_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    for (n, now) in (1..).zip([Time::ZERO, Time::from_micros(-5_000_000), Time::from_micros(1)]) {
        let born = accepted(ask(&store, now, submit(job(n, "q"))).await).remove(0);
        assert_eq!(store.job(id(n)).await.unwrap(), Some(Arc::new(born)));
        let taken = the_one(ask(&store, now, take(&["q"], 1)).await);
        let ended = done(ask(&store, now, succeed_with(&taken, "text/plain", b"")).await);
        assert_eq!(store.job(id(n)).await.unwrap(), Some(Arc::new(ended)));
        let held = job_with(10 + n, "q", |head| head.hold = true);
        accepted(ask(&store, now, submit(held)).await);
        done(ask(&store, now, cancel(10 + n)).await);
        snapshot(&store).await;
    }
}
