//! The body of a batch: a submission with `items`. What a single job says of itself is said once for all of them.

use forgerun_core::catalog::Kind;
use forgerun_core::item::Item;
use forgerun_core::job::JobForm;
use serde_json::Value;

use super::submit::{SubmitRequest, bad_job_type, read_submit, refused};
use crate::body::{self, violation};
use crate::item::{ItemMembers, both_wrong, take_items};
use crate::members::UnknownMembers;
use crate::problem::RefusedRequest;
use crate::request_body;

request_body! {
    /// A submission of many items; its other members are those of a single job, and hold for all of them. `type` may be left out,
    /// and `work_kind` and `job_type` are those of items that have none.
    pub BATCH = "BatchRequest" {
        /// What to do, item by item.
        "items": items(reference(ITEM.name)),
    }
    beside super::SUBMIT
    ; required &["items"]
    ; parts &[&ITEM]
    ; examples {
        "mixed": {"value": {"items": [
            {"itemId": "cert-001", "work_kind": "SUCCESS_FAST"},
            {"itemId": "cert-002", "work_kind": "FAIL_IMMEDIATE", "payload": {"name": "Ada"}},
        ]}},
        "numbered": {"value": {"items": [{}, {}, {}], "work_kind": "SUCCESS_FAST", "retry_mode": "auto"}},
    }
}

request_body! {
    /// One item of a batch. All items are simulated, or none is.
    pub ITEM = "ItemRequest" {
        /// Unique within the batch. The position, counted from zero, if absent.
        "itemId": item_id(),
        /// EXECUTE, in any case; the batch says when to run.
        "type": maybe(text()),
        /// What to simulate; as the batch says if absent.
        "work_kind": work_kind(),
        /// The type of real work; as the batch says if absent.
        "job_type": maybe(text()),
        /// Any JSON.
        "payload": json!({}),
    }
}

const OF_ITEM: ItemMembers = ItemMembers {
    known: ITEM.members,
    of_whole: &[
        "execution_at",
        "queue",
        "callback",
        "idempotency_key",
        "priority",
        "fair",
        "limits",
        "retry_mode",
        "max_retries",
        "timeout",
        "deadline",
        "tags",
        "unique_key",
        "correlation_id",
    ],
    payload: "payload",
    job_type: "job_type",
    bad_job_type,
};

/// What a batch is called whose items are of several types and that has none itself.
const MANY_TYPES: &str = "batch";

/// Reads a body: what holds for the whole, and the items. `type` may be left out and is EXECUTE then; `work_kind` and `job_type`
/// are those of items which name none. A batch is simulated or real as a whole.
pub fn read_batch(
    bytes: &[u8],
    unknown: UnknownMembers,
) -> Result<(SubmitRequest, Vec<Item>), Box<RefusedRequest>> {
    let mut members = body::object(bytes)?;
    let items = take_items(&mut members, OF_ITEM, unknown);
    members.entry("type").or_insert_with(|| Value::from("EXECUTE"));
    let request = read_submit(Value::Object(members).to_string().as_bytes(), UnknownMembers::Ignore);
    let (mut items, mut request) = match (items, request) {
        (Err(items), Err(request)) => return Err(both_wrong(items, request)),
        (items, request) => (items?, request?),
    };
    if request.form == JobForm::EmitEvent {
        let wrong = violation("type", "must be EXECUTE or DEFERRED for a batch", "enum");
        return Err(refused(Kind::UnknownJobType, vec![wrong]));
    }
    for item in &mut items {
        // What an item says of itself goes before what the batch says.
        if item.job_type.is_none() && item.work_kind.is_none() {
            (item.work_kind, item.job_type) = (request.work_kind, request.job_type.clone());
        }
    }
    let n_real = items.iter().filter(|item| item.job_type.is_some()).count();
    if n_real != 0 && n_real != items.len() {
        let wrong = violation("job_type", "must be known for all items or for none", "all");
        return Err(refused(Kind::InvalidArgs, vec![wrong]));
    }
    if n_real != 0 && request.job_type.is_none() {
        let first = items.first().and_then(|item| item.job_type.clone());
        let alike = items.iter().all(|item| item.job_type == first);
        request.job_type = if alike { first } else { Some(MANY_TYPES.to_owned()) };
    }
    Ok((request, items))
}

#[cfg(test)]
mod tests {
    use forgerun_core::work::WorkKind;

    use super::*;

    #[test]
    fn what_is_said_once_holds_for_every_item() {
        let body =
            br#"{"items":[{},{"work_kind":"FAIL_IMMEDIATE"}],"work_kind":"SUCCESS_FAST","priority":3}"#;
        let (request, items) = read_batch(body, UnknownMembers::Refuse).unwrap();
        assert_eq!((request.form, request.priority), (JobForm::Execute, Some(3)));
        let kinds: Vec<_> = items.iter().map(|item| item.work_kind).collect();
        assert_eq!(kinds, [Some(WorkKind::SuccessFast), Some(WorkKind::FailImmediate)]);
    }

    #[test]
    fn an_item_takes_what_a_submission_of_its_own_takes() {
        let read = |body: &str| {
            let (request, items) = read_batch(body.as_bytes(), UnknownMembers::Refuse).unwrap();
            let types: Vec<_> = items.iter().map(|item| item.job_type.clone().unwrap_or_default()).collect();
            (request.job_type, types)
        };
        let simulated = r#"{"items":[{"type":"EXECUTE","work_kind":"SUCCESS_FAST"},{"type":"execute"}]}"#;
        assert_eq!(read(simulated), (None, vec![String::new(), String::new()]));
        let real = r#"{"items":[{"type":"EXECUTE","job_type":"Mail","payload":1},{"job_type":"sms"}]}"#;
        assert_eq!(read(real), (Some("batch".to_owned()), vec!["Mail".to_owned(), "sms".to_owned()]));
        let inherited = r#"{"job_type":"mail","max_retries":2,"items":[{},{"job_type":"sms"}]}"#;
        assert_eq!(read(inherited), (Some("mail".to_owned()), vec!["mail".to_owned(), "sms".to_owned()]));
    }

    #[test]
    fn an_item_that_would_differ_from_its_batch_is_refused() {
        for (body, pointer) in [
            (r#"{"items":[{"job_type":"a"},{}]}"#, "#/job_type"),
            (r#"{"job_type":"a","items":[{"work_kind":"SUCCESS_FAST"},{}]}"#, "#/job_type"),
            (r#"{"items":[{"job_type":"a","work_kind":"SUCCESS_FAST"}]}"#, "#/items/0/job_type"),
            (r#"{"items":[{"job_type":"a b"}]}"#, "#/items/0/job_type"),
            (r#"{"items":[{"type":"DEFERRED"}]}"#, "#/items/0/type"),
            (r#"{"items":[{"type":"EMIT_EVENT"}]}"#, "#/items/0/type"),
            (r#"{"items":[{"queue":"a"}]}"#, "#/items/0/queue"),
        ] {
            let refused = read_batch(body.as_bytes(), UnknownMembers::Refuse).unwrap_err();
            assert_eq!(refused.violations[0].pointer, pointer, "{body}");
        }
        let queue = read_batch(br#"{"items":[{"queue":"a"}]}"#, UnknownMembers::Refuse).unwrap_err();
        assert!(queue.violations[0].detail.contains("beside `items`"), "{:?}", queue.violations);
    }

    #[test]
    fn all_that_is_wrong_is_named_at_once() {
        let body = br#"{"priority":"x","queue":7,"items":[{"itemId":3},{"work_kind":"NONE"},{"colour":1},{"itemId":""},4]}"#;
        let refused = read_batch(body, UnknownMembers::Refuse).unwrap_err();
        let pointers: Vec<&str> = refused.violations.iter().map(|violation| &*violation.pointer).collect();
        assert_eq!(
            pointers,
            [
                "#/queue",
                "#/priority",
                "#/items/0/itemId",
                "#/items/4",
                "#/items/1/work_kind",
                "#/items/2/colour",
                "#/items/3/itemId",
            ]
        );
        assert_eq!(refused.kind, Kind::MalformedRequest);
        let many = format!(r#"{{"items":[{}{{}}]}}"#, r#"{"itemId":3},"#.repeat(50));
        let refused = read_batch(many.as_bytes(), UnknownMembers::Refuse).unwrap_err();
        assert_eq!(refused.violations.len(), 20, "and no more than is of use");
    }

    #[test]
    fn a_batch_publishes_no_notification() {
        let refused =
            read_batch(br#"{"items":[{}],"type":"EMIT_EVENT"}"#, UnknownMembers::Refuse).unwrap_err();
        assert_eq!(refused.kind, Kind::UnknownJobType);
        assert_eq!(
            read_batch(br#"{"items":[{}],"priority":"x"}"#, UnknownMembers::Refuse).unwrap_err().kind,
            Kind::MalformedRequest
        );
    }
}
