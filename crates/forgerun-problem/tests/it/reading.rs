//! Tolerance: what a reader forgives, and that it says so.

use forgerun_problem::read::{Limits, Meaning, ReadError, Reader, Reading, Syntax, Warning};
use forgerun_problem::{JobStatus, Problem};
use serde_json::json;

fn read(document: &str) -> Reading {
    Reader::new().json(document.as_bytes()).unwrap()
}

fn wrong_type(member: &str) -> Warning {
    Warning::WrongType { member: member.into() }
}

fn invalid(member: &str) -> Warning {
    Warning::InvalidValue { member: member.into() }
}

#[test]
fn members_of_the_wrong_type_are_ignored_as_if_absent() {
    for (member, value) in [
        ("type", json!(1)),
        ("title", json!(["a"])),
        ("status", json!("500")),
        ("detail", json!({"a": 1})),
        ("instance", json!(true)),
        ("jobId", json!(42)),
        ("jobStatus", json!(["FAILED"])),
        ("submittedAt", json!(1_740_567_600)),
        ("completedAt", json!({})),
        ("retryable", json!("true")),
        ("retryAfter", json!("60")),
        ("processingStage", json!(false)),
        ("correlationId", json!(7)),
        ("results", json!({"itemId": "a"})),
    ] {
        let reading = read(&json!({member: value, "kept": 1}).to_string());
        assert_eq!(reading.warnings, [wrong_type(member)]);
        assert_eq!(reading.problem, Problem::untyped().extension("kept", 1).build().unwrap());
    }
}

#[test]
fn members_with_impossible_values_are_ignored_as_if_absent() {
    for (member, value) in [
        ("type", json!("not a uri")),
        ("instance", json!("<>")),
        ("status", json!(99)),
        ("status", json!(500.5)),
        ("status", json!(-1)),
        ("status", json!(1e300)),
        ("submittedAt", json!("yesterday")),
        ("completedAt", json!("2026-02-30T10:00:00Z")),
        ("retryAfter", json!(-1)),
        ("retryAfter", json!(0.5)),
    ] {
        let reading = read(&json!({ member: value }).to_string());
        assert_eq!((reading.problem, reading.warnings), (Problem::default(), vec![invalid(member)]));
    }
}

#[test]
fn null_counts_as_absent_without_a_warning() {
    let reading = read(r#"{"type": null, "status": null, "jobId": null, "results": null, "own": null}"#);
    assert_eq!(reading.warnings, []);
    assert_eq!(reading.problem.to_json(), r#"{"own":null}"#);
}

#[test]
fn unknown_members_are_kept_in_order() {
    let document = r#"{"zeta":[1,{"b":null,"a":1.5}],"alpha":{"y":1,"x":2},"*future":true}"#;
    let reading = read(document);
    assert_eq!((reading.problem.to_json().as_str(), reading.warnings), (document, vec![]));
}

#[test]
fn a_whole_number_may_be_written_as_a_fraction() {
    assert_eq!(read(r#"{"status": 5.00e2}"#).problem.status().unwrap().code(), 500);
    assert_eq!(read(r#"{"retryAfter": 60.0}"#).problem.job().retry_after_s(), Some(60));
}

#[test]
fn any_subset_of_the_job_members_is_processed() {
    let reading = read(r#"{"jobId": "550e8400", "jobStatus": "FAILED"}"#);
    assert_eq!(reading.problem.job().id(), Some("550e8400"));
    assert_eq!((reading.problem.job().submitted_at(), reading.warnings), (None, vec![]));
}

#[test]
fn an_unknown_state_is_not_terminal_and_its_completed_at_is_ignored() {
    let reading = read(r#"{"jobStatus": "ARCHIVED", "completedAt": "2026-02-26T10:00:00Z"}"#);
    assert!(!reading.problem.job().status().unwrap().is_terminal());
    assert_eq!(reading.problem.job().completed_at(), None);
    assert_eq!(reading.warnings, [Warning::CompletedAtIgnored { status: "ARCHIVED".into() }]);
}

#[test]
fn a_state_documented_as_terminal_keeps_its_completed_at() {
    let document = br#"{"completedAt": "2026-02-26T10:00:00Z", "jobStatus": "ARCHIVED"}"#;
    let reading = Reader::new().with_terminal_status("ARCHIVED").json(document).unwrap();
    assert_eq!(reading.problem.job().status(), Some(&JobStatus::documented_as_terminal("ARCHIVED")));
    assert!(reading.problem.job().completed_at().is_some());
    assert_eq!(reading.warnings, []);
}

#[test]
fn completed_at_of_a_running_job_is_ignored_with_a_warning() {
    for status in ["ACCEPTED", "PROCESSING", "failed"] {
        let document = json!({"completedAt": "2026-02-26T10:00:00Z", "jobStatus": status}).to_string();
        let reading = read(&document);
        assert_eq!(reading.problem.job().completed_at(), None);
        assert_eq!(reading.warnings, [Warning::CompletedAtIgnored { status: status.into() }]);
        assert_eq!(
            reading.warnings[0].to_string(),
            format!("completedAt was ignored: jobStatus {status} is not terminal")
        );
    }
}

#[test]
fn a_time_with_an_offset_is_converted_with_a_warning() {
    let reading = read(r#"{"submittedAt": "2026-02-26T12:00:00+02:00"}"#);
    assert_eq!(reading.problem.job().submitted_at().unwrap().to_string(), "2026-02-26T10:00:00Z");
    assert_eq!(reading.warnings, [Warning::ConvertedToUtc { member: "submittedAt".into() }]);
}

#[test]
fn an_unsafe_correlation_id_is_sanitised_with_a_warning() {
    let reading = read(r#"{"correlationId": "a\r\nX: y"}"#);
    assert_eq!(reading.problem.job().correlation_id().unwrap().as_str(), "aXy");
    assert_eq!(reading.warnings, [Warning::Sanitized]);
}

#[test]
fn items_without_id_or_possible_status_are_ignored_with_a_warning() {
    let reading = read(
        r#"{"results": [{"itemId": "a", "status": "COMPLETED_WITH_ERRORS"}, {"status": "FAILED"}, 7,
            {"itemId": "b", "status": "FAILED", "retryable": "no", "own": [1]}]}"#,
    );
    let items = reading.problem.job().results().unwrap();
    assert_eq!((items.len(), items[0].item_id(), items[0].retryable()), (1, "b", None));
    assert_eq!(items[0].extensions()["own"], json!([1]));
    let ignored = |index| Warning::ItemIgnored { index };
    assert_eq!(reading.warnings, [ignored(0), ignored(1), ignored(2), wrong_type("results[].retryable")]);
}

#[test]
fn large_integers_are_rounded_with_a_warning() {
    let reading = read(r#"{"amount": 12345678901234567890, "fine": 9007199254740991}"#);
    assert_eq!(reading.warnings, [Warning::Rounded { member: "amount".into() }]);
    assert_eq!(
        reading.problem.to_canonical_json(),
        r#"{"amount":12345678901234567000,"fine":9007199254740991}"#
    );
    let again = read(&reading.problem.to_canonical_json());
    assert_eq!((again.problem, again.warnings), (reading.problem, vec![]));
}

#[test]
fn a_member_twice_is_an_error_at_any_depth() {
    let duplicate = |member: &str| Err(ReadError::Duplicate { member: member.into() });
    assert_eq!(Reader::new().json(br#"{"status": 500, "status": 200}"#), duplicate("status"));
    assert_eq!(Reader::new().json(br#"{"own": [{"a": 1, "\u0061": 2}]}"#), duplicate("a"));
    let xml = br#"<problem xmlns="urn:ietf:rfc:7807"><title>a</title><title>b</title></problem>"#;
    assert_eq!(Reader::new().xml(xml), duplicate("title"));
}

#[test]
fn depth_and_size_are_bounded() {
    let limits = Limits { document_bytes: 60, field_bytes: 20, depth: 3 };
    let reader = Reader::new().with_limits(limits);
    assert!(reader.json(br#"{"a": [[1]]}"#).is_ok());
    assert_eq!(reader.json(br#"{"a": [[[1]]]}"#), Err(ReadError::TooDeep { depth_max: 3 }));
    assert_eq!(reader.json(&[b' '; 61]), Err(ReadError::TooLarge { bytes_max: 60 }));
    assert_eq!(reader.xml(&[b' '; 61]), Err(ReadError::TooLarge { bytes_max: 60 }));
    assert_eq!(reader.field(&[b' '; 21]), Err(ReadError::TooLarge { bytes_max: 20 }));
    assert!(matches!(reader.field_lines([&b"a=1, b=2, c=3"[..]; 2]), Err(ReadError::TooLarge { .. })));
}

#[test]
fn what_is_no_object_is_no_problem() {
    for document in ["[]", "1", "\"x\"", "null"] {
        assert_eq!(Reader::new().json(document.as_bytes()), Err(ReadError::NotAProblem), "{document}");
    }
    let xml = |document: &str| Reader::new().xml(document.as_bytes());
    assert_eq!(xml("<problem/>"), Err(ReadError::NotAProblem));
    assert_eq!(xml(r#"<problem xmlns="urn:other"/>"#), Err(ReadError::NotAProblem));
    assert_eq!(xml(r#"<trouble xmlns="urn:ietf:rfc:7807"/>"#), Err(ReadError::NotAProblem));
    assert!(xml(r#"<p:problem xmlns:p="urn:ietf:rfc:7807"/>"#).is_ok());
}

#[test]
fn a_relative_reference_under_an_opaque_base_is_left_with_a_warning() {
    let reader = Reader::new().with_base(forgerun_problem::BaseUri::new("urn:x:y").unwrap());
    let reading = reader.json(br#"{"type": "relative", "instance": "/i"}"#).unwrap();
    assert_eq!(reading.problem.type_uri(), "relative");
    assert_eq!(reading.warnings, [Warning::NotResolved, Warning::NotResolved]);
}

#[test]
fn xml_is_read_with_everything_xml_allows() {
    let document = "\u{feff}<?xml version='1.0' encoding='utf-8'?><?xml-stylesheet href='x.xsl'?><!-- note -->
        <p:problem xmlns:p=\"urn:ietf:rfc:7807\" xmlns:o=\"urn:other\" lang=\"en\">
          <p:status> 403 </p:status><p:title><![CDATA[<a> & b]]></p:title><!-- inside -->
          <p:detail>x &lt; y &#38;&#x26; &quot;z&quot;&#13;</p:detail>
          <o:foreign><o:deep/></o:foreign><o:empty/>
          <p:retryable>1</p:retryable><p:retryAfter>60</p:retryAfter>
          <p:results><p:i><p:itemId>a</p:itemId><p:status>FAILED</p:status><p:retryable>false</p:retryable></p:i></p:results>
          <p:empty/><p:mixed>text<p:child>1</p:child></p:mixed>
        </p:problem>
        ";
    let reading = Reader::new().xml(document.as_bytes()).unwrap();
    assert_eq!(reading.warnings, []);
    assert_eq!(
        reading.problem.to_json(),
        r#"{"title":"<a> & b","status":403,"detail":"x < y && \"z\"\r","retryable":true,"retryAfter":60,"results":[{"itemId":"a","status":"FAILED","retryable":false}],"empty":"","mixed":{"child":"1"}}"#
    );
}

#[test]
fn wrong_xml_members_are_ignored_like_json_ones() {
    let document = br#"<problem xmlns="urn:ietf:rfc:7807"><status>many</status><title><i>a</i></title>
        <retryable>yes</retryable><results>none</results><jobStatus>PROCESSING</jobStatus>
        <completedAt>2026-02-26T10:00:00Z</completedAt></problem>"#;
    let reading = Reader::new().xml(document).unwrap();
    assert_eq!(reading.problem.to_json(), r#"{"jobStatus":"PROCESSING"}"#);
    assert_eq!(
        reading.warnings,
        [
            invalid("status"),
            wrong_type("title"),
            invalid("retryable"),
            wrong_type("results"),
            Warning::CompletedAtIgnored { status: "PROCESSING".into() },
        ]
    );
}

#[test]
fn entities_and_document_types_are_refused_unread() {
    let bomb = r#"<!DOCTYPE problem [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
        <problem xmlns="urn:ietf:rfc:7807"><title>&b;</title></problem>"#;
    assert_eq!(Reader::new().xml(bomb.as_bytes()), Err(ReadError::DocumentType));
    let entity = br#"<problem xmlns="urn:ietf:rfc:7807"><title>&nbsp;</title></problem>"#;
    assert_eq!(Reader::new().xml(entity), Err(ReadError::UnknownEntity { name: "nbsp".into() }));
}

#[test]
fn only_utf8_is_read() {
    assert_eq!(Reader::new().json(b"{\"title\": \"\xff\"}"), Err(ReadError::NotUtf8));
    assert_eq!(Reader::new().xml(b"\xff\xfe<\0p\0"), Err(ReadError::NotUtf8));
    let declared = br#"<?xml version="1.0" encoding="ISO-8859-1"?><problem xmlns="urn:ietf:rfc:7807"/>"#;
    assert_eq!(Reader::new().xml(declared), Err(ReadError::NotUtf8));
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    assert_eq!(read("\u{feff}{\"title\": \"a\"}").problem.title(), Some("a"));
}

#[test]
fn numbers_no_double_can_hold_are_malformed() {
    let refused = Reader::new().json(br#"{"a": 1e999}"#);
    assert!(matches!(refused, Err(ReadError::Malformed { syntax: Syntax::Json, .. })), "{refused:?}");
}

#[test]
fn a_200_with_a_problem_is_a_report_and_a_403_a_failure() {
    let body = br#"{"status": 500, "jobStatus": "FAILED"}"#;
    let read =
        |status| Reader::new().response(status, "application/problem+json; charset=utf-8", body).unwrap();
    let report = read(200).unwrap();
    assert_eq!((report.meaning, report.reading.warnings), (Meaning::Report, vec![]));
    let failure = read(403).unwrap();
    assert_eq!((failure.meaning, failure.status), (Meaning::RequestFailed, 403));
    assert_eq!(failure.reading.warnings, [Warning::StatusDiffers { member: 500, response: 403 }]);
    assert_eq!(Reader::new().response(500, "text/html", b"<p>").unwrap(), None);
}

#[test]
fn json_xml_and_field_are_read_into_one_model() {
    let problem = Problem::builder("/t/1").title("A title").status(404).instance("/i/1").build().unwrap();
    let reader = Reader::new();
    let field = forgerun_problem::FieldWriter::new(404).write(&problem).unwrap();
    let content =
        [("application/problem+json", problem.to_json()), ("Application/Problem+XML", problem.to_xml())];
    for (content_type, body) in content {
        let read = reader.response(404, content_type, body.as_bytes()).unwrap().unwrap();
        assert_eq!((read.reading.problem, read.reading.warnings), (problem.clone(), vec![]));
    }
    assert_eq!(reader.field(field.as_bytes()).unwrap().problem, problem);
}
