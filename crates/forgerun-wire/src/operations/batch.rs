//! The body of a batch: a submission with `items`.

use forgerun_core::catalog::Kind;
use forgerun_core::item::Item;
use forgerun_core::limits::NAME_BYTES_MAX;
use serde_json::Value;

use super::submit::{SubmitRequest, read_submit, refused};
use crate::body::{self, violation};
use crate::item::{ItemMembers, both_wrong, take_items};
use crate::members::UnknownMembers;
use crate::problem::RefusedRequest;
use crate::request_body;

request_body! {
    /// A job of many items; its other members are those of a single job, and hold for all of them. `type` may be left out if every
    /// item has one.
    pub BATCH = "BeginBatchRequest" {
        /// What to do, item by item.
        "items": items(ITEM.schema()),
    }
    beside super::SUBMIT
    ; required &["items"]
    ; examples {
        "real": {"value": {"type": "mail.send", "queue": "mail", "items": [
            {"itemId": "ada", "parameters": {"to": "ada@client.example"}}, {"itemId": "bob"},
        ]}},
        "simulated": {"value": {"type": "test", "work_kind": "SUCCESS_FAST", "items": [{}, {}]}},
    }
}

request_body! {
    /// One item of a batch. All items are simulated, or none is.
    ITEM = "BeginItemRequest" {
        /// Unique within the batch. The position, counted from zero, if absent.
        "itemId": item_id(),
        /// What kind of job the item is; as the batch says if absent.
        "type": name(NAME_BYTES_MAX),
        /// What to simulate; as the batch says if absent.
        "work_kind": work_kind(),
        /// What it works on: any JSON.
        "parameters": json!({}),
    }
}

const OF_ITEM: ItemMembers = ItemMembers {
    known: ITEM.members,
    of_whole: &[],
    payload: "parameters",
    job_type: "type",
    bad_job_type: body::bad_job_type,
};

/// What a batch is called whose items are of several types and that has none itself.
const MANY_TYPES: &str = "batch";

/// Reads a body: what holds for the whole, and the items. A batch is simulated or real as a whole: either every item has a
/// `work_kind`, its own or that of the batch, or none has. It needs no `type` if every item has one.
pub fn read_batch(
    bytes: &[u8],
    unknown: UnknownMembers,
) -> Result<(SubmitRequest, Vec<Item>), Box<RefusedRequest>> {
    let mut members = body::object(bytes)?;
    let items = take_items(&mut members, OF_ITEM, unknown);
    let type_needed = items.as_ref().is_ok_and(|items| items.iter().any(|item| item.job_type.is_none()));
    let request =
        read_submit(Value::Object(members).to_string().as_bytes(), UnknownMembers::Ignore, type_needed);
    let (mut items, mut request) = match (items, request) {
        (Err(items), Err(request)) => return Err(both_wrong(items, request)),
        (items, request) => (items?, request?),
    };
    if request.job_type.is_none() {
        let first = items.first().and_then(|item| item.job_type.clone());
        let alike = items.iter().all(|item| item.job_type == first);
        request.job_type = if alike { first } else { Some(MANY_TYPES.to_owned()) };
    }
    for item in &mut items {
        item.work_kind = item.work_kind.or(request.work_kind);
    }
    let n_simulated = items.iter().filter(|item| item.work_kind.is_some()).count();
    if n_simulated != 0 && n_simulated != items.len() {
        let wrong = violation("work_kind", "must be known for all items or for none", "all");
        return Err(refused(Kind::InvalidArgs, vec![wrong]));
    }
    Ok((request, items))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_simulated_or_real_as_a_whole() {
        let simulated = |body: &str| {
            read_batch(body.as_bytes(), UnknownMembers::Refuse)
                .map(|(_, items)| items.iter().all(|item| item.work_kind.is_some()))
        };
        assert!(!simulated(r#"{"type":"a","items":[{"parameters":{"b":1}},{}]}"#).unwrap());
        assert!(simulated(r#"{"type":"a","work_kind":"SUCCESS_FAST","items":[{},{}]}"#).unwrap());
        let mixed = r#"{"type":"a","items":[{"work_kind":"SUCCESS_FAST"},{}]}"#;
        assert_eq!(simulated(mixed).unwrap_err().kind, Kind::InvalidArgs);
        assert_eq!(simulated(r#"{"items":[{}]}"#).unwrap_err().kind, Kind::MalformedRequest);
    }
    #[test]
    fn items_have_types_of_their_own() {
        let read = |body: &str| {
            let (request, items) = read_batch(body.as_bytes(), UnknownMembers::Refuse).unwrap();
            (request.job_type.unwrap(), items.into_iter().map(|item| item.job_type).collect::<Vec<_>>())
        };
        let (mail, sms) = (Some("mail".to_owned()), Some("sms".to_owned()));
        let own = r#"{"items":[{"type":"mail"},{"type":"sms"}]}"#;
        assert_eq!(read(own), ("batch".to_owned(), vec![mail.clone(), sms.clone()]));
        assert_eq!(read(r#"{"items":[{"type":"mail"}]}"#), ("mail".to_owned(), vec![mail.clone()]));
        let some = r#"{"type":"mail","items":[{},{"type":"sms"}]}"#;
        assert_eq!(read(some), ("mail".to_owned(), vec![None, sms]));
        let missing = read_batch(br#"{"items":[{"type":"mail"},{}]}"#, UnknownMembers::Refuse).unwrap_err();
        assert_eq!(missing.violations[0].pointer, "#/type");
        let bad = br#"{"items":[{"type":" ","colour":1}]}"#;
        let bad = read_batch(bad, UnknownMembers::Refuse).unwrap_err();
        let pointers: Vec<_> = bad.violations.iter().map(|violation| &*violation.pointer).collect();
        assert_eq!(pointers, ["#/items/0/type", "#/items/0/colour"]);
    }
}
