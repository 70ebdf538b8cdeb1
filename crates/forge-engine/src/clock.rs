//! Time and chance. Everything in the engine asks [`Clock`]; only [`SystemClock`] asks the machine.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forge_core::time::Time;

/// What time it is, and what the dice say.
pub trait Clock: Send + Sync + 'static {
    /// The moment now.
    fn now(&self) -> Time;

    /// Ready once `span` has passed. May be dropped at any time.
    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// 128 random bits, good enough for ids that nobody may guess.
    fn random(&self) -> u128;
}

/// The real clock, and the operating system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else asks")]
    fn now(&self) -> Time {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else asks")]
    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(span))
    }

    #[expect(clippy::disallowed_methods, reason = "these are the dice that everybody else asks")]
    fn random(&self) -> u128 {
        // A cryptographic generator, seeded by the operating system.
        rand::random()
    }
}
