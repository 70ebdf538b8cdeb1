//! `rate_per_s`, wherever the operator gives one.

use serde_json::{Map, Value};

use crate::body::violation;
use crate::problem::Violation;

/// The highest rate that makes sense.
const RATE_MAX: f64 = 100_000.0;

/// The rate that a body asks for, per 1000 seconds; `Some(None)` where it is null, `None` where it is absent or wrong.
pub fn read_rate(members: &Map<String, Value>, wrong: &mut Vec<Violation>) -> Option<Option<u32>> {
    let value = match members.get("rate_per_s")? {
        Value::Null => return Some(None),
        value => value.as_f64(),
    };
    let rate = value.filter(|rate| (0.001..=RATE_MAX).contains(rate));
    if rate.is_none() {
        wrong.push(violation("rate_per_s", "must be a number from 0.001 to 100000, or null", "range"));
    }
    rate.map(|rate| Some((rate * 1000.0).round() as u32))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rate_is_read_per_1000_seconds_and_bounded() {
        let read = |value: Value| {
            let mut wrong = Vec::new();
            let members = Map::from_iter([("rate_per_s".to_owned(), value)]);
            (read_rate(&members, &mut wrong), wrong.len())
        };
        for (value, expected) in [(json!(5), 5000), (json!(0.001), 1), (json!(100_000), 100_000_000)] {
            assert_eq!(read(value), (Some(Some(expected)), 0));
        }
        assert_eq!(read(Value::Null), (Some(None), 0));
        for wrong in [json!(0), json!(-1), json!("5"), json!(100_001), json!(0.0009)] {
            assert_eq!(read(wrong.clone()), (None, 1), "{wrong}");
        }
        assert_eq!(read_rate(&Map::new(), &mut Vec::new()), None);
    }
}
