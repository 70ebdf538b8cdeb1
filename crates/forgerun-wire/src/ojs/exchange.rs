//! The worker's round trip: ends of many jobs in, new jobs out, in one request.

use forgerun_core::catalog::Kind;
use forgerun_core::command::LeaseProof;
use forgerun_core::id::JobId;
use forgerun_core::job::Name;
use serde_json::value::RawValue;

use super::members::{Members, ViolationList};
use super::worker::{
    BAD, FetchRequest, HeartbeatRequest, HeldJobRef, Nack, claimed, fetch_of, heartbeat_of, lease_proof,
    nack_of, percent_of, worker,
};
use crate::problem::RefusedRequest;
use crate::readable;

/// Entries of `done`, and of `extend`.
pub const ENTRIES_MAX: usize = 1000;

/// One round trip of a worker.
#[derive(Debug)]
pub struct ExchangeRequest {
    /// The jobs it wants; `None` if it wants none.
    pub fetch: Option<FetchRequest>,
    /// The attempts that ended, in order. An entry that is refused leaves the others as they are.
    pub done: Vec<DoneEntry>,
    /// The jobs it goes on with. `None` if `extend` was left out: then this is no heartbeat.
    pub beat: Option<HeartbeatRequest>,
    /// What it says about those.
    pub progress: Vec<ProgressEntry>,
}

/// One attempt that ended.
#[derive(Debug)]
pub struct DoneEntry {
    /// The id as it was sent, for the answer.
    pub job_id: String,
    /// Which job and how it ended, or what is wrong with the entry.
    pub end: Result<(HeldJobRef, AttemptEnd), Box<RefusedRequest>>,
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub enum AttemptEnd {
    /// Well, with this result.
    Ack(Option<Box<RawValue>>),
    /// As a nack would say it.
    Nack(Nack),
}

/// How far the work on a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressEntry {
    /// Which job.
    pub job: JobId,
    /// The proof.
    pub proof: LeaseProof,
    /// In percent.
    pub percent: u8,
}

/// Reads a round trip. Refused as a whole only if the request itself is malformed.
pub fn read_exchange(body: &[u8]) -> Result<ExchangeRequest, Box<RefusedRequest>> {
    // Each entry is checked for itself: what one job reports must not hold up the others.
    let members = Members::of_unchecked_body(body)?;
    let mut violations = ViolationList::default();
    if members.get("worker_id").is_none() {
        violations.add(BAD, "worker_id", "is required", "required");
    }
    let worker = worker(&members, &mut violations);
    let count: Option<u64> = violations.typed(BAD, "count", members.get("count"), "an integer of at least 0");
    let wants_jobs = count.map_or(members.get("queues").is_some(), |count| count > 0);
    let fetch = wants_jobs.then(|| fetch_of(&members, &mut violations));
    let done = entries(&members, "done", &mut violations);
    let done = done.unwrap_or_default().into_iter().map(|entry| done_entry(entry, worker.as_ref())).collect();
    let extend = entries(&members, "extend", &mut violations);
    let mut progress = Vec::new();
    let jobs = extend.as_ref().map(|entries| {
        let each = entries.iter().enumerate();
        each.filter_map(|(at, entry)| extended(entry, at, worker.as_ref(), &mut progress, &mut violations))
            .collect()
    });
    let beat = match (jobs, &worker) {
        (Some(jobs), Some(worker)) => heartbeat_of(&members, worker.clone(), jobs, None, &mut violations),
        _ => None,
    };
    violations.settle(Some(ExchangeRequest { fetch, done, beat, progress }))
}

/// The entries of a list, each as it was written; `None` if it was left out.
fn entries<'a>(
    members: &Members<'a>,
    name: &str,
    violations: &mut ViolationList,
) -> Option<Vec<&'a RawValue>> {
    let value = members.get(name)?;
    let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(value.get()) else {
        violations.add(BAD, name, "must be a list of objects", "type");
        return None;
    };
    if entries.len() > ENTRIES_MAX {
        violations.add(BAD, name, format!("must have at most {ENTRIES_MAX} entries"), "maxItems");
        return None;
    }
    Some(entries)
}

fn done_entry(entry: &RawValue, worker: Option<&Name>) -> DoneEntry {
    let Some(members) = Members::of_value(entry) else {
        let refused = RefusedRequest::new(BAD, "An entry of `done` must be an object.");
        return DoneEntry { job_id: String::new(), end: Err(Box::new(refused)) };
    };
    let text = members.get("job_id").and_then(|id| serde_json::from_str(id.get()).ok());
    DoneEntry { job_id: text.unwrap_or_default(), end: end_of(entry, &members, worker) }
}

/// Which job, and how its attempt ended.
fn end_of(
    entry: &RawValue,
    members: &Members<'_>,
    worker: Option<&Name>,
) -> Result<(HeldJobRef, AttemptEnd), Box<RefusedRequest>> {
    let mut violations = ViolationList::default();
    let mut held = claimed(members, None, &mut violations);
    if held.proof == LeaseProof::Anyone {
        held.proof = lease_proof(held.job, None, worker.cloned());
    }
    let requeue: Option<bool> = violations.typed(BAD, "requeue", members.get("requeue"), "true or false");
    let (has_result, has_error) = (members.has("result"), members.get("error").is_some());
    let n_ends = [has_result, has_error, requeue == Some(true)].iter().filter(|end| **end).count();
    if n_ends > 1 {
        violations.add(BAD, "", "must have one of `result`, `error` and `requeue`, not several", "oneOf");
    }
    if has_error || requeue == Some(true) {
        // A failure is reported even if not every character of it can be read.
        let mended = readable::mended(entry.get().as_bytes());
        let mended: Members<'_> = serde_json::from_slice(&mended).unwrap_or_default();
        let nack = nack_of(&mended, &mut violations);
        return violations.settle(nack.map(|nack| (held, AttemptEnd::Nack(nack))));
    }
    if let Err(violation) = readable::check(entry.get(), "result") {
        violations.add(Kind::InvalidArgs, "result", violation.detail, violation.constraint);
    }
    let result = has_result.then(|| members.raw("result")).flatten().map(ToOwned::to_owned);
    violations.settle(Some((held, AttemptEnd::Ack(result))))
}

/// A job that the worker goes on with. An id that is malformed is answered as lost.
fn extended(
    entry: &RawValue,
    at: usize,
    worker: Option<&Name>,
    progress: &mut Vec<ProgressEntry>,
    violations: &mut ViolationList,
) -> Option<(JobId, LeaseProof)> {
    let Some(members) = Members::of_value(entry) else {
        violations.add_value(BAD, &format!("extend.{at}"), entry, "must be an object", "type");
        return None;
    };
    let held = claimed(&members, None, violations);
    let job = held.job?;
    let proof = match held.proof {
        LeaseProof::Anyone => lease_proof(Some(job), None, worker.cloned()),
        proof => proof,
    };
    let percent: Option<f64> =
        violations.typed(BAD, &format!("extend.{at}.progress"), members.get("progress"), "a number");
    if let Some(percent) = percent {
        // A share, as `workers/progress` has it; what is above 1 is in percent.
        match percent_of(if percent <= 1.0 { percent * 100.0 } else { percent }) {
            Some(percent) => progress.push(ProgressEntry { job, proof: proof.clone(), percent }),
            None => {
                violations.add(BAD, &format!("extend.{at}.progress"), "must lie between 0 and 100", "range")
            }
        }
    }
    Some((job, proof))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ojs::members::DEPTH_MAX;

    const ID: &str = "019a0000-0000-7000-8000-000000000001";

    fn read(body: &str) -> ExchangeRequest {
        read_exchange(body.replace("ID", ID).as_bytes()).unwrap()
    }

    #[test]
    fn each_entry_is_read_for_itself() {
        let request = read(
            r#"{"worker_id": "w", "done": [
                {"job_id": "ID", "lease_token": "8000000000000001.3", "result": {"n": 1e2}},
                {"job_id": "ID", "error": {"message": "\ud83d"}, "delay_ms": 5},
                {"job_id": "ID", "requeue": true, "delay_ms": 1500},
                {"job_id": "ID", "requeue": true, "until_signal": "approved"},
                {"job_id": "ID", "requeue": true, "until_signal": "No!"},
                {"job_id": "ID", "result": "\ud83d"},
                {"job_id": "ID", "result": 1, "error": {}},
                {"job_id": "ID"}, 7, {}]}"#,
        );
        assert!(request.fetch.is_none() && request.beat.is_none());
        let shown: Vec<String> = request
            .done
            .iter()
            .map(|entry| match &entry.end {
                Ok((_, AttemptEnd::Ack(result))) => {
                    format!("ack {:?}", result.as_ref().map(|text| text.get()))
                }
                Ok((_, AttemptEnd::Nack(Nack::Requeue { delay, until_signal }))) => {
                    format!("requeue {delay:?} {until_signal:?}")
                }
                Ok((_, AttemptEnd::Nack(Nack::Fail(error)))) => {
                    format!("fail {:?} {:?}", error.message, error.delay)
                }
                Ok((_, AttemptEnd::Nack(Nack::Succeed))) => "succeed".into(),
                Err(refused) => format!("refused {:?}", refused.kind),
            })
            .collect();
        let expected = [
            r#"ack Some("{\"n\": 1e2}")"#,
            r#"fail "�" Some(5ms)"#,
            "requeue 1.5s None",
            r#"requeue 604800s Some("approved")"#,
            "refused MalformedRequest",
            "refused InvalidArgs",
            "refused MalformedRequest",
            "ack None",
            "refused MalformedRequest",
            "refused MalformedRequest",
        ];
        assert_eq!(shown, expected);
        let Ok((claimed, _)) = &request.done[7].end else { panic!() };
        assert_eq!(
            claimed.proof,
            LeaseProof::Worker(Name::new("w").unwrap()),
            "without a token the worker's name counts"
        );
    }

    #[test]
    fn a_worker_that_names_no_queue_wants_no_jobs() {
        for (body, expected) in [
            (r#"{"worker_id": "w"}"#, None),
            (r#"{"worker_id": "w", "count": 0, "queues": ["a"]}"#, None),
            (r#"{"worker_id": "w", "queues": ["a"]}"#, Some(1)),
            (r#"{"worker_id": "w", "queues": ["a"], "count": 32}"#, Some(32)),
        ] {
            assert_eq!(read(body).fetch.map(|fetch| fetch.count), expected, "{body}");
        }
    }

    #[test]
    fn a_list_of_extensions_is_a_heartbeat_even_if_it_is_empty() {
        assert!(read(r#"{"worker_id": "w"}"#).beat.is_none());
        assert!(read(r#"{"worker_id": "w", "extend": []}"#).beat.unwrap().jobs.is_empty());
        for progress in ["40", "0.4"] {
            let extend =
                r#"{"worker_id": "w", "extend": [{"job_id": "ID", "progress": P}, {"job_id": "?"}]}"#;
            let request = read(&extend.replace('P', progress));
            assert_eq!(request.beat.unwrap().jobs.len(), 1);
            assert_eq!(request.progress[0].percent, 40);
        }
    }

    #[test]
    fn a_malformed_request_is_refused_as_a_whole() {
        let many = format!(r#"{{"worker_id": "w", "done": [{}0]}}"#, "0,".repeat(ENTRIES_MAX));
        for (body, pointer) in [
            (r#"{}"#, "#/worker_id"),
            (r#"{"worker_id": "w", "count": 1}"#, "#/queues"),
            (r#"{"worker_id": "w", "count": 5000, "queues": ["a"]}"#, "#/count"),
            (r#"{"worker_id": "w", "done": {}}"#, "#/done"),
            (&many, "#/done"),
            (r#"{"worker_id": "w", "extend": [1]}"#, "#/extend/0"),
            (r#"{"worker_id": "w", "extend": [{"job_id": "ID", "progress": 101}]}"#, "#/extend/0/progress"),
        ] {
            let refused = read_exchange(body.replace("ID", ID).as_bytes()).unwrap_err();
            assert_eq!(refused.violations[0].pointer, pointer, "{refused:?}");
        }
        let deep =
            format!(r#"{{"worker_id": "w", "done": {}{}}}"#, "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        assert!(read_exchange(deep.as_bytes()).is_err());
    }
}
