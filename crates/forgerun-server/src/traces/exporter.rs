//! Sends spans to a collector: in batches, one request at a time.
//!
//! A collector that is away costs spans, never requests or jobs: a batch is tried a few times and
//! then dropped, and while it is tried the queue fills and drops what does not fit. The log tells
//! when it begins and when it is over.

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
    /// Whether the last batch was taken: the log tells of changes only.
    well: bool,
}

impl SpanExporter {
    pub(super) fn new(collector: Collector, clock: Arc<dyn Clock>, dropped: Counter) -> SpanExporter {
        SpanExporter { collector, clock, dropped, well: true }
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
        let body = Bytes::from(otlp::document(batch));
        for n_try in 1.. {
            let error = match timeout(TRACE_SEND_TIMEOUT, self.collector.post(&body)).await {
                Ok(Ok(())) => {
                    if !self.well {
                        info!("traces are sent again");
                    }
                    self.well = true;
                    return;
                }
                Ok(Err(error)) => error,
                Err(_) => ExportError::Slow,
            };
            if n_try == TRACE_TRIES || !error.may_pass() || *stop.borrow() {
                if self.well {
                    warn!(n_spans = batch.len(), cause = %error, "traces are not sent");
                }
                self.well = false;
                self.dropped.inc_by(batch.len() as u64);
                return;
            }
            self.clock.sleep(TRACE_LINGER * n_try).await;
        }
    }
}

/// Ready once it is time to stop; whoever would say so being gone means the same.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stopping| *stopping).await;
}
