//! Taking jobs over gRPC: one stream, on which the server sends no more than there are handlers for.

use std::pin::pin;
use std::sync::Arc;

use forgerun_wire::grpc::{moment, v1};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::report::away;
use super::run::{Directive, Note, Shared};
use crate::error::Error;
use crate::grpc::{JobSource, JobStream};
use crate::limits::{FETCH_GRACE, GRPC_FIRST_TRIES};

impl Shared {
    /// Takes jobs until it is asked to stop.
    pub(super) async fn take_streamed(
        self: &Arc<Self>,
        source: &JobSource,
        jobs: &mut JoinSet<()>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let mut directive = self.directive.subscribe();
        let mut stop = pin!(stop);
        let mut tries = 0;
        let mut was_open = false;
        loop {
            // What the wait gives is let go at once: it must not be held while something else is awaited.
            let wanted = async {
                let _ = directive.wait_for(|directive| *directive != Directive::Quiet).await;
            };
            tokio::select! {
                () = &mut stop => return Ok(()),
                () = wanted => {}
            }
            if *self.directive.borrow() == Directive::Terminate {
                return Ok(());
            }
            let broke = match source.open(self.stream_request()).await {
                Err(error) => error,
                Ok(mut stream) => {
                    (tries, was_open) = (0, true);
                    let taken = self.take_from(&mut stream, jobs);
                    let unwanted = async {
                        let _ = directive.wait_for(|directive| *directive != Directive::Running).await;
                    };
                    tokio::select! {
                        () = &mut stop => {
                            // The server gives nothing to a worker that ends; what it gave just before comes in a moment.
                            let _ = timeout(FETCH_GRACE, self.beat("terminate")).await;
                            self.return_rest(&mut stream).await;
                            return Ok(());
                        }
                        () = unwanted => {
                            self.return_rest(&mut stream).await;
                            continue;
                        }
                        error = taken => error,
                    }
                }
            };
            // A server that never was there is a wrong address.
            let is_nowhere = !was_open && tries >= GRPC_FIRST_TRIES && matches!(broke, Error::Unreachable(_));
            if is_nowhere || !broke.is_retryable() {
                return Err(broke);
            }
            let asked = broke.api().and_then(|said| said.retry_after).unwrap_or_default();
            let wait = away(tries).max(asked);
            tries += 1;
            (self.notes)(&Note::Away { error: &broke, wait });
            tokio::select! {
                () = &mut stop => return Ok(()),
                () = self.client.clock().sleep(wait) => {}
            }
        }
    }

    fn stream_request(&self) -> v1::StreamJobsRequest {
        v1::StreamJobsRequest {
            queues: self.queues.clone(),
            worker_id: self.id.to_string(),
            max_concurrent: i32::try_from(self.concurrency).unwrap_or(i32::MAX),
            visibility_timeout: Some(moment::duration(self.lease)),
        }
    }

    /// Begins jobs as they come, until the stream breaks.
    async fn take_from(self: &Arc<Self>, stream: &mut JobStream, jobs: &mut JoinSet<()>) -> Error {
        loop {
            while jobs.try_join_next().is_some() {}
            match stream.next().await {
                Ok(job) => self.begin(job, jobs),
                Err(error) => return error,
            }
        }
    }

    /// Hands back what was sent before the server knew that it should not.
    async fn return_rest(&self, stream: &mut JobStream) {
        while let Ok(Ok(job)) = timeout(FETCH_GRACE, stream.next()).await {
            let _ = self.hand_back(&job).await;
        }
    }
}
