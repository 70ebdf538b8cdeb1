//! Arbitrary problems for property tests.

use forgerun_problem::{
    CorrelationId, ITEM_NAMES, ItemOutcome, ItemStatus, JOB_NAMES, Job, JobStatus, Problem, STANDARD_NAMES,
    Timestamp,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use serde_json::{Map, Value};

/// Anything that can be built.
pub(crate) fn problem() -> impl Strategy<Value = Problem> {
    let standard = (of(uri()), of(text()), of(100..600_u16), of(text()), of(uri()));
    (standard, job(), vec((name(), value()), 0..6)).prop_map(|(standard, job, extensions)| {
        let (type_uri, title, status, detail, instance) = standard;
        let mut builder = Problem::untyped().job(job);
        builder = type_uri.into_iter().fold(builder, |builder, uri| builder.type_uri(uri));
        builder = title.into_iter().fold(builder, |builder, title| builder.title(title));
        builder = status.into_iter().fold(builder, |builder, status| builder.status(status));
        builder = detail.into_iter().fold(builder, |builder, detail| builder.detail(detail));
        builder = instance.into_iter().fold(builder, |builder, uri| builder.instance(uri));
        let defined = |name: &str| STANDARD_NAMES.contains(&name) || JOB_NAMES.contains(&name);
        let own = extensions.into_iter().filter(|(name, _)| !defined(name));
        own.fold(builder, |builder, (name, value)| builder.extension(&name, value)).build().unwrap()
    })
}

fn job() -> impl Strategy<Value = Job> {
    let times = (of(time()), of(time()));
    let retry = (any::<Option<bool>>(), of(0..1_u64 << 53));
    let texts = (of(text()), of(text()), of("[A-Za-z0-9._-]{1,20}"));
    (of(job_status()), times, retry, texts, of(vec(item(), 0..4))).prop_map(
        |(status, times, retry, texts, items)| {
            let terminal = status.as_ref().is_none_or(JobStatus::is_terminal);
            let mut job = Job::builder();
            job = status.into_iter().fold(job, |job, status| job.status(status));
            job = times.0.into_iter().fold(job, |job, time| job.submitted_at(time));
            job = times.1.filter(|_| terminal).into_iter().fold(job, |job, time| job.completed_at(time));
            job = retry.0.into_iter().fold(job, |job, flag| job.retryable(flag));
            job = retry.1.into_iter().fold(job, |job, seconds| job.retry_after_s(seconds));
            job = texts.0.into_iter().fold(job, |job, id| job.id(id));
            job = texts.1.into_iter().fold(job, |job, stage| job.processing_stage(stage));
            job = texts.2.into_iter().fold(job, |job, id| job.correlation_id(CorrelationId::sanitize(&id)));
            job = items.into_iter().fold(job, |job, items| job.results(items));
            job.build().unwrap()
        },
    )
}

fn job_status() -> impl Strategy<Value = JobStatus> {
    let registered = proptest::sample::select(JobStatus::REGISTERED.to_vec());
    prop_oneof![4 => registered, 1 => "[A-Z_]{1,12}".prop_map(|name| JobStatus::new(&name))]
}

fn item() -> impl Strategy<Value = ItemOutcome> {
    let status = proptest::sample::select(ItemStatus::ALL.to_vec());
    (text(), status, of(text()), any::<Option<bool>>(), of(text()), vec((name(), value()), 0..3)).prop_map(
        |(id, status, detail, retryable, stage, extensions)| {
            let mut item = ItemOutcome::new(id, status);
            item = detail.into_iter().fold(item, |item, detail| item.with_detail(detail));
            item = retryable.into_iter().fold(item, |item, flag| item.with_retryable(flag));
            item = stage.into_iter().fold(item, |item, stage| item.with_processing_stage(stage));
            let own = extensions.into_iter().filter(|(name, _)| !ITEM_NAMES.contains(&name.as_str()));
            own.fold(item, |item, (name, value)| item.with_extension(&name, value).unwrap())
        },
    )
}

fn uri() -> impl Strategy<Value = String> {
    prop_oneof![
        "https://[a-z]{1,8}\\.example/[a-z0-9/]{0,12}(\\?[a-z&=]{1,6})?(#[a-z]{1,5})?",
        "urn:[a-z]{2,5}:[a-z0-9]{1,8}",
        "/[a-z]{0,8}(%[0-9A-F]{2})?",
        "[a-z]{1,5}",
    ]
}

fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        (-62_167_219_200_i64..=253_402_300_799).prop_map(|s| Timestamp::from_unix_seconds(s).unwrap()),
        (-1_000_000_000_000_i64..4_000_000_000_000).prop_map(|ms| Timestamp::from_unix_millis(ms).unwrap()),
    ]
}

/// Any characters at all, control characters included, often the troublesome ones.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "(?s).{0,16}", 1 => "[ \\t\\r\\n<>&\"'\\\\\u{1}\u{7f}\u{fffe}\u{e000}\u{10000}a-z]{0,12}"]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-zA-Z][a-zA-Z0-9_]{2,8}", 1 => Just("i".to_owned()), 1 => Just("item".to_owned()), 1 => text()]
}

fn value() -> impl Strategy<Value = Value> {
    let safe = -9_007_199_254_740_991..=9_007_199_254_740_991_i64;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        safe.prop_map(Value::from),
        proptest::num::f64::NORMAL.prop_map(Value::from),
        proptest::num::f64::SUBNORMAL.prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let object = vec((name(), inner.clone()), 0..4);
        let object = object.prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>()));
        prop_oneof![vec(inner, 0..4).prop_map(Value::from), object]
    })
}
