//! One delivery attempt as a request: contents, time and both signatures.

use axum::http::header::{HOST, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use bytes::Bytes;
use forgerun_core::time::Time;
use http_body_util::Full;

use super::contents::Contents;
use super::keys::Signer;
use super::signature::{self, SignedMessage};
use super::standard::{SignedContent, WebhookSecret};
use super::target::Target;

/// Our `User-Agent`.
const AGENT: &str = concat!("forgerun/", env!("CARGO_PKG_VERSION"));

#[derive(Clone, Debug)]
pub struct DeliveryRequest {
    pub target: Target,
    pub contents: Contents,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Secrets shared with the receiver, newest first; empty for a job's callback.
    pub secrets: Vec<WebhookSecret>,
    /// Trace of the job.
    pub traceparent: Option<String>,
}

impl DeliveryRequest {
    /// The signed request.
    pub fn request(&self, now: Time, key: Option<&Signer>) -> Request<Full<Bytes>> {
        let seconds = now.as_micros().div_euclid(1_000_000);
        let Contents { id, body, .. } = &self.contents;
        let mut headers = self.plain_headers(seconds);
        if !self.secrets.is_empty() {
            let signed = SignedContent { id, timestamp: seconds, body };
            put(&mut headers, "webhook-signature", &signed.header(&self.secrets));
            if self.contents.is_of_ojs() {
                put(&mut headers, "x-ojs-timestamp", &seconds.to_string());
                put(&mut headers, "x-ojs-signature", &ojs_signature(&self.secrets, seconds, body));
            }
        }
        if let Some(key) = key {
            let message = SignedMessage { method: "POST", target: self.target.as_str(), headers: &headers };
            let fields = signature::sign(&message, key, seconds);
            put(&mut headers, "signature-input", &fields.input);
            put(&mut headers, "signature", &fields.signature);
        }
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.path_and_query().parse().expect("the path of a URL");
        *request.headers_mut() = headers;
        request
    }

    fn plain_headers(&self, seconds: i64) -> HeaderMap {
        let mut headers = self.contents.headers();
        put(&mut headers, HOST.as_str(), self.target.authority());
        put(&mut headers, USER_AGENT.as_str(), AGENT);
        put(&mut headers, "webhook-timestamp", &seconds.to_string());
        put(&mut headers, "x-forgerun-attempt", &self.attempt.to_string());
        if let Some(traceparent) = &self.traceparent {
            put(&mut headers, "traceparent", traceparent);
        }
        headers
    }
}

/// As in Open Job Spec: one signature per secret, of the time, a dot and the body.
fn ojs_signature(secrets: &[WebhookSecret], seconds: i64, body: &[u8]) -> String {
    let content = [format!("{seconds}.").as_bytes(), body].concat();
    let signatures = secrets.iter().map(|secret| format!("sha256={}", secret.sign_hex(&content)));
    signatures.collect::<Vec<_>>().join(",")
}

/// Our own values are ASCII; others are omitted instead of sent mangled.
pub(super) fn put(headers: &mut HeaderMap, name: &str, value: &str) {
    let name = HeaderName::try_from(name).expect("a name of ours");
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use httpsig_hyper::prelude::{AlgorithmName, PublicKey};
    use httpsig_hyper::{MessageSignatureReq, RequestContentDigest};

    use super::super::cloud_event::CloudEvent;
    use super::super::keys::KeySet;
    use super::*;
    use crate::config::PrivateTargets;

    const NOW: Time = Time::from_millis(1_700_000_000_500);

    fn delivery_request() -> DeliveryRequest {
        DeliveryRequest {
            target: Target::parse("https://example.com/hook?a=b", PrivateTargets::Deny).unwrap(),
            contents: Contents {
                id: "d-1".into(),
                event: "job_failed",
                content_type: "application/problem+json",
                body: Bytes::from_static(b"{\"status\":500}"),
                envelope: Vec::new(),
            },
            attempt: 2,
            secrets: Vec::new(),
            traceparent: None,
        }
    }

    fn keys() -> KeySet {
        KeySet { signing: Signer::from_seed(&[7; 32]).unwrap(), others: Vec::new() }
    }

    /// The request as a receiver's framework has it: with the whole URL.
    fn received(mut request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
        *request.uri_mut() = format!("https://example.com{}", request.uri()).parse().unwrap();
        request
    }

    /// Whether an independent library accepts the request.
    async fn accepted(request: Request<Full<Bytes>>, keys: &KeySet) -> bool {
        let document = keys.document();
        let x = document["keys"][0]["x"].as_str().unwrap();
        let bytes = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, x).unwrap();
        let key = PublicKey::from_bytes(&AlgorithmName::Ed25519, &bytes).unwrap();
        let Ok(request) = request.verify_content_digest().await else { return false };
        request.verify_message_signature(&key, None).await.is_ok()
    }

    #[tokio::test]
    async fn another_library_accepts_the_signature_and_nothing_that_was_changed() {
        let keys = keys();
        let request = || received(delivery_request().request(NOW, Some(&keys.signing)));
        assert!(accepted(request(), &keys).await);
        let mut changed = request();
        *changed.uri_mut() = "https://example.com/hook?a=c".parse().unwrap();
        assert!(!accepted(changed, &keys).await);
        let mut changed = request();
        *changed.method_mut() = Method::PUT;
        assert!(!accepted(changed, &keys).await);
        for (name, value) in [("content-type", "application/json"), ("webhook-id", "d-2")] {
            let mut changed = request();
            changed.headers_mut().insert(name, HeaderValue::from_static(value));
            assert!(!accepted(changed, &keys).await, "{name}");
        }
        let mut changed = request();
        *changed.body_mut() = Full::new(Bytes::from_static(b"{\"status\":501}"));
        assert!(!accepted(changed, &keys).await);
    }

    #[tokio::test]
    async fn an_envelope_in_headers_is_signed_as_well() {
        let keys = keys();
        let envelope = CloudEvent {
            id: "e-1".into(),
            source: "/".into(),
            kind: "dev.forgerun.job.failed".into(),
            subject: None,
            time: "2026-01-01T00:00:00Z".into(),
        };
        let contents = Contents { envelope: envelope.headers(), ..delivery_request().contents };
        let delivery_request = DeliveryRequest { contents, ..delivery_request() };
        let request = || received(delivery_request.request(NOW, Some(&keys.signing)));
        assert!(accepted(request(), &keys).await);
        let mut changed = request();
        changed.headers_mut().insert("ce-type", HeaderValue::from_static("dev.forgerun.job.completed"));
        assert!(!accepted(changed, &keys).await);
    }

    #[test]
    fn a_request_says_who_sends_what_to_whom() {
        let keys = keys();
        let secret = WebhookSecret::from_bytes(vec![7; 32]).unwrap();
        let traceparent = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into());
        let delivery_request =
            DeliveryRequest { secrets: vec![secret.clone(), secret], traceparent, ..delivery_request() };
        let request = delivery_request.request(NOW, Some(&keys.signing));
        assert_eq!((request.method(), request.uri().to_string().as_str()), (&Method::POST, "/hook?a=b"));
        let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap());
        for (name, value) in [
            ("host", "example.com"),
            ("content-type", "application/problem+json"),
            ("webhook-id", "d-1"),
            ("webhook-timestamp", "1700000000"),
            ("x-forgerun-event", "job_failed"),
            ("x-forgerun-attempt", "2"),
            ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ] {
            assert_eq!(header(name), Some(value), "{name}");
        }
        assert!(header("user-agent").unwrap().starts_with("forgerun/"));
        assert_eq!(header("webhook-signature").unwrap().split(' ').count(), 2);
        let expected = format!(
            "sig1=(\"@method\" \"@target-uri\" \"content-type\" \"content-digest\" \"webhook-id\");\
             created=1700000000;alg=\"ed25519\";keyid=\"{}\"",
            keys.signing.public.id
        );
        assert_eq!(header("signature-input"), Some(expected.as_str()));
    }

    #[test]
    fn without_keys_and_secrets_nothing_is_signed() {
        let request = delivery_request().request(NOW, None);
        for name in ["signature", "signature-input", "webhook-signature"] {
            assert!(!request.headers().contains_key(name), "{name}");
        }
    }
}
