//! The standard members and the names of extensions.

use serde_json::Value;

use super::{Carrier, Inspection, has_defined_type};
use crate::member::{JOB_NAMES, STANDARD_NAMES};
use crate::status::Status;
use crate::uri::{ABOUT_BLANK, UriRef};
use crate::xml::is_xml_name;

pub(super) fn inspect(inspection: &mut Inspection<'_>, carrier: Carrier) {
    types(inspection);
    references(inspection);
    status(inspection, carrier);
    blank_title(inspection);
    leaks(inspection);
    extension_names(inspection);
}

fn types(inspection: &mut Inspection<'_>) {
    for name in STANDARD_NAMES {
        if inspection.object.get(name).is_some_and(|value| !has_defined_type(name, value)) {
            let mend = match name {
                "status" => "make it a JSON number, or readers will ignore it",
                _ => "make it a JSON string, or readers will ignore it",
            };
            inspection.must("PD-ERR-02", name, mend);
        }
    }
}

fn references(inspection: &mut Inspection<'_>) {
    for (name, full_path) in [("type", "PD-ERR-04"), ("instance", "PD-ERR-10")] {
        match inspection.text(name).map(UriRef::new) {
            Some(Err(_)) => {
                inspection.must(
                    "PD-ERR-02",
                    name,
                    "make it a URI reference; percent-encode what is not allowed",
                );
            }
            Some(Ok(uri)) if !uri.has_full_path() => {
                inspection.should(full_path, name, "make it absolute, or at least start it with a slash");
            }
            Some(Ok(_)) | None => {}
        }
    }
}

fn status(inspection: &mut Inspection<'_>, carrier: Carrier) {
    let Some(number) = inspection.object.get("status").and_then(Value::as_f64) else {
        return;
    };
    if number.fract() != 0.0 || !(100.0..=599.0).contains(&number) {
        inspection.must("PD-ERR-20", "status", "use a whole number between 100 and 599");
    }
    if let Carrier::Response(sent) = carrier
        && number != f64::from(sent)
    {
        inspection.must(
            "PD-ERR-03",
            "status",
            "use the status code of the response, or leave the member out",
        );
    }
}

fn blank_title(inspection: &mut Inspection<'_>) {
    let blank = inspection.text("type").is_none_or(|uri| uri == ABOUT_BLANK);
    let code =
        inspection.object.get("status").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let reason = code.and_then(|code| Status::new(code).ok()).and_then(Status::reason);
    if let (true, Some(title), Some(reason)) = (blank, inspection.text("title"), reason)
        && title != reason
    {
        inspection.should("PD-ERR-07", "title", "use the reason phrase of the status code, or define a type");
    }
}

/// Marks of a stack trace. Host names, queries and paths can not be told from honest words with any
/// certainty.
const TRACE_MARKS: [&str; 5] =
    ["Traceback (most recent call last)", "\n    at ", "\n\tat ", "panicked at ", "stack backtrace:"];

fn leaks(inspection: &mut Inspection<'_>) {
    let detail = inspection.text("detail").unwrap_or_default();
    if TRACE_MARKS.iter().any(|mark| detail.contains(mark)) {
        inspection.must("AJ-SEC-01", "detail", "say what the client can do; keep the stack trace in the log");
    }
}

fn extension_names(inspection: &mut Inspection<'_>) {
    let object = inspection.object;
    let defined = |name: &str| STANDARD_NAMES.contains(&name) || JOB_NAMES.contains(&name);
    for name in object.keys().filter(|name| !defined(name)) {
        if name.starts_with('*') {
            inspection.should(
                "PD-ERR-12",
                name,
                "take the asterisk away; such names are kept for later standards",
            );
        } else if !is_recommended_name(name) {
            let mend = "start with a letter, go on with letters, digits and _, use at least three characters";
            inspection.should("PD-ERR-13", name, mend);
        }
        if !is_xml_name(name) {
            inspection.should("PD-XML-05", name, "make it an XML name, or it will be missing in problem+xml");
        }
        if JOB_NAMES.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            inspection.should(
                "AJ-AJM-22",
                name,
                "spell it as the draft does, or choose a name that is not so alike",
            );
        }
    }
}

fn is_recommended_name(name: &str) -> bool {
    let starts_with_letter = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    starts_with_letter && plain && name.len() >= 3
}
