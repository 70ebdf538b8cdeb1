//! Loops in the background that stop and end together.

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The loops of one part of the engine. Dropping it cuts them off wherever they are.
///
/// The signal is a token, not a [`watch`] channel, because that wakes its listeners in an order of its own: the simulator could not
/// play a seed twice.
pub(crate) struct Loops {
    stop: CancellationToken,
    /// Every loop holds a receiver, and lets go of it when it ends.
    running: watch::Sender<()>,
    tasks: Vec<JoinHandle<()>>,
}

impl Loops {
    /// None yet. They will hear of `stop`.
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

    /// The same for a loop that the others are nothing without: should it end by itself, they are told to stop.
    pub(crate) fn spawn_vital(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone().drop_guard();
        self.spawn(async move {
            work.await;
            drop(stop);
        });
    }

    /// Tells whoever holds it when the loops are to stop, or are gone without a word.
    pub(crate) fn stop_signal(&self) -> CancellationToken {
        self.stop.clone()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Tells the loops to stop, and returns when all have ended. May be called any number of times, and dropped.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.running.closed().await;
    }

    /// Whether there are loops, and all have ended.
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
}
