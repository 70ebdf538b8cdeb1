//! Sends spans to a collector: in batches, one request at a time.
//!
//! If the collector is down, spans are lost, never requests or jobs: a batch is retried a few times
//! and then dropped, and meanwhile the queue drops what does not fit. The log reports the beginning
//! and the end.

use std::sync::Arc;

use bytes::Bytes;
use forgerun_engine::Clock;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tracing::{info, warn};

use super::collector::{Collector, ExportError};
use super::otlp;
use super::span::Span;
use crate::limits::{TRACE_BATCH_MAX, TRACE_LINGER, TRACE_SEND_TIMEOUT, TRACE_TRIES};

pub(super) struct SpanExporter {
    collector: Collector,
    clock: Arc<dyn Clock>,
    dropped: Counter,
    /// Whether the last batch was accepted: only changes are logged.
    well: bool,
}

impl SpanExporter {
    pub(super) fn new(collector: Collector, clock: Arc<dyn Clock>, dropped: Counter) -> SpanExporter {
        SpanExporter { collector, clock, dropped, well: true }
    }

    /// Ends once stopped and all buffered spans are sent or dropped.
    pub(super) async fn run(mut self, mut waiting: mpsc::Receiver<Span>, mut stop: watch::Receiver<bool>) {
        loop {
            let batch = self.gather(&mut waiting, &mut stop).await;
            if batch.is_empty() {
                return;
            }
            self.deliver(&batch, &stop).await;
        }
    }

    /// A batch: full, or what came within a moment after its first span. Empty at the end.
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
            // `recv_many` is cancel-safe.
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
        let body = Bytes::from(otlp::document(batch));
        for n_try in 1.. {
            let error = match timeout(TRACE_SEND_TIMEOUT, self.collector.post(&body)).await {
                Ok(Ok(())) => {
                    if !self.well {
                        info!("trace export recovered");
                    }
                    self.well = true;
                    return;
                }
                Ok(Err(error)) => error,
                Err(_) => ExportError::Slow,
            };
            if n_try == TRACE_TRIES || !error.may_pass() || *stop.borrow() {
                if self.well {
                    warn!(n_spans = batch.len(), cause = %error, "trace export failed");
                }
                self.well = false;
                self.dropped.inc_by(batch.len() as u64);
                return;
            }
            self.clock.sleep(TRACE_LINGER * n_try).await;
        }
    }
}

/// Resolves on stop, or when the stop sender is dropped.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stopping| *stopping).await;
}
