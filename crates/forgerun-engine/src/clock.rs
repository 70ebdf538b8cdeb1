//! Time and randomness. All of the engine uses [`Clock`]; only [`SystemClock`] reads the machine's.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forgerun_core::time::Time;
use forgerun_store::{Error, Store};

pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Time;

    /// Resolves after `span`. Cancel-safe.
    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// 128 random bits, suitable for unguessable ids.
    fn random(&self) -> u128;
}

/// The machine's clock, and the operating system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "all other code uses this clock")]
    fn now(&self) -> Time {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
    }

    #[expect(clippy::disallowed_methods, reason = "all other code uses this clock")]
    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(span))
    }

    #[expect(clippy::disallowed_methods, reason = "all other code uses this randomness")]
    fn random(&self) -> u128 {
        // A cryptographic generator, seeded by the operating system.
        rand::random()
    }
}

/// Interval between comparisons with the store's clock: for so long nodes may differ after a clock
/// was set.
const COMPARE_EVERY: Duration = Duration::from_secs(5);

/// Smaller differences are ignored.
const TOLERANCE_US: i64 = 20_000;

/// Larger differences are logged.
const TOLD_FROM_US: i64 = 1_000_000;

/// A slower comparison is too inaccurate to use.
const TRIP_MAX_US: i64 = 2_000_000;

/// The machine's clock, corrected to the store's: all nodes on one database use its clock.
/// Otherwise a node whose clock is ahead would consider the leases of all others expired.
/// leases of all others for over.
#[derive(Debug, Default)]
pub struct StoreClock {
    /// Microseconds by which the store is ahead of the machine.
    ahead: AtomicI64,
}

impl StoreClock {
    /// Compares the clocks and adopts the store's, if it has one.
    pub async fn compare(&self, store: &dyn Store) -> Result<(), Error> {
        let before = SystemClock.now().as_micros();
        let Some(theirs) = store.now().await? else { return Ok(()) };
        let trip = SystemClock.now().as_micros() - before;
        self.learn(theirs.as_micros() - before, trip);
        Ok(())
    }

    /// Adopts an offset measured by a query that took `trip`.
    fn learn(&self, seen: i64, trip: i64) {
        let ahead = seen - trip / 2;
        let change = ahead - self.ahead.load(Ordering::Relaxed);
        // The machine's clock may have been set meanwhile: the next comparison corrects that.
        if !(0..=TRIP_MAX_US).contains(&trip) || change.abs() <= TOLERANCE_US + trip / 2 {
            return;
        }
        self.ahead.store(ahead, Ordering::Relaxed);
        if change.abs() >= TOLD_FROM_US {
            let seconds = ahead as f64 / 1e6;
            tracing::warn!(database_ahead_s = seconds, "clock differs from the database's, which is used");
        }
    }

    /// Compares periodically, without end. Errors of the store are reported elsewhere.
    pub async fn follow(self: Arc<Self>, store: Arc<dyn Store>) {
        loop {
            self.sleep(COMPARE_EVERY).await;
            let _ = self.compare(&*store).await;
        }
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Time {
        Time::from_micros(SystemClock.now().as_micros() + self.ahead.load(Ordering::Relaxed))
    }

    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        SystemClock.sleep(span)
    }

    fn random(&self) -> u128 {
        SystemClock.random()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_differs_is_set_and_noise_is_left_alone() {
        let clock = StoreClock::default();
        let ahead = |seen, trip| {
            clock.learn(seen, trip);
            clock.ahead.load(Ordering::Relaxed)
        };
        assert_eq!(ahead(15_000, 1000), 0, "within the tolerance");
        assert_eq!(ahead(300_000_500, 1000), 300_000_000, "five minutes behind the store");
        assert_eq!(ahead(300_015_500, 1000), 300_000_000, "noise");
        assert_eq!(ahead(300_400_000, 1_000_000), 300_000_000, "too slow an answer to tell");
        assert_eq!(ahead(0, 3_000_000), 300_000_000, "an answer that took for ever");
        assert_eq!(ahead(0, -5_000_000), 300_000_000, "the machine's clock was set during the question");
        assert_eq!(ahead(-60_000_000, 0), -60_000_000, "ahead of the store");
    }
}
