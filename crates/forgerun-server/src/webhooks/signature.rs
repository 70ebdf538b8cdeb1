//! HTTP Message Signatures (RFC 9421) with Ed25519, and `Content-Digest` (RFC 9530): what a
//! delivery is signed with, and what was signed in one that arrived.

use aws_lc_rs::digest::{SHA256, digest};
use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sfv::{InnerList, Integer, KeyRef, ListEntry, ListSerializer, StringRef};
use url::Url;

use super::keys::Signer;

/// The label of our signature: a message may carry several.
pub(crate) const LABEL: &str = "sig1";

/// The algorithm by its registered name.
pub(crate) const ALGORITHM: &str = "ed25519";

/// What is signed of every delivery; envelopes in headers are signed besides.
const COMPONENTS: [&str; 5] = ["@method", "@target-uri", "content-type", "content-digest", "webhook-id"];

/// Headers that begin so are part of what is told, and so of what is signed.
const ENVELOPE_PREFIX: &str = "ce-";

/// A request, as far as signatures go.
#[derive(Clone, Copy, Debug)]
pub struct SignedMessage<'a> {
    /// `POST`.
    pub method: &'a str,
    pub target: &'a str,
    pub headers: &'a HeaderMap,
}

/// The value of `Content-Digest` for a body.
pub fn content_digest(body: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(digest(&SHA256, body)))
}

/// A signature, as two header fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureFields {
    /// `Signature-Input`
    pub input: String,
    /// `Signature`
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

/// The covered components and the parameters, as both `Signature-Input` and the last line of what
/// is signed have them.
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
        // In this order, because a common verifier writes them again in it instead of keeping that
        // of the sender.
        .parameter(key("alg"), StringRef::from_str(ALGORITHM).expect("a short word"))
        .parameter(key("keyid"), StringRef::from_str(key_id).expect("base64url is ASCII"));
    list.finish().expect("the list has a member")
}

/// The list of a signature that arrived, in the form in which it was signed.
pub(crate) fn params_of(list: &InnerList) -> String {
    let mut serializer = ListSerializer::new();
    serializer.members([&ListEntry::InnerList(list.clone())]);
    serializer.finish().expect("the list has a member")
}

/// What is signed (RFC 9421, section 2.5). The error is the name of the component that the message
/// lacks.
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

/// The value of a component; `None` where the message has none, or where we do not know such a
/// component.
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

/// All values of a header, as one.
fn field(headers: &HeaderMap, name: &str) -> Option<String> {
    let values = headers.get_all(name).iter().map(|value| value.to_str().map(str::trim));
    let values: Vec<&str> = values.collect::<Result<_, _>>().ok()?;
    (!values.is_empty()).then(|| values.join(", "))
}
