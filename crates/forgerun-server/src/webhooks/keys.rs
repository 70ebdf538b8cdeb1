//! Keys that sign deliveries (Ed25519), and the published set that receivers verify with.
//!
//! One key signs. Previous ones stay in the published set for a while, so that earlier signatures
//! can still be verified. The store keeps the keys.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::limits::WEBHOOK_KEYS_MAX;

/// A public key, for receivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    bytes: Vec<u8>,
    /// The thumbprint of RFC 7638.
    pub id: String,
}

impl PublicKey {
    fn new(bytes: &[u8]) -> PublicKey {
        let x = URL_SAFE_NO_PAD.encode(bytes);
        let canonical = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, canonical.as_bytes()));
        PublicKey { bytes: bytes.to_vec(), id }
    }

    /// Parses a key of a JWK set; `None` for a key of another kind.
    pub fn from_jwk(jwk: &Value) -> Option<PublicKey> {
        let is_ours = jwk["kty"] == "OKP" && jwk["crv"] == "Ed25519";
        let bytes = URL_SAFE_NO_PAD.decode(jwk["x"].as_str()?).ok()?;
        let key = (is_ours && bytes.len() == 32).then(|| PublicKey::new(&bytes))?;
        let id = jwk["kid"].as_str().map_or(key.id, str::to_owned);
        Some(PublicKey { bytes, id })
    }

    /// Whether the private key signed this.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.bytes).verify(message, signature).is_ok()
    }

    fn jwk(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(&self.bytes);
        json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": self.id, "use": "sig", "alg": "EdDSA"})
    }
}

pub struct Signer {
    pair: Ed25519KeyPair,
    pub public: PublicKey,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.public.id)
    }
}

impl Signer {
    /// The key pair of a seed; `None` unless it has 32 bytes: an encrypted one has more.
    pub fn from_seed(seed: &[u8]) -> Option<Signer> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
        let public = PublicKey::new(pair.public_key().as_ref());
        Some(Signer { pair, public })
    }

    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }
}

/// The signing key, and others that receivers may meet.
#[derive(Debug)]
pub struct KeySet {
    pub signing: Signer,
    /// Keys that signed before or will sign next.
    pub others: Vec<PublicKey>,
}

impl KeySet {
    /// The public keys as a JWK set, the signing one first.
    pub fn document(&self) -> Value {
        let keys = std::iter::once(&self.signing.public).chain(&self.others).take(WEBHOOK_KEYS_MAX);
        json!({"keys": keys.map(PublicKey::jwk).collect::<Vec<_>>()})
    }
}

/// The usable keys of a JWK set.
pub fn read_document(text: &[u8]) -> Option<Vec<PublicKey>> {
    let document: Value = serde_json::from_slice(text).ok()?;
    let keys = document["keys"].as_array()?.iter().take(WEBHOOK_KEYS_MAX);
    Some(keys.filter_map(PublicKey::from_jwk).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_id_is_the_thumbprint_of_rfc_8037() {
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
        let key = PublicKey::from_jwk(&jwk).unwrap();
        assert_eq!(key.id, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }

    #[test]
    fn a_seed_makes_the_key_of_rfc_8032_and_its_signature() {
        let seed = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        let secret = seed("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
        let key = Signer::from_seed(&secret).unwrap();
        assert_eq!(
            key.public.bytes,
            seed("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
        );
        let expected = "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
                        085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";
        assert_eq!(key.sign(&[0x72]), seed(expected));
        assert!(key.public.verifies(&[0x72], &seed(expected)));
        assert!(!key.public.verifies(&[0x73], &seed(expected)));
    }

    #[test]
    fn the_published_set_is_public_and_can_be_read_again() {
        let old = Signer::from_seed(&[1; 32]).unwrap().public;
        let keys = KeySet { signing: Signer::from_seed(&[2; 32]).unwrap(), others: vec![old.clone()] };
        let document = keys.document().to_string();
        assert!(!document.contains("\"d\""), "{document}");
        assert_eq!(read_document(document.as_bytes()).unwrap(), [keys.signing.public.clone(), old]);
        assert_eq!(read_document(br#"{"keys":[{"kty":"RSA"}]}"#), Some(vec![]));
        assert_eq!(read_document(b"[]"), None);
    }
}
