//! What is written of a job is read again, whatever it has.

use super::*;
use proptest::prelude::*;
use std::vec;

fn full_head() -> Head {
    let client = ClientId::from_u128(42);
    Head {
        dialect: Dialect::Ojs,
        form: JobForm::EmitEvent,
        job_type: "mail.send".into(),
        priority: -7,
        place: Some(JobId::from_u128(77)),
        definition: Some(Definition {
            work_kind: WorkKind::ALL[3],
            duration_ms: 5,
            should_fail: true,
            payload_kb: 9,
        }),
        execution_at: Some(Time::ZERO),
        expires_at: Some(Time::from_millis(9)),
        deadline: Some(Time::from_millis(10)),
        lease: Some(Duration::ZERO),
        timeout: Some(Duration::from_secs(3)),
        timeout_of_server: true,
        retry: RetryPolicy::auto(),
        fair: Fair::new(Name::new("customer").unwrap(), 7),
        limits: vec![
            Limit {
                key: Name::new("k").unwrap(),
                concurrency: Some(0),
                rate: Some(Rate { count: 2, per: Duration::from_secs(1) }),
            },
            Limit { key: Name::new("l").unwrap(), concurrency: Some(7), rate: None },
        ],
        hold: true,
        unique: Some(Unique {
            key: [7; 32],
            facets: Unique::UNFINISHED,
            until: Some(Time::from_millis(1)),
            on_conflict: Conflict::Replace,
        }),
        idempotency: Some(IdempotencyKey { client, operation: "submit".into(), key: "a".into() }),
        callback: Some("http://localhost/".into()),
        correlation_id: Some("c".into()),
        traceparent: Some("tp".into()),
        tracestate: Some("ts".into()),
        language: Some("de".into()),
        tags: vec!["x".into(), "".into()],
        workflow: Some(WorkflowStep { workflow: JobId::from_u128(5), index: 0 }),
        workflow_head: Some(WorkflowHead { form: WorkflowForm::Batch, name: "nightly".into() }),
        wait: Some(Box::new(Wait::Until(Time::from_millis(12)))),
        retention: Some(Duration::from_secs(1)),
        operation: Some("reports/generate".into()),
        result_retention: Some(ResultRetention {
            small: Duration::from_secs(3),
            medium: Duration::from_secs(2),
            large: Duration::ZERO,
        }),
        ..Head::new(client, Name::new("mail").unwrap(), Time::from_millis(7))
    }
}

#[test]
fn a_head_comes_back_as_it_was_stored() {
    let plain = Head::new(ClientId::from_u128(1), Name::new("default").unwrap(), Time::from_millis(1));
    for head in [plain, full_head()] {
        assert_eq!(Head::decode(&head.encode()), Ok(head));
    }
}

#[test]
fn a_job_comes_back_as_it_was_stored() {
    let head = Arc::new(full_head());
    let id = JobId::v7(7, 9);
    let mut job = Job::decode(id, head.clone(), &[]).unwrap();
    job.attempt = 3;
    job.attempt_handed = 2;
    job.fence = 8;
    job.execution = ExecutionId::v7(8, 1);
    job.executions_past = vec![id.first_execution()];
    job.hold = true;
    job.available_at = Some(Time::from_millis(3));
    job.turn = Some(12);
    (job.parked_for, job.turns_had) = (3, 5);
    job.parked = Parked::ForTurn;
    job.paused = true;
    job.lease = Some(Lease {
        worker: Name::new("w").unwrap(),
        until: Time::from_millis(4),
        length: Duration::from_secs(30),
        timeout_at: Some(Time::from_millis(5)),
        upload: None,
    });
    job.progress = Some(0);
    job.message = Some("half".into());
    job.expired = true;
    job.overdue = true;
    job.errors = vec![AttemptError {
        attempt: 1,
        at: Time::from_millis(2),
        kind: Kind::HandlerTimeout,
        code: "c".into(),
        message: "m".into(),
        class: Some("C".into()),
        retryable: true,
        details: vec![1, 2],
        wait: Some(Duration::from_secs(4)),
        discarded: true,
        execution: 1,
    }];
    job.cancel = Some(Cancellation { by: "user".into(), reason: "".into() });
    job.dead_lettered_at = Some(Time::from_millis(6));
    job.forget_at = Some(Time::from_millis(7));
    job.result = Some(ResultNote {
        media_type: "text/plain".into(),
        size: u64::MAX,
        expires_at: Some(Time::from_millis(9)),
    });
    assert_eq!(Job::decode(id, head, &job.encode()), Ok(job));
}

#[test]
fn unknown_fields_of_a_newer_version_are_skipped() {
    let head = full_head();
    let mut bytes = head.encode();
    Writer(&mut bytes).text(200, Some("from the future"));
    assert_eq!(Head::decode(&bytes), Ok(head));
}

proptest! {
    #[test]
    fn garbage_is_corrupt_and_never_a_panic(bytes: Vec<u8>) {
        let _ = Head::decode(&bytes);
        let _ = Input::decode(&bytes);
        let _ = Job::decode(JobId::from_u128(1), Arc::new(full_head()), &bytes);
    }

    #[test]
    fn raw_input_comes_back(payload: Vec<u8>, meta: Vec<u8>, extra: Vec<u8>) {
        let input = Input { payload, meta, extra, items: Vec::new() };
        prop_assert_eq!(Input::decode(&input.encode()), Ok(input));
    }
}
