//! Background loops that stop and end together.

use std::thread;

use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The loops of one part of the engine. Dropping it cuts them off.
///
/// The signal is a token, not a [`watch`] channel, because that wakes its listeners in an order of
/// its own: the simulator could not replay a seed.
pub(crate) struct Loops {
    stop: CancellationToken,
    /// Every loop holds a receiver until it ends.
    running: watch::Sender<()>,
    tasks: Vec<JoinHandle<()>>,
}

impl Loops {
    /// Without loops yet. They end on `stop`.
    pub(crate) fn new(stop: CancellationToken) -> Loops {
        Loops { stop, running: watch::Sender::new(()), tasks: Vec::new() }
    }

    pub(crate) fn spawn(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        let running = self.running.subscribe();
        self.tasks.push(tokio::spawn(async move {
            work.await;
            drop(running);
        }));
    }

    /// Spawns a loop that the others need: if it ends by itself, all are stopped.
    pub(crate) fn spawn_vital(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone().drop_guard();
        self.spawn(async move {
            work.await;
            drop(stop);
        });
    }

    /// Spawns a vital loop that blocks: it and its tasks run on a thread of their own.
    pub(crate) fn spawn_vital_thread(&mut self, name: &str, work: impl Future<Output = ()> + Send + 'static) {
        let (mut over, ended) = oneshot::channel::<()>();
        let run = move || {
            let runtime =
                Builder::new_current_thread().enable_time().build().expect("needs no system resource");
            runtime.block_on(async {
                tokio::select! {
                    () = work => {}
                    // Cut off, as a task would be.
                    () = over.closed() => {}
                }
            });
        };
        thread::Builder::new().name(name.into()).spawn(run).expect("the system has room for a thread");
        self.spawn_vital(async {
            // An error means that the thread has ended: nothing is ever sent.
            let _ = ended.await;
        });
    }

    /// Cancelled when the loops are stopped or dropped.
    pub(crate) fn stop_signal(&self) -> CancellationToken {
        self.stop.clone()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Stops the loops, and returns when all have ended. Idempotent and cancel-safe.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.running.closed().await;
    }

    /// Whether there are loops and all have ended.
    pub(crate) fn are_over(&self) -> bool {
        !self.tasks.is_empty() && self.tasks.iter().all(JoinHandle::is_finished)
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.stop.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_vital_loop_that_ends_by_itself_takes_the_others_along() {
        let mut loops = Loops::new(CancellationToken::new());
        let stop = loops.stop_signal();
        loops.spawn(async {});
        loops.spawn(stop.clone().cancelled_owned());
        tokio::task::yield_now().await;
        assert!(!loops.is_stopping(), "the end of another loop is its own business");
        loops.spawn_vital(async { panic!("on purpose") });
        stop.cancelled().await;
        loops.stop().await;
        assert!(loops.are_over());
    }

    #[tokio::test]
    async fn a_loop_with_a_thread_of_its_own_is_vital_and_can_be_cut_off() {
        let mut loops = Loops::new(CancellationToken::new());
        let stop = loops.stop_signal();
        loops.spawn_vital_thread("in-vain", async { panic!("on purpose") });
        stop.cancelled().await;
        loops.stop().await;

        let mut loops = Loops::new(CancellationToken::new());
        let (kept, freed) = oneshot::channel::<()>();
        loops.spawn_vital_thread("for-ever", async move {
            let _kept = kept;
            std::future::pending().await
        });
        drop(loops);
        assert!(freed.await.is_err(), "what the loop held is let go");
    }
}
