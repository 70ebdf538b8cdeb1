//! RFC 9421 and RFC 9530, step by step.

use axum::http::HeaderMap;
use sfv::{BareItem, Dictionary, InnerList, ListEntry, Parser};
use url::Url;

use super::{ReceivedDelivery, SignatureReport, VerifyOptions, changed_body};
use crate::webhooks::keys::PublicKey;
use crate::webhooks::signature::{self, ALGORITHM, LABEL, SignedMessage};

/// Components that must be signed: changing one of them changes the delivery.
const REQUIRED: [&str; 4] = ["@method", "@target-uri", "content-type", "content-digest"];

pub(super) fn check(delivery: &ReceivedDelivery<'_>, means: &VerifyOptions<'_>) -> SignatureReport {
    let mut report = SignatureReport::default();
    digest(&mut report, delivery);
    let Some(found) = find(&mut report, delivery.headers) else { return report };
    covered(&mut report, &found);
    times(&mut report, means, &found);
    let Some(key) = key(&mut report, means, &found) else { return report };
    signed(&mut report, delivery, means, &found, key);
    report
}

pub(super) fn key_id(headers: &HeaderMap) -> Option<String> {
    find(&mut SignatureReport::default(), headers)?.key_id().map(str::to_owned)
}

/// A signature and its parameters.
struct FoundSignature {
    list: InnerList,
    signature: Vec<u8>,
}

impl FoundSignature {
    fn components(&self) -> impl Iterator<Item = (&str, String)> {
        let names = self.list.items.iter().filter_map(|item| Some(item.bare_item.as_string()?.as_str()));
        names.map(|name| (name, format!("\"{name}\"")))
    }

    fn parameter(&self, name: &str) -> Option<&BareItem> {
        self.list.params.get(name)
    }

    fn key_id(&self) -> Option<&str> {
        Some(self.parameter("keyid")?.as_string()?.as_str())
    }

    fn base(&self, message: &SignedMessage<'_>) -> Result<String, &str> {
        signature::base(message, self.components(), &signature::params_of(&self.list))
    }
}

fn digest(report: &mut SignatureReport, delivery: &ReceivedDelivery<'_>) {
    let Some(fields) = dictionary(delivery.headers, "content-digest") else {
        report.bad("there is no readable Content-Digest header");
        return;
    };
    let Some(ListEntry::Item(item)) = fields.get("sha-256") else {
        report.bad("Content-Digest has no sha-256");
        return;
    };
    let ours = signature::content_digest(delivery.body);
    let same = |body: &[u8]| {
        let ours = Parser::new(&signature::content_digest(body)).parse::<Dictionary>();
        matches!(ours.as_ref().ok().and_then(|ours| ours.get("sha-256")), Some(ListEntry::Item(ours)) if ours == item)
    };
    if same(delivery.body) {
        report.good("Content-Digest is that of the body");
    } else {
        report.bad(format!(
            "Content-Digest is not that of the body; its {} bytes would have {ours}",
            delivery.body.len()
        ));
        report.hint(changed_body(delivery.body, same).unwrap_or(
            "the body was changed on its way, or is not what came over the wire (decoded, cut off, parsed)",
        ));
    }
}

fn find(report: &mut SignatureReport, headers: &HeaderMap) -> Option<FoundSignature> {
    let inputs = dictionary(headers, "signature-input");
    let signatures = dictionary(headers, "signature");
    let (Some(inputs), Some(signatures)) = (inputs, signatures) else {
        for name in ["signature-input", "signature"] {
            if dictionary(headers, name).is_none() {
                report.bad(format!("there is no readable {name} header"));
            }
        }
        return None;
    };
    let first = inputs.iter().next().map_or(LABEL, |(name, _)| name.as_str());
    let label = if inputs.contains_key(LABEL) { LABEL } else { first };
    let signature = match signatures.get(label) {
        Some(ListEntry::Item(item)) => item.bare_item.as_byte_sequence().map(<[u8]>::to_vec),
        Some(ListEntry::InnerList(_)) | None => None,
    };
    match (inputs.get(label), signature) {
        (Some(ListEntry::InnerList(list)), Some(signature)) => {
            report.good(format!("Signature-Input and Signature are there, as {label}"));
            Some(FoundSignature { list: list.clone(), signature })
        }
        _ => {
            report.bad(format!("{label} is not in both Signature-Input and Signature"));
            None
        }
    }
}

fn covered(report: &mut SignatureReport, found: &FoundSignature) {
    let missing: Vec<&str> = REQUIRED
        .into_iter()
        .filter(|name| found.components().all(|(component, _)| component != *name))
        .collect();
    if missing.is_empty() {
        report.good(format!("{} are signed", REQUIRED.join(", ")));
    } else {
        report.bad(format!("{} not signed, so it could be anything", missing.join(", ")));
    }
}

fn times(report: &mut SignatureReport, means: &VerifyOptions<'_>, found: &FoundSignature) {
    let seconds = |name| found.parameter(name).and_then(|value| value.as_integer()).map(i64::from);
    match seconds("created") {
        Some(created) => report.age(means, "created", created),
        None => report.bad("there is no created parameter: the signature could be of any age"),
    }
    if let (Some(expires), Some(now)) = (seconds("expires"), means.now)
        && now.as_micros().div_euclid(1_000_000) > expires
    {
        report.bad("the signature has expired");
    }
}

fn key<'a>(
    report: &mut SignatureReport,
    means: &VerifyOptions<'a>,
    found: &FoundSignature,
) -> Option<&'a PublicKey> {
    let algorithm = found.parameter("alg").and_then(|alg| Some(alg.as_string()?.as_str()));
    if algorithm.is_some_and(|algorithm| algorithm != ALGORITHM) {
        report.bad(format!("the algorithm is {}, not {ALGORITHM}", algorithm.unwrap_or_default()));
        return None;
    }
    let Some(id) = found.key_id() else {
        report.bad("there is no keyid parameter");
        return None;
    };
    let key = means.keys.iter().find(|key| key.id == id);
    match key {
        Some(_) => report.good(format!("the key {id} is among those given")),
        None => {
            let known: Vec<&str> = means.keys.iter().map(|key| key.id.as_str()).collect();
            report.bad(format!("the key {id} is not among those given: {}", known.join(", ")));
            report.hint(
                "fetch the keys again: they may have been changed; or the delivery is from another server",
            );
        }
    }
    key
}

fn signed(
    report: &mut SignatureReport,
    delivery: &ReceivedDelivery<'_>,
    means: &VerifyOptions<'_>,
    found: &FoundSignature,
    key: &PublicKey,
) {
    let headers = delivery.headers;
    let base = match found.base(&SignedMessage { method: delivery.method, target: delivery.url, headers }) {
        Ok(base) => base,
        Err(name) => {
            report.bad(format!("{name} is signed, and the request has no such component"));
            return;
        }
    };
    if key.verifies(base.as_bytes(), &found.signature) {
        report.good("the signature was made with that key over these components");
        return;
    }
    report.bad("the signature was not made with that key over these components");
    let holds = |method: &str, url: &str, key: &PublicKey| {
        let base = found.base(&SignedMessage { method, target: url, headers });
        base.is_ok_and(|base| key.verifies(base.as_bytes(), &found.signature))
    };
    if let Some(url) = neighbours(delivery.url).into_iter().find(|url| holds(delivery.method, url, key)) {
        report.hint(format!(
            "it holds for the URL {url}: a proxy before you changed it, or it was put together wrongly"
        ));
    } else if delivery.method != "POST" && holds("POST", delivery.url, key) {
        report.hint("it holds for the method POST");
    } else if let Some(other) = means.keys.iter().find(|other| holds(delivery.method, delivery.url, other)) {
        report.hint(format!("it holds for the key {}", other.id));
    } else {
        report.hint(
            "a header, the method or the URL differs from what was sent; this is what must have been signed:",
        );
        for line in base.lines() {
            report.hint(format!("| {line}"));
        }
    }
}

/// URLs that are easily confused: behind a proxy that terminates TLS, with or without a slash or
/// query.
fn neighbours(url: &str) -> Vec<String> {
    let Ok(url) = Url::parse(url) else { return Vec::new() };
    let mut found = vec![url.to_string()];
    let other_scheme = if url.scheme() == "https" { "http" } else { "https" };
    let change = |change: &dyn Fn(&mut Url)| {
        let mut url = url.clone();
        change(&mut url);
        url.to_string()
    };
    found.push(change(&|url| {
        let _ = url.set_scheme(other_scheme);
    }));
    found.push(change(&|url| {
        let _ = url.set_scheme(other_scheme).and_then(|()| url.set_port(None));
    }));
    found.push(change(&|url| url.set_query(None)));
    found.push(change(&|url| url.set_path(&format!("{}/", url.path().trim_end_matches('/')))));
    found.push(change(&|url| url.set_path(url.path().to_owned().trim_end_matches('/'))));
    found
}

fn dictionary(headers: &HeaderMap, name: &str) -> Option<Dictionary> {
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    if values.is_empty() {
        return None;
    }
    Parser::new(&values.join(", ")).parse::<Dictionary>().ok()
}
