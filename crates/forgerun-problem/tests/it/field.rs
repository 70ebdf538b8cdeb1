//! The `Problem` header field of draft -04.

use forgerun_problem::read::{ReadError, Reader, Syntax, Warning};
use forgerun_problem::{FieldType, FieldWriter, Job, JobStatus, Problem, ProblemBuilder};
use serde_json::json;

fn builder() -> ProblemBuilder {
    Problem::builder("/t/1")
        .title("Almost out")
        .status(503)
        .detail("Only \"20\" left \\ soon none")
        .instance("/i/1")
}

#[test]
fn the_field_is_a_dictionary_of_the_standard_members() {
    let field = FieldWriter::new(503).write(&builder().build().unwrap()).unwrap();
    assert_eq!(
        field,
        r#"type="/t/1", title="Almost out", status=503, detail="Only \"20\" left \\ soon none", instance="/i/1""#
    );
    assert_eq!(Reader::new().field(field.as_bytes()).unwrap().problem, builder().build().unwrap());
}

#[test]
fn status_is_written_only_if_it_is_that_of_the_response() {
    let problem = Problem::blank(forgerun_problem::Status::new(503).unwrap());
    assert_eq!(FieldWriter::new(200).write(&problem).as_deref(), Some(r#"title="Service Unavailable""#));
    assert_eq!(
        FieldWriter::new(503).write(&problem).as_deref(),
        Some(r#"title="Service Unavailable", status=503"#)
    );
}

#[test]
fn title_and_detail_outside_ascii_are_left_out() {
    for text in ["caf\u{e9}", "a\nb", "\u{7f}", "\u{1f600}"] {
        let problem = builder().title(text).detail(text).build().unwrap();
        let field = FieldWriter::new(200).write(&problem).unwrap();
        assert_eq!(field, r#"type="/t/1", instance="/i/1""#);
    }
}

#[test]
fn extensions_are_written_only_with_a_legal_key_and_the_type_they_are_defined_with() {
    let problem = Problem::untyped()
        .extension("code", "E42")
        .extension("word", "a/b")
        .extension("left", 20)
        .extension("share", 0.1239)
        .extension("final", false)
        .extension("camelCase", 1)
        .extension("list", json!([1]))
        .extension("unasked", 1)
        .extension("wrong", "text")
        .extension("huge", 9_007_199_254_740_991_u64)
        .build()
        .unwrap();
    let writer = FieldWriter::new(200)
        .extension("code", FieldType::String)
        .extension("word", FieldType::Token)
        .extension("left", FieldType::Integer)
        .extension("share", FieldType::Decimal)
        .extension("final", FieldType::Boolean)
        .extension("camelCase", FieldType::Integer)
        .extension("list", FieldType::Integer)
        .extension("wrong", FieldType::Integer)
        .extension("huge", FieldType::Integer);
    let field = writer.write(&problem).unwrap();
    assert_eq!(field, r#"code="E42", word=a/b, left=20, share=0.124, final=?0"#);
}

#[test]
fn job_members_have_field_only_spellings() {
    let job = Job::builder()
        .id("j-1")
        .status(JobStatus::Failed)
        .retryable(true)
        .retry_after_s(60)
        .processing_stage("storage");
    let problem = Problem::untyped().job(job).extension("job_id", "other").build().unwrap();
    assert_eq!(FieldWriter::new(200).write(&problem), None);
    let writer = FieldWriter::new(200).job_members().extension("job_id", FieldType::String);
    let field = writer.write(&problem).unwrap();
    let expected =
        r#"job_id="j-1", job_status="FAILED", retryable, retry_after=60, processing_stage="storage""#;
    assert_eq!(field, expected);
    let read = Reader::new().field(field.as_bytes()).unwrap();
    assert_eq!((read.problem.job(), read.warnings), (problem.job(), vec![]));
}

#[test]
fn several_lines_are_one_field_and_the_last_of_equal_keys_counts() {
    let lines = [&b"title=\"a\", left=1"[..], b"left=2"];
    let problem = Reader::new().field_lines(lines).unwrap().problem;
    assert_eq!(problem.to_json(), r#"{"title":"a","left":2}"#);
}

#[test]
fn keys_of_the_wrong_type_are_ignored_and_unknown_ones_kept() {
    let field = b"type=token, status=\"500\", title=%\"caf%c3%a9\", bytes=:aGk=:, when=@1740567600, \
                  word=tok, list=(1 \"a\" 2.5);p=1, flag, inner=(tok :aGk=:)";
    let reading = Reader::new().field(field).unwrap();
    let expected = r#"{"when":1740567600,"word":"tok","list":[1,"a",2.5],"flag":true}"#;
    assert_eq!(reading.problem.to_json(), expected);
    let ignored = ["type", "title", "bytes", "inner", "status"];
    assert_eq!(reading.warnings, ignored.map(|member| Warning::WrongType { member: member.into() }));
}

#[test]
fn what_is_no_dictionary_is_refused() {
    for field in [&b"type=\"a"[..], b"=1", b"Type=1", b"a=1,,b=2", b"\xff", b"a=99999999999999999"] {
        let refused = Reader::new().field(field);
        assert!(
            matches!(refused, Err(ReadError::Malformed { syntax: Syntax::Dictionary, .. })),
            "{refused:?}"
        );
    }
    assert_eq!(Reader::new().field(b"").unwrap().problem, Problem::default());
}
