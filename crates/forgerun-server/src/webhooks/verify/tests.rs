//! Each way in which a signature can fail, and what is said of it.

use axum::http::HeaderMap;
use bytes::Bytes;

use super::*;
use crate::config::PrivateTargets;
use crate::webhooks::keys::Signer;
use crate::webhooks::{Contents, DeliveryRequest, Target};

const NOW: Time = Time::from_millis(1_700_000_000_000);
const URL: &str = "https://example.com/hook?a=b";
const BODY: &[u8] = b"{\"status\":500}";

struct Scene {
    method: &'static str,
    url: String,
    headers: HeaderMap,
    body: Vec<u8>,
    secrets: Vec<WebhookSecret>,
    keys: Vec<PublicKey>,
    now: Time,
}

fn secret(byte: u8) -> WebhookSecret {
    WebhookSecret::from_bytes(vec![byte; 32]).unwrap()
}

fn key(byte: u8) -> Signer {
    Signer::from_seed(&[byte; 32]).unwrap()
}

/// A delivery as it should be.
fn scene() -> Scene {
    let delivery_request = DeliveryRequest {
        target: Target::parse(URL, PrivateTargets::Deny).unwrap(),
        contents: Contents {
            id: "d-1".into(),
            event: "job_failed",
            content_type: "application/problem+json",
            body: Bytes::from_static(BODY),
            envelope: Vec::new(),
        },
        attempt: 1,
        secrets: vec![secret(1), secret(2)],
        traceparent: None,
    };
    let headers = delivery_request.request(NOW, Some(&key(7))).headers().clone();
    Scene {
        method: "POST",
        url: URL.into(),
        headers,
        body: BODY.to_vec(),
        secrets: vec![secret(2)],
        keys: vec![key(9).public, key(7).public],
        now: NOW,
    }
}

impl Scene {
    fn with(mut self, change: impl FnOnce(&mut Scene)) -> Scene {
        change(&mut self);
        self
    }

    fn reports(&self) -> (SignatureReport, SignatureReport) {
        let Scene { method, url, headers, body, secrets, keys, now } = self;
        let delivery = ReceivedDelivery { method, url, headers, body };
        let means = VerifyOptions { secrets, keys, now: Some(*now), tolerance: Duration::from_secs(300) };
        (message_signature(&delivery, &means), standard_signature(&delivery, &means))
    }
}

/// The first objection and the last hint to the message signature.
#[track_caller]
fn message(change: impl FnOnce(&mut Scene), objection: &str, hint: &str) {
    let (report, _) = scene().with(change).reports();
    expect(&report, objection, hint);
}

#[track_caller]
fn standard(change: impl FnOnce(&mut Scene), objection: &str, hint: &str) {
    let (_, report) = scene().with(change).reports();
    expect(&report, objection, hint);
}

#[track_caller]
fn expect(report: &SignatureReport, objection: &str, hint: &str) {
    assert!(!report.holds(), "{report}");
    assert!(report.objection().unwrap_or_default().contains(objection), "wanted {objection:?} in\n{report}");
    let hints = report.steps.iter().filter(|step| step.mark == StepMark::Hint);
    assert!(
        hint.is_empty() || hints.into_iter().any(|step| step.text.contains(hint)),
        "wanted {hint:?} in\n{report}"
    );
}

#[test]
fn what_we_send_holds() {
    let (message, standard) = scene().reports();
    assert!(message.holds() && message.steps.len() == 6, "{message}");
    assert!(standard.holds() && standard.steps.len() == 3, "{standard}");
}

#[test]
fn a_changed_body_is_told_and_how_it_was_changed() {
    message(|scene| scene.body[3] = b'x', "Content-Digest is not that of the body", "changed on its way");
    message(|scene| scene.body.push(b'\n'), "Content-Digest is not", "without the line break at the end");
    message(
        |scene| scene.body = b"{\"status\": 500}".to_vec(),
        "Content-Digest is not",
        "same JSON without blanks",
    );
    standard(|scene| scene.body[3] = b'x', "none of 2 signatures", "secret of this webhook");
    standard(|scene| scene.body.push(b'\n'), "none of 2 signatures", "without the line break at the end");
    standard(|scene| scene.body = b"{\"status\": 500}".to_vec(), "none of 2", "same JSON without blanks");
}

#[test]
fn a_url_that_differs_is_told_with_the_one_that_was_signed() {
    let url = |url: &'static str| move |scene: &mut Scene| scene.url = url.into();
    message(
        url("http://example.com/hook?a=b"),
        "not made with that key over",
        "holds for the URL https://example.com/hook?a=b",
    );
    message(
        url("https://example.com/hook/?a=b"),
        "not made with that key over",
        "holds for the URL https://",
    );
    message(
        url("https://other.example/hook?a=b"),
        "not made with that key over",
        "| \"@target-uri\": https://other.example/hook?a=b",
    );
    message(|scene| scene.method = "PUT", "not made with that key over", "holds for the method POST");
}

#[test]
fn missing_headers_are_named() {
    for name in ["content-digest", "signature-input", "signature"] {
        message(|scene| drop(scene.headers.remove(name)), "no readable", "");
    }
    message(
        |scene| drop(scene.headers.remove("webhook-id")),
        "webhook-id is signed, and the request has no such",
        "",
    );
    for (name, hint) in [("webhook-id", ""), ("webhook-timestamp", ""), ("webhook-signature", "callback")] {
        standard(|scene| drop(scene.headers.remove(name)), &format!("there is no {name} header"), hint);
    }
}

#[test]
fn an_old_or_early_signature_is_told() {
    message(|scene| scene.now = NOW + Duration::from_secs(301), "created is 301 s old", "");
    message(|scene| scene.now = NOW - Duration::from_secs(301), "created lies 301 s in the future", "");
    standard(|scene| scene.now = NOW + Duration::from_secs(301), "webhook-timestamp is 301 s old", "");
    let (message, standard) = scene().with(|scene| scene.now = NOW + Duration::from_secs(300)).reports();
    assert!(message.holds() && standard.holds(), "{message}{standard}");
}

#[test]
fn a_wrong_key_or_secret_is_told() {
    message(|scene| scene.keys = vec![key(9).public], "is not among those given", "fetch the keys again");
    standard(|scene| scene.secrets = vec![secret(3)], "none of 2 signatures was made with the secret", "");
    message(
        |scene| {
            let mut stranger = key(9).public;
            stranger.id = key(7).public.id;
            scene.keys = vec![stranger];
        },
        "not made with that key over",
        "this is what must have been signed",
    );
}

#[test]
fn a_signature_that_covers_too_little_does_not_hold() {
    message(
        |scene| {
            let input = scene.headers["signature-input"].to_str().unwrap().replace("\"content-digest\" ", "");
            scene.headers.insert("signature-input", input.parse().unwrap());
        },
        "content-digest not signed",
        "",
    );
    message(
        |scene| {
            let input = scene.headers["signature-input"]
                .to_str()
                .unwrap()
                .replace("alg=\"ed25519\"", "alg=\"hmac-sha256\"");
            scene.headers.insert("signature-input", input.parse().unwrap());
        },
        "the algorithm is hmac-sha256",
        "",
    );
}

#[test]
fn hostile_headers_are_bad_and_no_reason_to_panic() {
    for value in
        ["", "sig1", "sig1=()", "sig1=1", "sig1=(1 2);keyid=3", "sig1=(\"@method\";x);created=x", "ü"]
    {
        for name in
            ["signature-input", "signature", "content-digest", "webhook-timestamp", "webhook-signature"]
        {
            let change = |scene: &mut Scene| {
                scene.headers.insert(name, axum::http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
            };
            let (message, standard) = scene().with(change).reports();
            assert!(!(message.holds() && standard.holds()), "{name}: {value}");
        }
    }
}

/// The kind of what is wrong first, as `sdk/vectors/README.md` names it.
fn kind(report: &SignatureReport) -> &'static str {
    let Some(objection) = report.objection() else { return "ok" };
    let kinds = [
        ("there is no readable", "missing_header"),
        ("is not in both Signature-Input and Signature", "missing_header"),
        ("there is no webhook-", "missing_header"),
        ("Content-Digest", "bad_digest"),
        ("not signed, so", "not_covered"),
        ("there is no created parameter", "bad_timestamp"),
        ("is no number of seconds", "bad_timestamp"),
        ("may be a replay", "expired"),
        ("in the future", "expired"),
        ("the signature has expired", "expired"),
        ("the algorithm is", "bad_algorithm"),
        ("there is no keyid", "unknown_key"),
        ("is not among those given", "unknown_key"),
        ("not made with that key", "bad_signature"),
        ("was made with the secret over this id", "bad_signature"),
        ("holds no signature that begins with", "bad_signature"),
        ("is signed, and the request has no such component", "bad_signature"),
    ];
    let found = kinds.iter().find(|(text, _)| objection.contains(text));
    found.unwrap_or_else(|| panic!("an objection without a kind: {objection}")).1
}

#[test]
fn the_vectors_of_the_sdks_hold() {
    let path = format!("{}/../../sdk/vectors/signatures.json", env!("CARGO_MANIFEST_DIR"));
    let file: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let tolerance = Duration::from_secs(file["tolerance_s"].as_u64().unwrap());
    let cases = file["cases"].as_array().filter(|cases| !cases.is_empty()).expect("cases");
    for case in cases {
        let pairs = case["headers"].as_object().unwrap().iter();
        let headers: HeaderMap = pairs
            .map(|(name, value)| {
                let name: axum::http::HeaderName = name.parse().unwrap();
                (name, value.as_str().unwrap().parse().unwrap())
            })
            .collect();
        let delivery = ReceivedDelivery {
            method: case["method"].as_str().unwrap_or("POST"),
            url: case["url"].as_str().unwrap_or(URL),
            headers: &headers,
            body: case["body"].as_str().unwrap().as_bytes(),
        };
        let secrets: Vec<WebhookSecret> =
            case["secret"].as_str().and_then(WebhookSecret::parse).into_iter().collect();
        let keys =
            crate::webhooks::keys::read_document(case["jwks"].to_string().as_bytes()).unwrap_or_default();
        let now = Some(Time::from_millis(case["now"].as_i64().unwrap() * 1000));
        let means = VerifyOptions { secrets: &secrets, keys: &keys, now, tolerance };
        let report = match case["scheme"].as_str().unwrap() {
            "standard" => standard_signature(&delivery, &means),
            "rfc9421" => message_signature(&delivery, &means),
            other => panic!("{other}"),
        };
        assert_eq!(kind(&report), case["expect"], "{}\n{report}", case["name"]);
    }
}
