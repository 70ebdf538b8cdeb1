//! Receivers with certificates, good and bad.

use std::sync::Arc;

use forgerun_server::webhooks::{SendError, SendVerdict, SenderOptions};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::receiver::{Names, Receiver, hasty, options, send, sender};

/// A receiver with a certificate of its own making for this name.
pub(crate) async fn receiver(name: &str) -> (Receiver, CertificateDer<'static>) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key.into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let receiver = Receiver::start(move |connection| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut connection) = acceptor.accept(connection).await else { return };
            let mut request = [0; 4096];
            if connection.read(&mut request).await.is_ok() {
                let _ = connection.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
                // Until the sender has read it and hangs up.
                let _ = connection.read(&mut request).await;
            }
        }
    })
    .await;
    (receiver, cert.der().clone())
}

pub(crate) fn trusting(certificate: &CertificateDer<'static>) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    Some(roots)
}

fn failed(error: SendError) -> SendVerdict {
    SendVerdict::Failed { error, retry_after: None }
}

#[tokio::test]
async fn a_trusted_certificate_for_the_right_name_is_fine_and_no_other() {
    let (receiver, certificate) = receiver("hooks.example").await;
    let url = |name: &str| format!("https://{name}:{}/hook", receiver.address.port());
    let with = |roots| sender(SenderOptions { roots, resolver: Names::new(&[&["127.0.0.1"]]), ..options() });
    let right = with(trusting(&certificate));
    assert_eq!(send(&right, &url("hooks.example")).await, SendVerdict::Delivered(202));
    let other_name = with(trusting(&certificate));
    assert_eq!(send(&other_name, &url("other.example")).await, failed(SendError::Certificate));
    let by_address = with(trusting(&certificate));
    assert_eq!(send(&by_address, &url("127.0.0.1")).await, failed(SendError::Certificate));
    // The certificates that this machine trusts do not have it.
    let by_system = with(None);
    assert_eq!(send(&by_system, &url("hooks.example")).await, failed(SendError::Certificate));
}

#[tokio::test]
async fn a_receiver_that_speaks_no_tls_is_no_receiver_for_https() {
    let receiver = Receiver::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let url = format!("https://{}/hook", receiver.address);
    let verdict = send(&sender(hasty()), &url).await;
    assert!(
        matches!(verdict, SendVerdict::Failed { error: SendError::Insecure | SendError::Slow, .. }),
        "{verdict:?}"
    );
}
