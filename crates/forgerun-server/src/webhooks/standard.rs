//! Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`, by a secret shared
//! with the receiver. Libraries exist in every language.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use crate::limits::{WEBHOOK_SECRET_BYTES, WEBHOOK_SECRET_BYTES_MAX, WEBHOOK_SECRET_BYTES_MIN};

/// Prefix of a secret.
const PREFIX: &str = "whsec_";

/// Prefix of a signature.
const VERSION: &str = "v1,";

/// A secret shared with one receiver.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    /// A new random secret.
    pub fn generate(mut dice: impl FnMut() -> u128) -> WebhookSecret {
        let bytes = std::iter::from_fn(|| Some(dice().to_le_bytes())).flatten();
        WebhookSecret(bytes.take(WEBHOOK_SECRET_BYTES).collect())
    }

    /// A secret of the specified length: 24 to 64 bytes.
    pub fn from_bytes(bytes: Vec<u8>) -> Option<WebhookSecret> {
        (WEBHOOK_SECRET_BYTES_MIN..=WEBHOOK_SECRET_BYTES_MAX)
            .contains(&bytes.len())
            .then_some(WebhookSecret(bytes))
    }

    /// A stored secret: of the specified length, or a text chosen by an OJS subscriber.
    pub fn stored(bytes: &[u8]) -> WebhookSecret {
        WebhookSecret(bytes.to_vec())
    }

    /// HMAC-SHA256 of a content, in hexadecimal.
    pub fn sign_hex(&self, content: &[u8]) -> String {
        hmac::sign(&self.key(), content).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Parses `whsec_…`; the prefix may be missing, as some receivers store it without.
    pub fn parse(text: &str) -> Option<WebhookSecret> {
        let text = text.trim();
        let text = text.strip_prefix(PREFIX).unwrap_or(text).trim_end_matches('=');
        WebhookSecret::from_bytes(STANDARD_NO_PAD.decode(text).ok()?)
    }

    /// The form for receivers: `whsec_` and base64.
    pub fn to_text(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// The bytes; the caller must not log them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }
}

impl std::fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(hidden)")
    }
}

/// The signed content.
#[derive(Clone, Copy, Debug)]
pub struct SignedContent<'a> {
    /// The value of `webhook-id`.
    pub id: &'a str,
    /// The value of `webhook-timestamp`: seconds since 1970.
    pub timestamp: i64,
    /// The body as it is sent.
    pub body: &'a [u8],
}

impl SignedContent<'_> {
    /// The value of `webhook-signature`: one signature per secret, so that a receiver may rotate
    /// secrets without a gap.
    pub fn header(&self, secrets: &[WebhookSecret]) -> String {
        let signatures = secrets.iter().map(|secret| {
            let tag = hmac::sign(&secret.key(), &self.content());
            format!("{VERSION}{}", STANDARD.encode(tag.as_ref()))
        });
        signatures.collect::<Vec<_>>().join(" ")
    }

    /// Whether one of the signatures in the header was made with this secret.
    pub fn is_signed_by(&self, secret: &WebhookSecret, header: &str) -> bool {
        let content = self.content();
        let of_ours = header.split(' ').filter_map(|signature| signature.strip_prefix(VERSION));
        let mut tags = of_ours.filter_map(|signature| STANDARD.decode(signature).ok());
        tags.any(|tag| hmac::verify(&secret.key(), &content, &tag).is_ok())
    }

    fn content(&self) -> Vec<u8> {
        let mut content = format!("{}.{}.", self.id, self.timestamp).into_bytes();
        content.extend_from_slice(self.body);
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNED: SignedContent<'_> =
        SignedContent { id: "msg_1", timestamp: 1_700_000_000, body: b"{\"a\":1}" };

    fn secret(first: u128) -> WebhookSecret {
        let mut dice = first;
        WebhookSecret::generate(|| {
            dice += 1;
            dice
        })
    }

    #[test]
    fn a_secret_survives_its_text() {
        let secret = secret(7);
        let text = secret.to_text();
        assert!(text.starts_with("whsec_"), "{text}");
        assert_eq!(WebhookSecret::parse(&text), Some(secret.clone()));
        assert_eq!(WebhookSecret::parse(text.strip_prefix("whsec_").unwrap()), Some(secret));
        for bad in ["", "whsec_", "whsec_AAAA", "whsec_!!!", &format!("whsec_{}", "A".repeat(100))] {
            assert_eq!(WebhookSecret::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn another_library_accepts_each_of_two_signatures() {
        let (old, new) = (secret(1), secret(9));
        let now = seconds_now();
        let signed = SignedContent { timestamp: now, ..SIGNED };
        let header = signed.header(&[new.clone(), old.clone()]);
        let mut headers = axum::http::HeaderMap::new();
        headers.insert("webhook-id", "msg_1".parse().unwrap());
        headers.insert("webhook-timestamp", now.to_string().parse().unwrap());
        headers.insert("webhook-signature", header.parse().unwrap());
        for secret in [&old, &new] {
            let theirs = standardwebhooks::Webhook::new(&secret.to_text()).unwrap();
            theirs.verify(signed.body, &headers).unwrap();
            assert!(theirs.verify(b"{\"a\":2}", &headers).is_err());
        }
        let stranger = standardwebhooks::Webhook::new(&secret(50).to_text()).unwrap();
        assert!(stranger.verify(signed.body, &headers).is_err());
    }

    #[test]
    fn we_accept_what_another_library_signed() {
        let secret = secret(1);
        let theirs = standardwebhooks::Webhook::new(&secret.to_text()).unwrap();
        let header = theirs.sign(SIGNED.id, SIGNED.timestamp, SIGNED.body).unwrap();
        assert!(SIGNED.is_signed_by(&secret, &header));
        assert!(!SIGNED.is_signed_by(&super::tests::secret(2), &header));
        assert!(!SignedContent { id: "msg_2", ..SIGNED }.is_signed_by(&secret, &header));
        assert!(!SIGNED.is_signed_by(&secret, "v1a,AAAA v1,!"));
    }

    #[expect(clippy::disallowed_methods, reason = "their library compares with the machine's clock")]
    fn seconds_now() -> i64 {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64
    }
}
