//! Every example of draft-ietf-httpapi-rfc7807bis-04, read, built and written.

use forgerun_problem::read::Reader;
use forgerun_problem::{BaseUri, FieldType, FieldWriter, Problem, Status, UriRef};
use serde_json::json;

/// Section 3, first example; also embedded in HTML in Appendix C.
const OUT_OF_CREDIT: &str = r#"{
 "type": "https://example.com/probs/out-of-credit",
 "title": "You do not have enough credit.",
 "detail": "Your current balance is 30, but that costs 50.",
 "instance": "/account/12345/msgs/abc",
 "balance": 30,
 "accounts": ["/account/12345",
              "/account/67890"]
}"#;

fn out_of_credit() -> Problem {
    Problem::builder("https://example.com/probs/out-of-credit")
        .title("You do not have enough credit.")
        .detail("Your current balance is 30, but that costs 50.")
        .instance("/account/12345/msgs/abc")
        .extension("balance", 30)
        .extension("accounts", json!(["/account/12345", "/account/67890"]))
        .build()
        .unwrap()
}

fn read(document: &str) -> Problem {
    let reading = Reader::new().json(document.as_bytes()).unwrap();
    assert_eq!(reading.warnings, []);
    reading.problem
}

#[test]
fn out_of_credit_can_be_read_and_built() {
    assert_eq!(read(OUT_OF_CREDIT), out_of_credit());
}

#[test]
fn out_of_credit_is_written_in_the_order_of_the_draft() {
    let written: serde_json::Map<_, _> = serde_json::from_str(&out_of_credit().to_json()).unwrap();
    let names: Vec<_> = written.keys().map(String::as_str).collect();
    assert_eq!(names, ["type", "title", "detail", "instance", "balance", "accounts"]);
}

#[test]
fn out_of_credit_can_be_embedded_in_html() {
    let html = format!("<script type=\"application/problem+json\">\n  {OUT_OF_CREDIT}\n</script>");
    let inner = html.split_once('>').unwrap().1.rsplit_once("</script>").unwrap().0;
    assert_eq!(read(inner), out_of_credit());
}

#[test]
fn a_validation_problem_lists_several_errors_of_one_type() {
    let problem = read(
        r##"{
 "type": "https://example.net/validation-error",
 "title": "Your request is not valid.",
 "errors": [
             {"detail": "must be a positive integer", "pointer": "#/age"},
             {"detail": "must be 'green', 'red' or 'blue'", "pointer": "#/profile/color"}
          ]
  }"##,
    );
    assert_eq!(problem.extensions()["errors"][1]["pointer"], "#/profile/color");
    let canonical = problem.to_canonical_json();
    assert_eq!(read(&canonical), problem);
}

#[test]
fn the_xml_example_is_read_into_the_same_model() {
    let document = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<problem xmlns=\"urn:ietf:rfc:7807\">
  <type>https://example.com/probs/out-of-credit</type>
  <title>You do not have enough credit.</title>
  <detail>Your current balance is 30, but that costs 50.</detail>
  <instance>https://example.net/account/12345/msgs/abc</instance>
  <balance>30</balance>
  <accounts>
    <i>https://example.net/account/12345</i>
    <i>https://example.net/account/67890</i>
  </accounts>
</problem>
";
    let reading = Reader::new().xml(document.as_bytes()).unwrap();
    let accounts = json!(["https://example.net/account/12345", "https://example.net/account/67890"]);
    let expected = out_of_credit()
        .into_builder()
        .instance("https://example.net/account/12345/msgs/abc")
        .extension("balance", "30")
        .extension("accounts", accounts)
        .build()
        .unwrap();
    assert_eq!((reading.problem, reading.warnings), (expected, vec![]));
}

#[test]
fn the_xml_example_is_written_as_in_the_draft() {
    assert_eq!(
        out_of_credit().to_xml(),
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <problem xmlns=\"urn:ietf:rfc:7807\">\
         <type>https://example.com/probs/out-of-credit</type>\
         <title>You do not have enough credit.</title>\
         <detail>Your current balance is 30, but that costs 50.</detail>\
         <instance>/account/12345/msgs/abc</instance>\
         <balance>30</balance>\
         <accounts><i>/account/12345</i><i>/account/67890</i></accounts>\
         </problem>"
    );
}

#[test]
fn the_field_example_is_read_and_written() {
    let field = "type=\"https://example.net/problems/almost-out\",   \
                 title=\"you're almost out of credit\", credit_left=20";
    let problem = Problem::builder("https://example.net/problems/almost-out")
        .title("you're almost out of credit")
        .extension("credit_left", 20)
        .build()
        .unwrap();
    let reading = Reader::new().field(field.as_bytes()).unwrap();
    assert_eq!((&reading.problem, reading.warnings), (&problem, vec![]));
    let written = FieldWriter::new(200).extension("credit_left", FieldType::Integer).write(&problem);
    assert_eq!(
        written.as_deref(),
        Some(
            "type=\"https://example.net/problems/almost-out\", title=\"you're almost out of credit\", credit_left=20"
        )
    );
}

#[test]
fn a_tag_uri_is_a_type_like_any_other() {
    let problem = Problem::builder("tag:mnot@mnot.net,2021-09-17:OutOfLuck").build().unwrap();
    assert_eq!(read(&problem.to_json()).type_uri(), "tag:mnot@mnot.net,2021-09-17:OutOfLuck");
}

#[test]
fn a_registered_type_keeps_its_fragment() {
    let uri = "https://iana.org/assignments/http-problem-types#date";
    assert_eq!(read(&Problem::builder(uri).build().unwrap().to_json()).type_uri(), uri);
}

#[test]
fn no_type_means_about_blank() {
    assert_eq!(read("{}").type_uri(), "about:blank");
    assert_eq!(read(r#"{"type": null}"#).type_uri(), "about:blank");
    assert_eq!(Problem::untyped().build().unwrap().type_uri(), "about:blank");
}

#[test]
fn a_blank_problem_is_titled_by_its_reason_phrase() {
    let problem = Problem::blank(Status::new(404).unwrap());
    assert_eq!(problem.to_json(), r#"{"title":"Not Found","status":404}"#);
}

#[test]
fn relative_type_and_instance_are_resolved_against_the_base() {
    let document = br#"{"type": "example-problem", "instance": "example-instance"}"#;
    let read_from = |base: &str| {
        let reader = Reader::new().with_base(BaseUri::new(base).unwrap());
        let problem = reader.json(document).unwrap().problem;
        (problem.type_uri().to_owned(), problem.instance().map(UriRef::to_string).unwrap())
    };
    assert_eq!(
        read_from("https://api.example.org/foo/bar/123"),
        (
            "https://api.example.org/foo/bar/example-problem".into(),
            "https://api.example.org/foo/bar/example-instance".into()
        )
    );
    assert_eq!(
        read_from("https://api.example.org/widget/456"),
        (
            "https://api.example.org/widget/example-problem".into(),
            "https://api.example.org/widget/example-instance".into()
        )
    );
}
