//! Who can read along on the way to the database, in libpq's words at the end of the URL:
//!
//! | `sslmode` | encrypted | who the server is |
//! |---|---|---|
//! | `disable` | no | taken on trust |
//! | `prefer`, the default | if the server can | taken on trust |
//! | `require` | yes, or no connection | taken on trust |
//! | `verify-full` | yes, or no connection | its certificate must be good for the host's name, by the system's authorities or those of `sslrootcert=FILE` |
//!
//! An `sslrootcert` says that somebody wants to know: with `require` too the server must prove who it is, and so it must
//! without an `sslmode`. Beside a mode that may send in the clear it is refused, for nobody would prove anything then.

use std::path::PathBuf;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::{Error, Fault};

/// What a URL says of encryption that the driver does not know, and the rest of the URL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TlsSettings {
    /// For the driver.
    pub(super) url: String,
    trust: Trust,
}

/// Whom to believe.
#[derive(Debug, PartialEq, Eq)]
enum Trust {
    /// Whoever answers.
    Anybody,
    /// Those for whom the system's authorities speak.
    System,
    /// Those for whom the authorities in this file speak.
    File(PathBuf),
}

impl TlsSettings {
    /// Takes out of a URL what the driver does not know, or says what is wrong with it. A list of `key=value` is left as it is.
    pub(super) fn of(url: &str) -> Result<TlsSettings, String> {
        let (head, parameters) = match url.split_once('?') {
            Some((head, parameters)) if head.contains("://") => (head, parameters),
            _ => return Ok(TlsSettings { url: url.to_owned(), trust: Trust::Anybody }),
        };
        let (mut rest, mut mode, mut named) = (Vec::new(), None, None);
        for parameter in parameters.split('&') {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", "system")) => named = Some(Trust::System),
                Some(("sslrootcert", file)) => {
                    let path = percent_decode_str(file).decode_utf8_lossy().into_owned();
                    named = Some(Trust::File(path.into()));
                }
                _ => rest.push(parameter.to_owned()),
            }
        }
        let (mode, trust) = match (mode, named) {
            (Some("verify-ca"), _) => {
                return Err("sslmode=verify-ca is not known here; verify-full also looks at the name".into());
            }
            (Some("verify-full"), named) => (Some("require"), named.unwrap_or(Trust::System)),
            (None | Some("require"), Some(named)) => (Some("require"), named),
            (Some(mode), Some(_)) => {
                return Err(format!("sslrootcert does nothing with sslmode={mode}; verify-full looks at it"));
            }
            (mode, None) => (mode, Trust::Anybody),
        };
        rest.extend(mode.map(|mode| format!("sslmode={mode}")));
        Ok(TlsSettings { url: [head, &rest.join("&")].join("?"), trust })
    }

    /// What encrypts connections.
    pub(super) fn connector(&self) -> Result<MakeRustlsConnect, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::new(Fault::Unavailable, error))?;
        let config = match self.trust.authorities()? {
            Some(authorities) => builder.with_root_certificates(authorities).with_no_client_auth(),
            None => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(TrustAnyServer(provider)))
                .with_no_client_auth(),
        };
        Ok(MakeRustlsConnect::new(config))
    }
}

impl Trust {
    fn authorities(&self) -> Result<Option<RootCertStore>, Error> {
        let mut authorities = RootCertStore::empty();
        match self {
            Trust::Anybody => return Ok(None),
            Trust::System => {
                authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            Trust::File(path) => {
                let bad = |error: &dyn std::fmt::Display| {
                    let why = format!("sslrootcert {}: {error}", path.display());
                    Error::new(Fault::Unavailable, why)
                };
                for certificate in CertificateDer::pem_file_iter(path).map_err(|error| bad(&error))? {
                    let certificate = certificate.map_err(|error| bad(&error))?;
                    authorities.add(certificate).map_err(|error| bad(&error))?;
                }
                if authorities.is_empty() {
                    return Err(bad(&"no certificate in it"));
                }
            }
        }
        Ok(Some(authorities))
    }
}

/// Takes every server for the one that was meant, but still wants it to hold the key of its certificate.
#[derive(Debug)]
struct TrustAnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_does_not_know_is_taken_out_of_the_url() {
        let file = |path: &str| Trust::File(path.into());
        for (url, rest, trust) in [
            ("postgres://h/d", "postgres://h/d", Trust::Anybody),
            ("postgres://h/d?sslmode=require", "postgres://h/d?sslmode=require", Trust::Anybody),
            ("postgres://h/d?sslmode=verify-full", "postgres://h/d?sslmode=require", Trust::System),
            (
                "postgres://h/d?sslrootcert=%2Fetc%2Fca.pem&sslmode=verify-full&user=u",
                "postgres://h/d?user=u&sslmode=require",
                file("/etc/ca.pem"),
            ),
            (
                "postgres://h/d?sslmode=verify-full&sslrootcert=a%zz",
                "postgres://h/d?sslmode=require",
                file("a%zz"),
            ),
            (
                "postgres://h/d?sslrootcert=system&user=u",
                "postgres://h/d?user=u&sslmode=require",
                Trust::System,
            ),
            (
                "postgres://h/d?sslmode=require&sslrootcert=ca.pem",
                "postgres://h/d?sslmode=require",
                file("ca.pem"),
            ),
            ("host=h sslmode=disable password=a?b", "host=h sslmode=disable password=a?b", Trust::Anybody),
        ] {
            assert_eq!(TlsSettings::of(url).unwrap(), TlsSettings { url: rest.into(), trust }, "{url}");
        }
    }

    #[test]
    fn a_wish_to_know_the_server_is_not_combined_with_sending_in_the_clear() {
        for parameters in [
            "sslmode=verify-ca",
            "sslrootcert=system&sslmode=prefer",
            "sslmode=disable&sslrootcert=ca.pem",
            "sslmode=verify-full&sslrootcert=ca.pem&sslmode=disable",
        ] {
            let why = TlsSettings::of(&format!("postgres://h/d?{parameters}")).unwrap_err();
            assert!(why.contains("sslmode"), "{parameters}: {why}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "").unwrap();
        for path in [folder.path().join("missing.pem"), empty] {
            let tls_settings =
                TlsSettings::of(&format!("postgres://h/d?sslrootcert={}", path.display())).unwrap();
            let error = tls_settings.connector().err().unwrap();
            assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
        }
    }
}
