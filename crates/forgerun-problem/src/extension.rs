//! What an extension value may be, so that every format can carry it and every reader gets back the
//! same.
//!
//! Values nest at most [`DEPTH_MAX`] deep, and numbers have one form each: a whole number of at
//! most
//! [`SAFE_INTEGER_MAX`] is an integer, everything else a double. Larger integers are refused when building
//! (other readers would round them without a word; send them as strings) and rounded when reading.

use serde_json::{Number, Value};

use crate::limits::{DEPTH_MAX, SAFE_INTEGER_MAX};

/// Checks a value on its way into a problem object and brings its numbers to their one form.
///
/// `depth` is that of the value itself within the problem: 1 for a member of the problem.
pub(crate) fn checked(name: &str, mut value: Value, depth: usize) -> Result<Value, ExtensionError> {
    check(name, &mut value, depth)?;
    Ok(value)
}

fn check(name: &str, value: &mut Value, depth: usize) -> Result<(), ExtensionError> {
    if depth > DEPTH_MAX {
        return Err(ExtensionError::TooDeep(name.to_owned()));
    }
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
        Value::Number(number) => match normal_number(number) {
            (_, Exactness::Rounded) => Err(ExtensionError::UnsafeInteger(name.to_owned())),
            (normal, Exactness::Exact) => {
                *number = normal;
                Ok(())
            }
        },
        Value::Array(values) => values.iter_mut().try_for_each(|value| check(name, value, depth + 1)),
        Value::Object(map) => map.values_mut().try_for_each(|value| check(name, value, depth + 1)),
    }
}

/// Whether a number survives being a double.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exactness {
    Exact,
    Rounded,
}

/// The one form of a number.
pub(crate) fn normal_number(number: &Number) -> (Number, Exactness) {
    if let Some(whole) = number.as_i64().filter(|whole| whole.unsigned_abs() <= SAFE_INTEGER_MAX) {
        return (whole.into(), Exactness::Exact);
    }
    let double = number.as_f64().expect("every JSON number has a double without arbitrary precision");
    if double.fract() == 0.0 && double.abs() <= SAFE_INTEGER_MAX as f64 {
        return ((double as i64).into(), Exactness::Exact);
    }
    let normal = Number::from_f64(double).expect("a JSON number is finite");
    // Digits that every reader turns into this double, and which this double prints, are exact
    // enough: that is what a large double looks like when it has been written.
    let printed = ryu_js::Buffer::new().format_finite(double) == number.to_string();
    let exact = number.is_f64() || printed;
    (normal, if exact { Exactness::Exact } else { Exactness::Rounded })
}

/// Why a member can not be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExtensionError {
    /// The name belongs to a member that has its own setter.
    #[error("extension {0:?} would shadow the defined member of that name; set that member instead")]
    Shadows(String),
    /// Deeper than [`DEPTH_MAX`].
    #[error("extension {0:?} nests deeper than {DEPTH_MAX} levels; flatten it")]
    TooDeep(String),
    /// An integer that readers with double precision would change.
    #[error("extension {0:?} holds an integer beyond ±(2^53 - 1); send it as a string")]
    UnsafeInteger(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn checked(name: &str, value: Value) -> Result<Value, ExtensionError> {
        super::checked(name, value, 1)
    }

    #[test]
    fn numbers_have_one_form_each() {
        assert_eq!(checked("x", json!(1.0)).unwrap(), json!(1));
        assert_eq!(checked("x", json!(-0.0)).unwrap(), json!(0));
        assert_eq!(checked("x", json!([1.5, 1e300])).unwrap(), json!([1.5, 1e300]));
        assert_eq!(checked("x", json!(9_007_199_254_740_991_u64)).unwrap(), json!(9_007_199_254_740_991_u64));
    }

    #[test]
    fn integers_that_others_would_round_are_refused() {
        for unsafe_integer in [json!(9_007_199_254_740_993_u64), json!(u64::MAX), json!(i64::MIN + 1)] {
            let refused = checked("amount", json!({"inner": [unsafe_integer]}));
            assert_eq!(refused, Err(ExtensionError::UnsafeInteger("amount".into())));
        }
    }

    #[test]
    fn values_nest_to_the_limit_and_not_beyond() {
        let nested = |depth| (1..depth).fold(json!(1), |inner, _| json!([inner]));
        assert!(checked("x", nested(DEPTH_MAX)).is_ok());
        assert_eq!(checked("x", nested(DEPTH_MAX + 1)), Err(ExtensionError::TooDeep("x".into())));
    }
}
