//! Responses for axum.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use axum_core::extract::FromRequestParts;
use axum_core::response::{IntoResponse, Response};
use forgerun_problem::axum::{Preferences, ProblemField, ProblemResponse};
use forgerun_problem::read::{Meaning, Reader};
use forgerun_problem::{FieldType, FieldWriter, Problem, Status};
use http::{HeaderMap, Request, header};
use http_body_util::BodyExt;

/// Runs a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nothing here should wait"),
    }
}

fn body(response: Response) -> Vec<u8> {
    now(response.into_body().collect()).unwrap().to_bytes().to_vec()
}

fn preferences(pairs: &[(header::HeaderName, &str)]) -> Preferences {
    let mut request = Request::builder();
    for (name, value) in pairs {
        request = request.header(name, *value);
    }
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    now(Preferences::from_request_parts(&mut parts, &())).unwrap()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

fn out_of_credit() -> Problem {
    Problem::builder("https://example.com/probs/out-of-credit")
        .title("Out of credit")
        .status(403)
        .build()
        .unwrap()
}

#[test]
fn a_problem_is_a_response_with_its_own_status() {
    let response = out_of_credit().into_response();
    assert_eq!(response.status(), 403);
    assert_eq!(header(response.headers(), "content-type"), Some("application/problem+json"));
    assert_eq!(body(response), out_of_credit().to_json().into_bytes());
}

#[test]
fn the_status_of_the_response_and_of_the_member_always_agree() {
    for code in [100, 199, 200, 404, 599] {
        let problem = Problem::blank(Status::new(code).unwrap());
        let response = problem.into_response();
        let sent = response.status().as_u16();
        let read = Reader::new().json(&body(response)).unwrap().problem;
        assert_eq!(read.status().unwrap().code(), sent);
    }
    assert_eq!(Problem::default().into_response().status(), 500);
}

#[test]
fn the_client_gets_the_representation_it_wants() {
    for (accept, content_type) in [
        ("application/problem+xml", "application/problem+xml"),
        ("application/json", "application/problem+json"),
        ("text/html", "application/problem+json"),
    ] {
        let preferences = preferences(&[(header::ACCEPT, accept)]);
        let response = ProblemResponse::new(out_of_credit()).wanted(&preferences).into_response();
        assert_eq!(header(response.headers(), "content-type"), Some(content_type));
        assert_eq!(header(response.headers(), "vary"), Some("Accept, Accept-Language"));
        let read = Reader::new().response(403, content_type, &body(response)).unwrap().unwrap();
        assert_eq!((read.meaning, read.reading.problem), (Meaning::RequestFailed, out_of_credit()));
    }
}

#[test]
fn several_accept_lines_count_as_one() {
    let preferences = preferences(&[
        (header::ACCEPT, "application/problem+json;q=0.1"),
        (header::ACCEPT, "application/problem+xml"),
    ]);
    let response = ProblemResponse::new(out_of_credit()).wanted(&preferences).into_response();
    assert_eq!(header(response.headers(), "content-type"), Some("application/problem+xml"));
}

#[test]
fn the_language_is_negotiated_and_told() {
    let preferences = preferences(&[(header::ACCEPT_LANGUAGE, "de-AT, en;q=0.5")]);
    let language = preferences.language("en", &["de"]);
    let response = ProblemResponse::new(out_of_credit()).in_language(language).into_response();
    assert_eq!(header(response.headers(), "content-language"), Some("de"));
    assert_eq!(Preferences::default().language("en", &["de"]), "en");
}

#[test]
fn retry_after_is_sent_as_a_header_too_and_job_members_are_not_cached() {
    let response = crate::samples::full_failure().into_response();
    assert_eq!(header(response.headers(), "retry-after"), Some("60"));
    assert_eq!(header(response.headers(), "cache-control"), Some("no-store"));
    let plain = out_of_credit().into_response();
    assert_eq!(header(plain.headers(), "retry-after"), None);
    assert_eq!(header(plain.headers(), "cache-control"), None);
}

#[test]
fn a_stored_report_is_served_with_200_and_keeps_its_status() {
    let response = ProblemResponse::report(crate::samples::full_failure()).into_response();
    assert_eq!(response.status(), 200);
    let read = Reader::new().response(200, "application/problem+json", &body(response)).unwrap().unwrap();
    assert_eq!((read.meaning, read.reading.warnings), (Meaning::Report, vec![]));
    assert_eq!(read.reading.problem.status().unwrap().code(), 503);
}

#[test]
fn a_success_can_carry_a_problem_field() {
    let writer = FieldWriter::new(200).extension("credit_left", FieldType::Integer);
    let almost =
        Problem::builder("/probs/almost-out").status(403).extension("credit_left", 20).build().unwrap();
    let response = (ProblemField::new(&almost, &writer), "fine").into_response();
    assert_eq!(response.status(), 200);
    assert_eq!(header(response.headers(), "problem"), Some(r#"type="/probs/almost-out", credit_left=20"#));
    let nothing = (ProblemField::new(&Problem::default(), &writer), "fine").into_response();
    assert_eq!(header(nothing.headers(), "problem"), None);
}
