//! Sends spans to a collector: in batches, one request at a time, over plain HTTP/1.1.
//!
//! A collector that is away costs spans, never requests or jobs: a batch is tried a few times and then dropped, and while
//! it is tried the queue fills and drops what does not fit. The log tells when it begins and when it is over.

use std::io;
use std::sync::Arc;

use axum::http::Uri;
use forge_engine::Clock;
use prometheus_client::metrics::counter::Counter;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tracing::{info, warn};

use super::otlp;
use super::span::Span;
use crate::limits::{TRACE_BATCH_MAX, TRACE_LINGER, TRACE_SEND_TIMEOUT, TRACE_TRIES};

/// Port of `http` without one.
const HTTP_PORT: u16 = 80;

/// Bytes that are read to find the status line, which comes first.
const STATUS_BYTES_MAX: usize = 64;

pub(super) struct SpanExporter {
    clock: Arc<dyn Clock>,
    dropped: Counter,
    host: String,
    port: u16,
    /// As the `Host` header has it.
    authority: String,
    path: String,
    /// Whether the last batch was taken: the log tells of changes only.
    well: bool,
}

/// Why a batch was not taken.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("the collector cannot be reached: {0}")]
    Network(#[from] io::Error),
    #[error("the collector does not answer in time")]
    Slow,
    #[error("the collector answers with status {0}")]
    Refused(u16),
    #[error("the collector does not answer in HTTP")]
    NotHttp,
}

impl ExportError {
    /// What OTLP says may be tried again.
    const fn may_pass(&self) -> bool {
        match self {
            ExportError::Network(_) | ExportError::Slow | ExportError::Refused(429 | 502 | 503 | 504) => true,
            ExportError::Refused(_) | ExportError::NotHttp => false,
        }
    }
}

impl SpanExporter {
    pub(super) fn new(endpoint: &str, clock: Arc<dyn Clock>, dropped: Counter) -> SpanExporter {
        let uri: Uri = endpoint.parse().expect("the configuration was checked");
        let host = uri.host().expect("the configuration was checked");
        SpanExporter {
            clock,
            dropped,
            // The brackets of an IPv6 address belong to the URL alone.
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: uri.port_u16().unwrap_or(HTTP_PORT),
            authority: uri.authority().map(ToString::to_string).unwrap_or_default(),
            path: format!("{}/v1/traces", uri.path().trim_end_matches('/')),
            well: true,
        }
    }

    /// Ends once told to stop and everything that was waiting is sent or dropped.
    pub(super) async fn run(mut self, mut waiting: mpsc::Receiver<Span>, mut stop: watch::Receiver<bool>) {
        loop {
            let batch = self.gather(&mut waiting, &mut stop).await;
            if batch.is_empty() {
                return;
            }
            self.deliver(&batch, &stop).await;
        }
    }

    /// A batch: full, or what came within a moment after its first span. Empty once it is over.
    async fn gather(
        &self,
        waiting: &mut mpsc::Receiver<Span>,
        stop: &mut watch::Receiver<bool>,
    ) -> Vec<Span> {
        let mut batch = Vec::new();
        let mut moment = None;
        while batch.len() < TRACE_BATCH_MAX {
            let room = TRACE_BATCH_MAX - batch.len();
            let linger = async {
                match &mut moment {
                    Some(moment) => moment.await,
                    None => std::future::pending().await,
                }
            };
            // Nothing is lost when a branch is not taken: `recv_many` is safe to drop.
            tokio::select! {
                biased;
                n_spans = waiting.recv_many(&mut batch, room) => if n_spans == 0 { break },
                () = linger => break,
                () = told(stop) => {
                    waiting.close();
                    waiting.recv_many(&mut batch, room).await;
                    break;
                }
            }
            moment.get_or_insert_with(|| self.clock.sleep(TRACE_LINGER));
        }
        batch
    }

    async fn deliver(&mut self, batch: &[Span], stop: &watch::Receiver<bool>) {
        let body = otlp::document(batch);
        for n_try in 1.. {
            let trouble = match timeout(TRACE_SEND_TIMEOUT, self.post(&body)).await {
                Ok(Ok(())) => {
                    if !self.well {
                        info!("traces are sent again");
                    }
                    self.well = true;
                    return;
                }
                Ok(Err(trouble)) => trouble,
                Err(_) => ExportError::Slow,
            };
            if n_try == TRACE_TRIES || !trouble.may_pass() || *stop.borrow() {
                if self.well {
                    warn!(n_spans = batch.len(), cause = %trouble, "traces are not sent");
                }
                self.well = false;
                self.dropped.inc_by(batch.len() as u64);
                return;
            }
            self.clock.sleep(TRACE_LINGER * n_try).await;
        }
    }

    async fn post(&self, body: &[u8]) -> Result<(), ExportError> {
        let connection = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let SpanExporter { path, authority, .. } = self;
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\nuser-agent: forgerun\r\nconnection: close\r\n\r\n"
        );
        write(&connection, head.as_bytes()).await?;
        write(&connection, body).await?;
        match status(&read_start(&connection).await?) {
            Some(200..=299) => Ok(()),
            Some(code) => Err(ExportError::Refused(code)),
            None => Err(ExportError::NotHttp),
        }
    }
}

/// Ready once it is time to stop; whoever would say so being gone means the same.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stopping| *stopping).await;
}

async fn write(connection: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        connection.writable().await?;
        match connection.try_write(bytes) {
            Ok(n_bytes) => bytes = &bytes[n_bytes..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The start of the answer, up to the end of its first line. The rest tells nothing that we would act upon.
async fn read_start(connection: &TcpStream) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(STATUS_BYTES_MAX);
    let mut bytes = [0; STATUS_BYTES_MAX];
    while start.len() < STATUS_BYTES_MAX && !start.contains(&b'\n') {
        connection.readable().await?;
        match connection.try_read(&mut bytes) {
            Ok(0) => break,
            Ok(n_bytes) => start.extend_from_slice(&bytes[..n_bytes]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(start)
}

fn status(start: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(start.split(|byte| *byte == b'\r').next()?).ok()?;
    line.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_status_line_has_a_status() {
        for (start, expected) in [
            ("HTTP/1.1 200 OK\r\ncontent-type: application/json", Some(200)),
            ("HTTP/1.0 503 \r\n", Some(503)),
            ("HTTP/1.1 abc\r\n", None),
            ("HTTP/2 200\r\n", None),
            ("SSH-2.0-server\r\n", None),
            ("", None),
        ] {
            assert_eq!(status(start.as_bytes()), expected, "{start}");
        }
    }
}
