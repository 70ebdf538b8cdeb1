//! The clock and random numbers of a simulated world, both determined by the seed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use forgerun_core::random::SplitMix64;
use forgerun_core::time::Time;
use forgerun_engine::Clock;
use tokio::time::Instant;

/// The start of every simulated world.
const BEGINNING: Time = Time::from_millis(1_800_000_000_000);

pub(crate) struct World {
    started: Instant,
    /// How far the wall clock has jumped, in microseconds.
    jumped: AtomicI64,
    dice: Mutex<SplitMix64>,
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "virtual time: it passes only while all tasks wait")]
    pub(crate) fn new(seed: u64) -> World {
        World { started: Instant::now(), jumped: AtomicI64::new(0), dice: Mutex::new(SplitMix64::new(seed)) }
    }

    pub(crate) fn roll(&self) -> u64 {
        self.dice.lock().expect("no code panics while drawing").draw()
    }

    pub(crate) fn below(&self, n: u64) -> u64 {
        self.roll() % n.max(1)
    }

    /// True with this probability, in thousandths.
    pub(crate) fn chance(&self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// A random span.
    pub(crate) fn up_to_ms(&self, ms: u64) -> Duration {
        Duration::from_millis(self.below(ms + 1))
    }

    pub(crate) fn jump_ms(&self, ms: i64) {
        self.jumped.fetch_add(ms * 1000, Ordering::Relaxed);
    }

    #[expect(clippy::disallowed_methods, reason = "virtual time: it passes only while all tasks wait")]
    pub(crate) async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

impl Clock for World {
    fn now(&self) -> Time {
        let passed = BEGINNING + self.started.elapsed();
        Time::from_micros(passed.as_micros() + self.jumped.load(Ordering::Relaxed))
    }

    #[expect(clippy::disallowed_methods, reason = "virtual time: it passes only while all tasks wait")]
    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(span))
    }

    fn random(&self) -> u128 {
        u128::from(self.roll()) << 64 | u128::from(self.roll())
    }
}
