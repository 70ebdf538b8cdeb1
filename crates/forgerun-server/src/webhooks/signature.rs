//! HTTP Message Signatures (RFC 9421) with Ed25519, and `Content-Digest` (RFC 9530): signs
//! deliveries, and parses received signatures.

use aws_lc_rs::digest::{SHA256, digest};
use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sfv::{InnerList, Integer, KeyRef, ListEntry, ListSerializer, StringRef};
use url::Url;

use super::keys::Signer;

/// The label of our signature: a message may have several.
pub(crate) const LABEL: &str = "sig1";

/// The registered name of the algorithm.
pub(crate) const ALGORITHM: &str = "ed25519";

/// Signed components of every delivery; envelope headers are added.
const COMPONENTS: [&str; 5] = ["@method", "@target-uri", "content-type", "content-digest", "webhook-id"];

/// Prefix of envelope headers, which are signed too.
const ENVELOPE_PREFIX: &str = "ce-";

/// The parts of a request that signatures cover.
#[derive(Clone, Copy, Debug)]
pub struct SignedMessage<'a> {
    pub method: &'a str,
    pub target: &'a str,
    pub headers: &'a HeaderMap,
}

/// The value of `Content-Digest` for a body.
pub fn content_digest(body: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(digest(&SHA256, body)))
}

/// A signature as two header fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureFields {
    pub input: String,
    pub signature: String,
}

/// Signs a request that has all its other headers. `created` is in seconds since 1970.
pub fn sign(message: &SignedMessage<'_>, key: &Signer, created: i64) -> SignatureFields {
    let envelope = message.headers.keys().map(|name| name.as_str());
    let mut envelope: Vec<&str> = envelope.filter(|name| name.starts_with(ENVELOPE_PREFIX)).collect();
    envelope.sort_unstable();
    let components: Vec<&str> = COMPONENTS.into_iter().chain(envelope).collect();
    let params = params(&components, &key.public.id, created);
    let base = base(message, components.iter().map(|name| (*name, format!("\"{name}\""))), &params)
        .expect("a delivery has what it signs");
    let signature = STANDARD.encode(key.sign(base.as_bytes()));
    SignatureFields { input: format!("{LABEL}={params}"), signature: format!("{LABEL}=:{signature}:") }
}

/// Components and parameters, as in `Signature-Input` and the last line of the signature base.
fn params(components: &[&str], key_id: &str, created: i64) -> String {
    let mut list = ListSerializer::new();
    let mut inner = list.inner_list();
    for component in components {
        let _ = inner.bare_item(StringRef::from_str(component).expect("names are ASCII"));
    }
    let created = Integer::try_from(created).unwrap_or(Integer::ZERO);
    let key = |name| KeyRef::from_str(name).expect("a short name");
    inner
        .finish()
        .parameter(key("created"), created)
        // In this order, because a common verifier rebuilds them in it instead of keeping the
        // sender's.
        .parameter(key("alg"), StringRef::from_str(ALGORITHM).expect("a short word"))
        .parameter(key("keyid"), StringRef::from_str(key_id).expect("base64url is ASCII"));
    list.finish().expect("the list has a member")
}

/// The list of a received signature, in the form in which it was signed.
pub(crate) fn params_of(list: &InnerList) -> String {
    let mut serializer = ListSerializer::new();
    serializer.members([&ListEntry::InnerList(list.clone())]);
    serializer.finish().expect("the list has a member")
}

/// The signature base (RFC 9421, section 2.5). The error is the name of a missing component.
pub(crate) fn base<'a>(
    message: &SignedMessage<'_>,
    components: impl Iterator<Item = (&'a str, String)>,
    params: &str,
) -> Result<String, &'a str> {
    let mut base = String::new();
    for (name, identifier) in components {
        let value = component(message, name).ok_or(name)?;
        base += &format!("{identifier}: {value}\n");
    }
    Ok(base + &format!("\"@signature-params\": {params}"))
}

/// The value of a component; `None` if it is missing or unknown.
fn component(message: &SignedMessage<'_>, name: &str) -> Option<String> {
    let url = || Url::parse(message.target).ok();
    match name {
        "@method" => Some(message.method.to_owned()),
        "@target-uri" => Some(message.target.to_owned()),
        "@authority" => url().map(|url| url.authority().to_owned()),
        "@scheme" => url().map(|url| url.scheme().to_owned()),
        "@path" => url().map(|url| url.path().to_owned()),
        "@query" => url().map(|url| format!("?{}", url.query().unwrap_or_default())),
        _ if name.starts_with('@') => None,
        _ => field(message.headers, name),
    }
}

/// All values of a header, combined.
fn field(headers: &HeaderMap, name: &str) -> Option<String> {
    let values = headers.get_all(name).iter().map(|value| value.to_str().map(str::trim));
    let values: Vec<&str> = values.collect::<Result<_, _>>().ok()?;
    (!values.is_empty()).then(|| values.join(", "))
}
