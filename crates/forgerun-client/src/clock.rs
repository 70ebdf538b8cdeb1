//! Time and randomness, which the rest of the crate asks for here. A test hands in its own and decides when time passes.

use std::pin::Pin;
use std::time::{Duration, SystemTime};

/// Time and randomness.
pub trait Clock: Send + Sync + 'static {
    /// The present.
    fn now(&self) -> SystemTime;

    /// Ends after this span.
    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// 128 random bits, good enough for keys.
    fn random(&self) -> u128;
}

/// The machine's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one clock of the crate")]
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one clock of the crate")]
    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(span))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one source of randomness of the crate")]
    fn random(&self) -> u128 {
        rand::random()
    }
}

/// A number from 0 (inclusive) to 1 (exclusive) out of random bits.
pub(crate) fn fraction(random: u128) -> f64 {
    // 53 bits are all that a double holds.
    (random >> 75) as f64 / (1_u64 << 53) as f64
}

/// A random UUID (version 4) as text.
pub(crate) fn uuid(random: u128) -> String {
    let bits = (random & !(0xf << 76) & !(0b11 << 62)) | (4 << 76) | (0b10 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_lie_between_0_and_1() {
        assert_eq!(fraction(0), 0.0);
        assert!(fraction(u128::MAX) < 1.0);
        assert_eq!(fraction(1 << 127), 0.5);
    }

    #[test]
    fn a_uuid_has_version_4_and_its_variant_whatever_the_bits() {
        assert_eq!(uuid(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
