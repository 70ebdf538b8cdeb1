//! The trace collector: one connection over HTTP or HTTPS, one request at a time.

use std::io;

use axum::http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::http_client::{self, HttpConnection};
use crate::limits::TRACE_ANSWER_BYTES_MAX;

const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// Why a batch was not accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExportError {
    #[error("the collector cannot be reached: {0}")]
    Network(#[from] io::Error),
    #[error("the certificate of the collector is not trusted: {0}")]
    Certificate(io::Error),
    #[error("the connection to the collector broke: {0}")]
    Http(#[from] hyper::Error),
    #[error("the collector does not answer in time")]
    Slow,
    #[error("the collector answers with status {0}")]
    Refused(u16),
}

impl ExportError {
    /// Retryable by OTLP.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            ExportError::Network(_) | ExportError::Slow | ExportError::Refused(429 | 502 | 503 | 504) => true,
            // A non-HTTP answer will not change.
            ExportError::Http(error) => !error.is_parse(),
            ExportError::Certificate(_) | ExportError::Refused(_) => false,
        }
    }
}

pub(super) struct Collector {
    host: String,
    port: u16,
    /// Set for `https`, with the certificate's name.
    tls: Option<(TlsConnector, ServerName<'static>)>,
    path: String,
    /// Sent with every request.
    headers: HeaderMap,
    /// The last connection, if it can be reused.
    connection: Option<HttpConnection>,
}

impl Collector {
    /// The collector at a validated URL. `roots` are trusted instead of the system's certificates.
    pub(super) fn new(
        endpoint: &str,
        headers: &[(HeaderName, HeaderValue)],
        roots: Option<RootCertStore>,
    ) -> Collector {
        let uri: Uri = endpoint.parse().expect("the configuration was checked");
        let authority = uri.authority().expect("the configuration was checked");
        // An IPv6 address has brackets in the URL only.
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_https = uri.scheme_str() == Some("https");
        let server = ServerName::try_from(host.clone()).ok().filter(|_| is_https);
        let mut fields = HeaderMap::new();
        fields.insert(HOST, HeaderValue::from_str(authority.as_str()).expect("a host is printable"));
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        fields.insert(USER_AGENT, HeaderValue::from_static("forgerun"));
        for (name, value) in headers {
            fields.insert(name, value.clone());
        }
        Collector {
            host,
            port: uri.port_u16().unwrap_or(if is_https { HTTPS_PORT } else { HTTP_PORT }),
            tls: server.map(|server| (http_client::tls_connector(roots), server)),
            path: format!("{}/v1/traces", uri.path().trim_end_matches('/')),
            headers: fields,
            connection: None,
        }
    }

    pub(super) async fn post(&mut self, body: &Bytes) -> Result<(), ExportError> {
        // An idle connection may have been closed by the other end, which says nothing about a new
        // one.
        let status = match self.connection.take() {
            Some(open) => match self.exchange(open, body).await {
                Ok(status) => status,
                Err(_) => self.exchange_anew(body).await?,
            },
            None => self.exchange_anew(body).await?,
        };
        match status {
            200..=299 => Ok(()),
            code => Err(ExportError::Refused(code)),
        }
    }

    async fn exchange_anew(&mut self, body: &Bytes) -> Result<u16, ExportError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let connection = match &self.tls {
            None => HttpConnection::open(stream).await?,
            Some((tls, server)) => {
                let stream = tls.connect(server.clone(), stream).await.map_err(|error| {
                    let untrusted = http_client::is_untrusted(&error);
                    if untrusted { ExportError::Certificate(error) } else { error.into() }
                })?;
                HttpConnection::open(stream).await?
            }
        };
        Ok(self.exchange(connection, body).await?)
    }

    /// The status of the answer. The connection is kept if it can be reused.
    async fn exchange(&mut self, mut connection: HttpConnection, body: &Bytes) -> Result<u16, hyper::Error> {
        let mut request = Request::post(self.path.as_str());
        if let Some(headers) = request.headers_mut() {
            headers.clone_from(&self.headers);
        }
        let request = request.body(Full::new(body.clone())).expect("the configuration was checked");
        connection.requests.ready().await?;
        let answer = connection.requests.send_request(request).await?;
        let status = answer.status().as_u16();
        // The body would not change what we do.
        if Limited::new(answer.into_body(), TRACE_ANSWER_BYTES_MAX).collect().await.is_ok() {
            self.connection = Some(connection);
        }
        Ok(status)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
    use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

    use super::*;

    const TAKEN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

    /// Answers requests on one connection; returns their heads.
    async fn answer(
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        answers: &[&'static str],
        heads: &mpsc::Sender<String>,
    ) {
        for text in answers {
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"{spans}") {
                if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            heads.send(String::from_utf8(bytes).unwrap()).await.unwrap();
            stream.write_all(text.as_bytes()).await.unwrap();
        }
    }

    /// A collector that gives each connection these answers, then closes it.
    async fn listen(
        answers: &'static [&'static str],
        tls: Option<TlsAcceptor>,
    ) -> (u16, mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (heads, heard) = mpsc::channel(16);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                match &tls {
                    None => answer(stream, answers, &heads).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            answer(stream, answers, &heads).await;
                        }
                    }
                }
            }
        });
        (port, heard)
    }

    fn body() -> Bytes {
        Bytes::from_static(b"{spans}")
    }

    #[tokio::test]
    async fn a_batch_is_posted_with_the_headers_of_the_operator() {
        let (port, mut heard) = listen(&[TAKEN], None).await;
        let headers = [(HeaderName::from_static("api-key"), HeaderValue::from_static("abc"))];
        let mut collector = Collector::new(&format!("http://127.0.0.1:{port}/otlp"), &headers, None);
        collector.post(&body()).await.unwrap();
        let head = heard.recv().await.unwrap();
        assert!(head.starts_with("POST /otlp/v1/traces HTTP/1.1\r\n"), "{head}");
        for field in [format!("host: 127.0.0.1:{port}"), "api-key: abc".into(), "content-length: 7".into()] {
            assert!(head.contains(&format!("\r\n{field}\r\n")), "{field} in {head}");
        }
    }

    #[tokio::test]
    async fn a_connection_is_used_again_and_a_closed_one_costs_no_batch() {
        let (port, mut heard) = listen(&[TAKEN, TAKEN], None).await;
        let mut collector = Collector::new(&format!("http://127.0.0.1:{port}"), &[], None);
        for _ in 0..5 {
            collector.post(&body()).await.unwrap();
            heard.recv().await.unwrap();
        }
    }

    #[tokio::test]
    async fn only_what_may_pass_is_tried_again() {
        for (answer, expected) in [
            (&["HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"] as &'static [_], true),
            (&["HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"], false),
            (&["SSH-2.0-server\r\n"], false),
        ] {
            let (port, _heard) = listen(answer, None).await;
            let mut collector = Collector::new(&format!("http://127.0.0.1:{port}"), &[], None);
            let error = collector.post(&body()).await.unwrap_err();
            assert_eq!(error.may_pass(), expected, "{error}");
        }
        let mut nobody = Collector::new("http://127.0.0.1:9", &[], None);
        assert!(nobody.post(&body()).await.unwrap_err().may_pass());
    }

    #[tokio::test]
    async fn a_collector_behind_https_is_spoken_to_if_its_certificate_is_trusted() {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key.into())
            .unwrap();
        let (port, mut heard) = listen(&[TAKEN], Some(TlsAcceptor::from(Arc::new(config)))).await;
        let endpoint = format!("https://localhost:{port}");
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        Collector::new(&endpoint, &[], Some(roots)).post(&body()).await.unwrap();
        assert!(heard.recv().await.unwrap().starts_with("POST /v1/traces HTTP/1.1\r\n"));
        let error =
            Collector::new(&endpoint, &[], Some(RootCertStore::empty())).post(&body()).await.unwrap_err();
        assert!(matches!(error, ExportError::Certificate(_)), "{error}");
    }
}
