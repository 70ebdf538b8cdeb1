//! What workers say, right and wrong.

use super::*;

const ID: &str = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f";

fn id() -> JobId {
    ID.parse().unwrap()
}

fn kind<T>(read: Result<T, Box<RefusedRequest>>) -> Option<Kind> {
    read.err().map(|refused| refused.kind)
}

#[test]
fn a_fetch_names_its_queues_in_order() {
    let body =
        br#"{"queues":["b","a","b"],"count":5,"worker_id":"w","visibility_timeout_ms":1500,"wait_ms":30000}"#;
    let fetch = read_fetch(body).unwrap();
    assert_eq!(fetch.queues.iter().map(Name::as_str).collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!((fetch.count, fetch.lease), (5, Some(Duration::from_millis(1500))));
    assert_eq!(fetch.wait, Duration::from_secs(30));
    let plain = read_fetch(br#"{"queues":["default"]}"#).unwrap();
    assert_eq!((plain.count, plain.worker, plain.wait), (1, None, Duration::ZERO));
}

#[test]
fn a_fetch_out_of_bounds_is_refused() {
    let hundred = format!(r#"{{"queues":{:?}}}"#, (0..100).map(|n| format!("q{n}")).collect::<Vec<_>>());
    let bad = [
        "{}",
        r#"{"queues":[]}"#,
        r#"{"queues":"a"}"#,
        r#"{"queues":[1]}"#,
        hundred.as_str(),
        r#"{"queues":["a"],"count":0}"#,
        r#"{"queues":["a"],"count":-1}"#,
        r#"{"queues":["a"],"count":1000000}"#,
        r#"{"queues":["a"],"wait_ms":30001}"#,
        r#"{"queues":["a"],"wait_ms":-1}"#,
        r#"{"queues":["a"],"worker_id":""}"#,
        r#"{"queues":["a"],"visibility_timeout_ms":0}"#,
        r#"{"queues":["a"],"client_id":"me"}"#,
        "",
        "[]",
    ];
    for body in bad {
        assert_eq!(kind(read_fetch(body.as_bytes())), Some(Kind::MalformedRequest), "{body:.60}");
    }
    assert_eq!(kind(read_fetch(br#"{"queues":["Bad!"]}"#)), Some(Kind::InvalidQueue));
}

#[test]
fn a_token_proves_one_job_only() {
    let token = lease_token(id(), 7);
    assert_eq!(fence_of(&token, id()), Some(7));
    assert_eq!(fence_of(&token, JobId::from_u128(1)), None);
    for bad in ["", "7", "x.7", "8e4f5a6b7c8d9e0f.", "8e4f5a6b7c8d9e0f.-1"] {
        assert_eq!(fence_of(bad, id()), None, "{bad}");
    }
    let other = lease_proof(Some(JobId::from_u128(1)), Some(&token), Name::new("w"));
    assert_eq!(other, LeaseProof::Token(NO_FENCE), "a token of another job holds nothing");
}

#[test]
fn an_ack_takes_its_job_from_the_body_or_the_path() {
    let ack =
        read_ack(format!(r#"{{"job_id":"{ID}","result":{{"a": 1.0}},"worker_id":"w"}}"#).as_bytes(), None)
            .unwrap();
    assert_eq!(
        ack.claimed,
        HeldJobRef { job: Some(id()), proof: LeaseProof::Worker(Name::new("w").unwrap()) }
    );
    assert_eq!(ack.result.unwrap().get(), r#"{"a": 1.0}"#);
    assert_eq!(read_ack(b"", Some(ID)).unwrap().claimed.job, Some(id()));
    assert_eq!(read_ack(br#"{"job_id":"nobody"}"#, None).unwrap().claimed.job, None, "an id of nothing");
    for bad in ["", "{}", r#"{"job_id":7}"#, "[1]"] {
        assert_eq!(kind(read_ack(bad.as_bytes(), None)), Some(Kind::MalformedRequest), "{bad}");
    }
}

#[test]
fn a_nack_says_what_went_wrong() {
    let body = format!(
        r#"{{"job_id":"{ID}","error":{{"code":"handler_error","message":"m","details":{{"error_class":"Auth.X"}},"backtrace":["a"]}}}}"#
    );
    let Nack::Fail(error) = read_nack(body.as_bytes(), None).unwrap().answer else { panic!("no failure") };
    assert_eq!(
        (error.kind, error.code.as_str(), error.retryable),
        (Kind::HandlerError, "handler_error", Some(true))
    );
    assert_eq!(error.class.as_deref(), Some("Auth.X"));
    assert_eq!(error.details, br#"{"details":{"error_class":"Auth.X"},"backtrace":["a"]}"#);
}

#[test]
fn a_nack_may_put_the_retry_off() {
    let delay = |member: &str| {
        let body = format!(r#"{{"job_id":"{ID}","error":{{"message":"m"}}{member}}}"#);
        match read_nack(body.as_bytes(), None).unwrap().answer {
            Nack::Fail(error) => error.delay,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(delay(""), None);
    assert_eq!(delay(r#","delay_ms":2000"#), Some(Duration::from_secs(2)));
    assert!(read_nack(br#"{"job_id":"x","error":{},"delay_ms":"2s"}"#, None).is_err());
}

#[test]
fn handlers_have_four_words_that_are_no_errors() {
    let verdict = |code: &str| {
        let body = format!(r#"{{"job_id":"{ID}","error":{{"code":"{code}","message":"m"}}}}"#);
        match read_nack(body.as_bytes(), None).unwrap().answer {
            Nack::Fail(error) => error.verdict,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(verdict("RETRY"), Some(RetryVerdict::Retry));
    assert_eq!(verdict("DISCARD"), Some(RetryVerdict::Discard));
    assert_eq!(verdict("FAIL"), Some(RetryVerdict::Discard));
    assert_eq!(verdict("DEAD_LETTER"), Some(RetryVerdict::DeadLetter));
    assert_eq!(verdict("retry"), None);
    let ack = read_nack(br#"{"job_id":"x","error":{"code":"ACK"}}"#, None).unwrap();
    assert!(matches!(ack.answer, Nack::Succeed));
    let requeue = read_nack(br#"{"job_id":"x","requeue":true}"#, None).unwrap();
    assert!(matches!(requeue.answer, Nack::Requeue { delay, until_signal: None } if delay.is_zero()));
}

#[test]
fn a_nack_without_an_error_is_refused() {
    let bad = [
        "",
        "{}",
        r#"{"job_id":"x"}"#,
        r#"{"job_id":"x","error":"boom"}"#,
        r#"{"job_id":"x","error":{"code":5}}"#,
        r#"{"job_id":"x","error":{"retryable":"no"}}"#,
        r#"{"job_id":"x","requeue":"yes","error":{}}"#,
        r#"{"error":{"code":"a"}}"#,
    ];
    for body in bad {
        assert_eq!(kind(read_nack(body.as_bytes(), None)), Some(Kind::MalformedRequest), "{body}");
    }
}

#[test]
fn a_heartbeat_is_read_in_both_dialects() {
    let token = lease_token(id(), 3);
    let body =
        format!(r#"{{"worker_id":"w","active_jobs":["{ID}","junk"],"lease_tokens":{{"{ID}":"{token}"}}}}"#);
    let one = read_heartbeat(body.as_bytes()).unwrap();
    assert_eq!(one.jobs, [(id(), LeaseProof::Token(3))]);
    let body = format!(
        r#"{{"worker_id":"w","active_jobs":2,"active_job_ids":["{ID}"],"state":"drain","hostname":"h"}}"#
    );
    let two = read_heartbeat(body.as_bytes()).unwrap();
    assert_eq!((two.active, two.state), (Some(2), WorkerState::Quiet));
    assert_eq!(two.jobs, [(id(), LeaseProof::Worker(Name::new("w").unwrap()))]);
    assert_eq!(two.facts.hostname.as_deref(), Some("h"));
    let bad = [
        "{}",
        r#"{"worker_id":7}"#,
        r#"{"worker_id":"w","active_jobs":"all"}"#,
        r#"{"worker_id":"w","state":"dancing"}"#,
        r#"{"worker_id":"w","lease_tokens":[]}"#,
    ];
    for body in bad {
        assert_eq!(kind(read_heartbeat(body.as_bytes())), Some(Kind::MalformedRequest), "{body}");
    }
    let many = format!(
        r#"{{"worker_id":"w","active_jobs":{:?}}}"#,
        (0..2000).map(|n| n.to_string()).collect::<Vec<_>>()
    );
    assert!(read_heartbeat(many.as_bytes()).is_err());
}

#[test]
fn progress_is_a_share_or_a_percentage_and_clamped_to_its_bounds() {
    let percent = |body: &str| read_progress(body.as_bytes(), Some(ID)).unwrap().percent;
    for (body, expected) in [
        (r#"{"progress":0.5}"#, 50),
        (r#"{"progress":1}"#, 100),
        (r#"{"progress":0}"#, 0),
        (r#"{"percentage":33.4}"#, 33),
        (r#"{"percentage":100}"#, 100),
    ] {
        assert_eq!(percent(body), expected, "{body}");
    }
    // What is out of range is the nearest that is not.
    for (body, expected) in [
        (r#"{"progress":1.5}"#, 100),
        (r#"{"progress":-1}"#, 0),
        (r#"{"percentage":150}"#, 100),
        (r#"{"percentage":1e300}"#, 100),
    ] {
        assert_eq!(percent(body), expected, "{body}");
    }
    for body in ["{}", r#"{"progress":"half"}"#, r#"{"progress":0.5,"message":7}"#, ""] {
        assert!(read_progress(body.as_bytes(), Some(ID)).is_err(), "{body}");
    }
}

#[test]
fn a_failure_is_taken_whatever_its_words_are_and_a_result_only_if_it_can_be_read() {
    let nack = format!(
        r#"{{"job_id":"{ID}","error":{{"code":"boom","message":"caf\ud83d","details":{{"error_class":"E\ude00","n":1e400}}}}}}"#
    );
    let Nack::Fail(error) = read_nack(nack.as_bytes(), None).unwrap().answer else { panic!("{nack}") };
    assert_eq!((error.message.as_str(), error.class.as_deref()), ("caf\u{fffd}", Some("E\u{fffd}")));
    assert_eq!(error.details, br#"{"details":{"error_class":"E\ufffd","n":"1e400"}}"#);
    let ack = format!(r#"{{"job_id":"{ID}","result":{{"a":["\ud83d"]}}}}"#);
    let refused = read_ack(ack.as_bytes(), None).unwrap_err();
    assert_eq!((refused.kind, &*refused.violations[0].pointer), (BAD, "#/result/a/0"));
    let beat = br#"{"worker_id":"w","active_jobs":[],"hostname":"\ud83d","x":1e400}"#;
    assert_eq!(read_heartbeat(beat).unwrap().facts.hostname.as_deref(), Some("\u{fffd}"));
}

#[test]
fn a_member_that_was_meant_to_be_another_is_named() {
    let told = |refused: Box<crate::problem::RefusedRequest>| refused.detail.to_string();
    let fetch = told(read_fetch(br#"{"queue":"mail"}"#).unwrap_err());
    assert!(fetch.contains("did you mean `queues`?"), "{fetch}");
    let progress = told(read_progress(br#"{"id":"x","progress":0.5}"#, None).unwrap_err());
    assert!(progress.contains("did you mean `job_id`?"), "{progress}");
    let fetch = read_fetch(br#"{"queues":[]}"#).unwrap_err();
    assert_eq!(fetch.details["constraint"], "minItems");
}
