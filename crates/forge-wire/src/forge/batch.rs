//! The body of a batch: a submission with `items`. What a single job says of itself is said once for all of them.

use forge_core::catalog::Kind;
use forge_core::item::Item;
use forge_core::job::JobForm;
use serde_json::Value;

use super::submit::{SubmitRequest, read_submit, refused};
use crate::body::{self, violation};
use crate::item::{ItemMembers, both_wrong, take_items};
use crate::members::UnknownMembers;
use crate::problem::Refused;

/// The members of a batch: those of a submission, and the items.
pub const BATCH_MEMBERS: &[&str] = &[
    "items",
    "type",
    "execution_at",
    "work_kind",
    "queue",
    "callback",
    "idempotency_key",
    "priority",
    "retry_mode",
    "correlation_id",
    "payload",
];

const OF_ITEM: ItemMembers = ItemMembers { known: &["itemId", "work_kind", "payload"], payload: "payload" };

/// Reads a body: what holds for the whole, and the items. `type` may be left out and is EXECUTE then; `work_kind` is that of
/// items which name none.
pub fn read_batch(bytes: &[u8], unknown: UnknownMembers) -> Result<(SubmitRequest, Vec<Item>), Box<Refused>> {
    let mut members = body::object(bytes)?;
    let items = take_items(&mut members, OF_ITEM, unknown);
    members.entry("type").or_insert_with(|| Value::from("EXECUTE"));
    let request = read_submit(Value::Object(members).to_string().as_bytes(), UnknownMembers::Ignore);
    let (mut items, request) = match (items, request) {
        (Err(items), Err(request)) => return Err(both_wrong(items, request)),
        (items, request) => (items?, request?),
    };
    if request.form == JobForm::EmitEvent {
        let wrong = violation("type", "must be EXECUTE or DEFERRED for a batch", "enum");
        return Err(refused(Kind::UnknownJobType, vec![wrong]));
    }
    for item in &mut items {
        item.work_kind = item.work_kind.or(request.work_kind);
    }
    Ok((request, items))
}

#[cfg(test)]
mod tests {
    use forge_core::work::WorkKind;

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
    fn all_that_is_wrong_is_named_at_once() {
        let body = br#"{"priority":"x","queue":7,"items":[{"itemId":3},{"work_kind":"NONE"},{"colour":1},{"itemId":""},4]}"#;
        let refused = read_batch(body, UnknownMembers::Refuse).unwrap_err();
        let pointers: Vec<&str> = refused.violations.iter().map(|wrong| &*wrong.pointer).collect();
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
