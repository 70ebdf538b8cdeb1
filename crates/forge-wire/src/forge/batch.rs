//! The body of a batch: a submission with `items`. What a single job says of itself is said once for all of them.

use forge_core::catalog::Kind;
use forge_core::item::Item;
use forge_core::job::JobForm;
use serde_json::Value;

use super::submit::{SubmitRequest, read_submit, refused};
use crate::body::{self, violation};
use crate::item::take_items;
use crate::problem::Refused;

/// Reads a body: what holds for the whole, and the items. `type` may be left out and is EXECUTE then; `work_kind` is that of
/// items which name none.
pub fn read_batch(bytes: &[u8]) -> Result<(SubmitRequest, Vec<Item>), Box<Refused>> {
    let mut members = body::object(bytes)?;
    let mut items = take_items(&mut members, "payload")?;
    members.entry("type").or_insert_with(|| Value::from("EXECUTE"));
    let request = read_submit(Value::Object(members).to_string().as_bytes())?;
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
        let (request, items) = read_batch(body).unwrap();
        assert_eq!((request.form, request.priority), (JobForm::Execute, Some(3)));
        let kinds: Vec<_> = items.iter().map(|item| item.work_kind).collect();
        assert_eq!(kinds, [Some(WorkKind::SuccessFast), Some(WorkKind::FailImmediate)]);
    }

    #[test]
    fn a_batch_publishes_no_notification() {
        let refused = read_batch(br#"{"items":[{}],"type":"EMIT_EVENT"}"#).unwrap_err();
        assert_eq!(refused.kind, Kind::UnknownJobType);
        assert_eq!(read_batch(br#"{"items":[{}],"priority":"x"}"#).unwrap_err().kind, Kind::MalformedRequest);
    }
}
