//! The outcomes of a batch.

use serde_json::Value;

use super::Inspection;
use crate::item::ItemStatus;

pub(super) fn inspect(inspection: &mut Inspection<'_>) {
    if let Some(items) = inspection.object.get("results").and_then(Value::as_array) {
        for (index, item) in items.iter().enumerate() {
            inspect_item(inspection, index, item);
        }
        mixed_outcome(inspection, items);
    }
    if inspection.text("jobStatus") == Some("COMPLETED_WITH_ERRORS") {
        partial_failure(inspection);
    }
}

fn inspect_item(inspection: &mut Inspection<'_>, index: usize, item: &Value) {
    let member = |name: &str| format!("results[{index}].{name}");
    if !item.get("itemId").is_some_and(Value::is_string) {
        inspection.must("AJ-BAT-01", &member("itemId"), "give every item its id as a JSON string");
    }
    match item.get("status").map(|status| status.as_str().and_then(ItemStatus::parse)) {
        Some(Some(_)) => {}
        Some(None) => {
            let mend =
                "use COMPLETED, FAILED, CANCELLED or TIMED_OUT; only the batch can be COMPLETED_WITH_ERRORS";
            inspection.must("AJ-BAT-02", &member("status"), mend);
        }
        None => inspection.must("AJ-BAT-01", &member("status"), "say how the item ended"),
    }
    let is_text = Value::is_string as fn(&Value) -> bool;
    for (name, fits) in [("detail", is_text), ("retryable", Value::is_boolean), ("processingStage", is_text)]
    {
        if item.get(name).is_some_and(|value| !fits(value)) {
            let mend = "use a string for detail and processingStage, and true or false for retryable";
            inspection.must("AJ-AJM-20", &member(name), mend);
        }
    }
}

fn mixed_outcome(inspection: &mut Inspection<'_>, items: &[Value]) {
    let completed = |item: &Value| item.get("status").and_then(Value::as_str) == Some("COMPLETED");
    let mixed = items.iter().any(completed) && !items.iter().all(completed);
    if mixed && inspection.text("jobStatus") != Some("COMPLETED_WITH_ERRORS") {
        inspection.should(
            "AJ-BAT-05",
            "jobStatus",
            "use COMPLETED_WITH_ERRORS where only some items went well",
        );
    }
}

fn partial_failure(inspection: &mut Inspection<'_>) {
    if inspection.object.get("status").and_then(Value::as_u64) != Some(207) {
        inspection.should("AJ-BAT-05", "status", "use 207 where only some items went well");
    }
    if inspection.text("detail").is_none() {
        inspection.should("AJ-BAT-05", "detail", "sum up how many of how many items went well");
    }
}
