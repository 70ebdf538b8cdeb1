//! Signed tokens (RFC 7519) of an identity provider, and the keys that it publishes (RFC 7517).
//! The signatures are judged by aws-lc; here is what they are over, and which of them count.

use aws_lc_rs::signature::{
    self as aws, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use forgerun_core::time::Time;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::limits::{OIDC_CLOCK_SKEW, OIDC_KEYS_MAX, OIDC_TOKEN_BYTES_MAX};

/// What a token says.
pub(super) type Claims = Map<String, Value>;

/// Why a token does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadToken {
    #[error("it cannot be read")]
    Malformed,
    #[error("its signature is of a kind that is not allowed")]
    Algorithm,
    #[error("the provider does not publish its key")]
    UnknownKey,
    #[error("its signature is wrong")]
    Signature,
    #[error("it is not a token for a log-in or a call")]
    Purpose,
    #[error("it has another issuer")]
    Issuer,
    #[error("it is for another audience")]
    Audience,
    #[error("it has expired")]
    Expired,
    #[error("it is not valid yet")]
    Early,
    #[error("it belongs to another log-in")]
    Nonce,
}

/// What a token must say.
pub(super) struct ExpectedClaims<'a> {
    pub(super) issuer: &'a str,
    pub(super) audience: &'a str,
    /// For a token that was fetched for a log-in.
    pub(super) nonce: Option<&'a str>,
    pub(super) now: Time,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
}

/// How a signature is judged. `none` and shared secrets are no choice.
enum Scheme {
    Rsa(&'static RsaParameters),
    Curve(&'static str, &'static dyn VerificationAlgorithm),
}

impl Scheme {
    fn of(alg: &str) -> Option<Scheme> {
        Some(match alg {
            "RS256" => Scheme::Rsa(&aws::RSA_PKCS1_2048_8192_SHA256),
            "RS384" => Scheme::Rsa(&aws::RSA_PKCS1_2048_8192_SHA384),
            "RS512" => Scheme::Rsa(&aws::RSA_PKCS1_2048_8192_SHA512),
            "PS256" => Scheme::Rsa(&aws::RSA_PSS_2048_8192_SHA256),
            "PS384" => Scheme::Rsa(&aws::RSA_PSS_2048_8192_SHA384),
            "PS512" => Scheme::Rsa(&aws::RSA_PSS_2048_8192_SHA512),
            "ES256" => Scheme::Curve("P-256", &aws::ECDSA_P256_SHA256_FIXED),
            "ES384" => Scheme::Curve("P-384", &aws::ECDSA_P384_SHA384_FIXED),
            "EdDSA" | "Ed25519" => Scheme::Curve("Ed25519", &aws::ED25519),
            _ => return None,
        })
    }
}

/// A public key of the provider.
pub(super) struct ProviderKey {
    id: Option<String>,
    /// The only algorithm it is for, if it names one.
    alg: Option<String>,
    material: Material,
}

enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Curve { name: String, point: Vec<u8> },
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(rename = "use")]
    purpose: Option<String>,
    kid: Option<String>,
    alg: Option<String>,
    n: Option<String>,
    e: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl ProviderKey {
    /// The keys of a set that can judge signatures; those of other kinds are skipped.
    pub(super) fn all(set: &Value) -> Vec<ProviderKey> {
        let keys = set.get("keys").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        keys.iter().filter_map(ProviderKey::read).take(OIDC_KEYS_MAX).collect()
    }

    fn read(value: &Value) -> Option<ProviderKey> {
        let jwk = Jwk::deserialize(value).ok()?;
        if jwk.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_ref()?).ok();
        // aws-lc refuses numbers with zeros before them.
        let number =
            |text| bytes(text).map(|bytes| bytes.into_iter().skip_while(|byte| *byte == 0).collect());
        let material = match (&*jwk.kty, jwk.crv) {
            ("RSA", _) => Material::Rsa { n: number(&jwk.n)?, e: number(&jwk.e)? },
            ("EC", Some(name)) => {
                let point = [vec![4], bytes(&jwk.x)?, bytes(&jwk.y)?].concat();
                Material::Curve { name, point }
            }
            ("OKP", Some(name)) => Material::Curve { name, point: bytes(&jwk.x)? },
            _ => return None,
        };
        Some(ProviderKey { id: jwk.kid, alg: jwk.alg, material })
    }

    fn fits(&self, header: &Header) -> bool {
        let is_for_alg = self.alg.as_ref().is_none_or(|alg| *alg == header.alg);
        is_for_alg && (header.kid.is_none() || header.kid == self.id)
    }

    fn verifies(&self, scheme: &Scheme, message: &[u8], signature: &[u8]) -> bool {
        match (scheme, &self.material) {
            (Scheme::Rsa(parameters), Material::Rsa { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
            }
            (Scheme::Curve(wanted, algorithm), Material::Curve { name, point }) => {
                wanted == name && UnparsedPublicKey::new(*algorithm, point).verify(message, signature).is_ok()
            }
            (Scheme::Rsa(_), Material::Curve { .. }) | (Scheme::Curve(..), Material::Rsa { .. }) => false,
        }
    }
}

/// Whether a bearer token has the form of a signed token; our own never have.
pub(super) fn looks_signed(token: &str) -> bool {
    token.starts_with("eyJ") && token.matches('.').count() == 2
}

/// The claims of a token, if one of these keys signed it and they are as expected.
pub(super) fn verify(
    token: &str,
    keys: &[ProviderKey],
    expected: &ExpectedClaims<'_>,
) -> Result<Claims, BadToken> {
    if token.len() > OIDC_TOKEN_BYTES_MAX {
        return Err(BadToken::Malformed);
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(BadToken::Malformed)?;
    let (header, claims) = signed.split_once('.').ok_or(BadToken::Malformed)?;
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| BadToken::Malformed);
    let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| BadToken::Malformed)?;
    let scheme = Scheme::of(&header.alg).filter(|_| header.crit.is_none()).ok_or(BadToken::Algorithm)?;
    let signature = decode(signature)?;
    let mut fitting = keys.iter().filter(|key| key.fits(&header)).peekable();
    if fitting.peek().is_none() {
        return Err(BadToken::UnknownKey);
    }
    if !fitting.any(|key| key.verifies(&scheme, signed.as_bytes(), &signature)) {
        return Err(BadToken::Signature);
    }
    let claims: Claims = serde_json::from_slice(&decode(claims)?).map_err(|_| BadToken::Malformed)?;
    let is_event = claims.contains_key("events");
    if is_event || header.typ.as_deref().is_some_and(|typ| !is_usual(typ)) {
        return Err(BadToken::Purpose);
    }
    check(&claims, expected)?;
    Ok(claims)
}

/// Tokens of other types, such as those about log-outs, are signed by the same keys.
fn is_usual(typ: &str) -> bool {
    let typ = typ.to_ascii_lowercase();
    matches!(typ.strip_prefix("application/").unwrap_or(&typ), "jwt" | "at+jwt")
}

fn check(claims: &Claims, expected: &ExpectedClaims<'_>) -> Result<(), BadToken> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err(BadToken::Issuer);
    }
    let is_ours = |audience: &Value| audience.as_str() == Some(expected.audience);
    let is_for_us = match claims.get("aud") {
        Some(Value::Array(all)) => all.iter().any(is_ours),
        Some(one) => is_ours(one),
        None => false,
    };
    // A token of a log-in names the party that it was made for.
    let is_of_other = expected.nonce.is_some() && text("azp").is_some_and(|party| party != expected.audience);
    if !is_for_us || is_of_other {
        return Err(BadToken::Audience);
    }
    let now = seconds(expected.now);
    let skew = OIDC_CLOCK_SKEW.as_secs_f64();
    let moment = |name: &str| claims.get(name).map(|value| value.as_f64().ok_or(BadToken::Malformed));
    if moment("exp").ok_or(BadToken::Malformed)?? + skew <= now {
        return Err(BadToken::Expired);
    }
    for name in ["nbf", "iat"] {
        if let Some(from) = moment(name)
            && from? > now + skew
        {
            return Err(BadToken::Early);
        }
    }
    match text("sub") {
        Some(subject) if !subject.trim().is_empty() => {}
        Some(_) | None => return Err(BadToken::Malformed),
    }
    if expected.nonce.is_some_and(|nonce| text("nonce") != Some(nonce)) {
        return Err(BadToken::Nonce);
    }
    Ok(())
}

/// When a token ends; a year from now at the latest.
pub(super) fn end(claims: &Claims, now: Time) -> Time {
    let at = claims.get("exp").and_then(Value::as_f64).unwrap_or_default();
    let span = (at - seconds(now)).clamp(0.0, 365.0 * 24.0 * 3600.0);
    now + std::time::Duration::from_secs_f64(span)
}

fn seconds(at: Time) -> f64 {
    at.as_micros() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
    use serde_json::json;

    use super::*;

    const NOW: Time = Time::from_millis(1_800_000_000_000);
    const NOW_S: i64 = 1_800_000_000;

    fn encoded(value: &Value) -> String {
        URL_SAFE_NO_PAD.encode(value.to_string())
    }

    fn b64(bytes: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn expected(nonce: Option<&'static str>) -> ExpectedClaims<'static> {
        ExpectedClaims { issuer: "https://idp.example", audience: "forgerun", nonce, now: NOW }
    }

    fn claims() -> Value {
        json!({"iss": "https://idp.example", "aud": "forgerun", "sub": "u-1", "exp": NOW_S + 60})
    }

    struct Signer(Ed25519KeyPair);

    impl Signer {
        fn new(seed: u8) -> Signer {
            Signer(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap())
        }

        fn keys(&self) -> Vec<ProviderKey> {
            let x = b64(self.0.public_key().as_ref());
            ProviderKey::all(&json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}]}))
        }

        fn token(&self, header: &Value, claims: &Value) -> String {
            let signed = format!("{}.{}", encoded(header), encoded(claims));
            format!("{signed}.{}", b64(self.0.sign(signed.as_bytes()).as_ref()))
        }
    }

    #[test]
    fn a_token_counts_only_if_all_of_it_is_as_expected() {
        use BadToken::{Algorithm, Audience, Early, Expired, Issuer, Malformed, Nonce, Purpose, UnknownKey};
        let (signer, head) = (Signer::new(1), json!({"alg": "EdDSA", "kid": "k"}));
        let with = |name: &str, value: Value| {
            let mut claims = claims();
            claims[name] = value;
            (head.clone(), claims)
        };
        let under = |header: Value| (header, claims());
        let audiences = json!(["other", "forgerun"]);
        for ((header, claims), nonce, found) in [
            (under(head.clone()), None, None),
            (under(json!({"alg": "EdDSA"})), None, None),
            (under(json!({"alg": "EdDSA", "kid": "k", "typ": "at+JWT"})), None, None),
            (with("aud", audiences.clone()), None, None),
            (with("exp", json!(NOW_S - 59)), None, None),
            (with("nbf", json!(NOW_S + 60)), None, None),
            (with("nonce", json!("n")), Some("n"), None),
            (with("azp", json!("other")), None, None),
            (under(json!({"alg": "none", "kid": "k"})), None, Some(Algorithm)),
            (under(json!({"alg": "None"})), None, Some(Algorithm)),
            (under(json!({"alg": "HS256", "kid": "k"})), None, Some(Algorithm)),
            (under(json!({"alg": "EdDSA", "kid": "k", "crit": ["b64"]})), None, Some(Algorithm)),
            (under(json!({"alg": "EdDSA", "kid": "other"})), None, Some(UnknownKey)),
            (under(json!({"alg": "EdDSA", "kid": "k", "typ": "logout+jwt"})), None, Some(Purpose)),
            (with("events", json!({})), None, Some(Purpose)),
            (with("iss", json!("https://idp.example/")), None, Some(Issuer)),
            (with("iss", Value::Null), None, Some(Issuer)),
            (with("aud", json!("other")), None, Some(Audience)),
            (with("aud", json!([])), None, Some(Audience)),
            (with("azp", json!("other")), Some("n"), Some(Audience)),
            (with("exp", json!(NOW_S - 60)), None, Some(Expired)),
            (with("exp", json!("never")), None, Some(Malformed)),
            (with("exp", Value::Null), None, Some(Malformed)),
            (with("nbf", json!(NOW_S + 61)), None, Some(Early)),
            (with("iat", json!(NOW_S + 61)), None, Some(Early)),
            (with("sub", json!(" ")), None, Some(Malformed)),
            (with("sub", json!(7)), None, Some(Malformed)),
            (with("nonce", json!("m")), Some("n"), Some(Nonce)),
            (under(head.clone()), Some("n"), Some(Nonce)),
        ] {
            let token = signer.token(&header, &claims);
            let verdict = verify(&token, &signer.keys(), &expected(nonce)).err();
            assert_eq!(verdict, found, "{header} {claims}");
        }
    }

    #[test]
    fn a_changed_token_does_not_count() {
        let signer = Signer::new(1);
        let token = signer.token(&json!({"alg": "EdDSA", "kid": "k"}), &claims());
        assert!(looks_signed(&token));
        let verdict = |token: &str, keys: &[ProviderKey]| verify(token, keys, &expected(None)).err();
        assert_eq!(verdict(&token, &Signer::new(2).keys()), Some(BadToken::Signature));
        let (signed, signature) = token.rsplit_once('.').unwrap();
        assert_eq!(verdict(&format!("{signed}."), &signer.keys()), Some(BadToken::Signature));
        let other = encoded(&json!({"iss": "https://idp.example", "aud": "forgerun", "sub": "root"}));
        let (head, _) = signed.split_once('.').unwrap();
        assert_eq!(
            verdict(&format!("{head}.{other}.{signature}"), &signer.keys()),
            Some(BadToken::Signature)
        );
        for broken in ["", "a.b", "a.b.c", ".."] {
            assert_eq!(verdict(broken, &signer.keys()), Some(BadToken::Malformed), "{broken}");
        }
        let long = format!("{token}{}", "A".repeat(OIDC_TOKEN_BYTES_MAX));
        assert_eq!(verdict(&long, &signer.keys()), Some(BadToken::Malformed));
    }

    #[test]
    fn a_key_is_for_its_own_kind_of_signature() {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref()).unwrap();
        let point = pair.public_key().as_ref();
        let jwk = json!({"kty": "EC", "crv": "P-256", "x": b64(&point[1..33]), "y": b64(&point[33..])});
        let signed = format!("{}.{}", encoded(&json!({"alg": "ES256"})), encoded(&claims()));
        let signature = pair.sign(&random, signed.as_bytes()).unwrap();
        let token = format!("{signed}.{}", b64(signature.as_ref()));
        let set = |jwk: &Value| ProviderKey::all(&json!({"keys": [jwk, {"kty": "oct", "k": "AA"}, 7]}));
        assert!(verify(&token, &set(&jwk), &expected(None)).is_ok());
        for (name, value, found) in [
            ("use", json!("enc"), BadToken::UnknownKey),
            ("alg", json!("ES384"), BadToken::UnknownKey),
            ("crv", json!("P-384"), BadToken::Signature),
        ] {
            let mut jwk = jwk.clone();
            jwk[name] = value;
            assert_eq!(verify(&token, &set(&jwk), &expected(None)).err(), Some(found), "{name}");
        }
    }
}
