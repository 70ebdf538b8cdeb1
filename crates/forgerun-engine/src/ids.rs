//! New ids: unguessable and ascending, because the order of ids is the order of claims.

use std::sync::atomic::{AtomicU64, Ordering};

use forgerun_core::id::{BlobId, ExecutionId, JobId, KeyId, WebhookId};

use crate::clock::Clock;

/// Generates version 7 ids. The twelve bits behind the milliseconds are an ascending fraction (RFC
/// 9562, method 3), the other 62 are random.
#[derive(Default)]
pub(crate) struct Ids {
    /// Millisecond and fraction of the last id, as one number.
    last: AtomicU64,
}

impl Ids {
    pub(crate) fn job(&self, clock: &dyn Clock) -> JobId {
        let (unix_ms, bits) = self.draw(clock);
        JobId::v7(unix_ms, bits)
    }

    pub(crate) fn execution(&self, clock: &dyn Clock) -> ExecutionId {
        let (unix_ms, bits) = self.draw(clock);
        ExecutionId::v7(unix_ms, bits)
    }

    pub(crate) fn key(&self, clock: &dyn Clock) -> KeyId {
        let (unix_ms, bits) = self.draw(clock);
        KeyId::v7(unix_ms, bits)
    }

    pub(crate) fn webhook(&self, clock: &dyn Clock) -> WebhookId {
        let (unix_ms, bits) = self.draw(clock);
        WebhookId::v7(unix_ms, bits)
    }

    pub(crate) fn blob(&self, clock: &dyn Clock) -> BlobId {
        let (unix_ms, bits) = self.draw(clock);
        BlobId::v7(unix_ms, bits)
    }

    fn draw(&self, clock: &dyn Clock) -> (u64, u128) {
        let now = clock.now();
        let fraction = (now.as_micros().rem_euclid(1000) as u64 * 4096) / 1000;
        let wish = now.unix_ms() << 12 | fraction;
        // The last plus one if the clock stood still or went back.
        let mut ticket = wish;
        let _ = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
            ticket = wish.max(last + 1);
            Some(ticket)
        });
        let random = clock.random() & ((1 << 62) - 1);
        (ticket >> 12, u128::from(ticket & 0xfff) << 62 | random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemClock;

    /// One run in 2^193 fails by chance.
    #[test]
    fn each_of_the_last_62_bits_of_an_id_is_random() {
        let ids = Ids::default();
        let random = (1u128 << 62) - 1;
        let drawn: Vec<u128> = (0..200).map(|_| ids.job(&SystemClock).as_u128() & random).collect();
        assert_eq!(drawn.iter().fold(0, |bits, id| bits | id), random, "every bit is set in some id");
        assert_eq!(drawn.iter().fold(random, |bits, id| bits & id), 0, "and not in another");
    }

    #[test]
    fn ids_go_up_even_within_one_microsecond() {
        let ids = Ids::default();
        let drawn: Vec<JobId> = (0..10_000).map(|_| ids.job(&SystemClock)).collect();
        assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
