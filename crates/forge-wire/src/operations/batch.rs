//! The body of a batch: a submission with `items`.

use forge_core::catalog::Kind;
use forge_core::item::Item;
use serde_json::Value;

use super::submit::{SubmitRequest, read_submit, refused};
use crate::body::{self, violation};
use crate::item::take_items;
use crate::problem::Refused;

/// Reads a body: what holds for the whole, and the items. A batch is simulated or real as a whole: either every item has a
/// `work_kind`, its own or that of the batch, or none has.
pub fn read_batch(bytes: &[u8]) -> Result<(SubmitRequest, Vec<Item>), Box<Refused>> {
    let mut members = body::object(bytes)?;
    let mut items = take_items(&mut members, "parameters")?;
    let request = read_submit(Value::Object(members).to_string().as_bytes(), true)?;
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
            read_batch(body.as_bytes()).map(|(_, items)| items.iter().all(|item| item.work_kind.is_some()))
        };
        assert!(!simulated(r#"{"type":"a","items":[{"parameters":{"b":1}},{}]}"#).unwrap());
        assert!(simulated(r#"{"type":"a","work_kind":"SUCCESS_FAST","items":[{},{}]}"#).unwrap());
        let mixed = r#"{"type":"a","items":[{"work_kind":"SUCCESS_FAST"},{}]}"#;
        assert_eq!(simulated(mixed).unwrap_err().kind, Kind::InvalidArgs);
        assert_eq!(simulated(r#"{"items":[{}]}"#).unwrap_err().kind, Kind::MalformedRequest);
    }
}
