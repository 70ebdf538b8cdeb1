//! The pace of a queue with a rate: when its next job may be handed out. The record exists only
//! while such a queue is in use.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use crate::codec::{Corrupt, Fields, Writer};
use crate::job::Name;
use crate::record::{RecordKind, Stored};
use crate::time::Time;

/// How long a pace is kept after its last turn. Longer than the burst: a deleted pace starts anew.
const KEPT: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePace {
    /// [`QueueId::key`](crate::queue::QueueId::key) of the queue.
    pub queue: Name,
    /// The next turn if jobs were handed out evenly.
    pub turn_at: Time,
    /// When to wake workers because a claim found no turn.
    pub wake_at: Option<Time>,
}

/// Rate of a queue: jobs per 1000 seconds, with a burst of up to a second's worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueRate(u32);

impl QueueRate {
    /// At least one job per 1000 seconds.
    pub fn per_1000_s(n: u32) -> QueueRate {
        QueueRate(n.max(1))
    }

    pub const fn get(self) -> u32 {
        self.0
    }

    fn interval(self) -> Duration {
        Duration::from_secs(1000) / self.0
    }
}

impl QueuePace {
    /// The pace of a queue that has handed out nothing yet.
    pub const fn new(queue: Name) -> QueuePace {
        QueuePace { queue, turn_at: Time::ZERO, wake_at: None }
    }

    /// The pace at this rate: no later than the rate allows, even after a slower one.
    pub fn at_rate(self, rate: QueueRate, now: Time) -> QueuePace {
        let latest = now + rate.interval().max(Duration::from_secs(1));
        QueuePace { turn_at: self.turn_at.min(latest), ..self }
    }

    /// When the next job may be handed out.
    pub fn turn_comes_at(&self, rate: QueueRate) -> Time {
        self.turn_at - Duration::from_secs(1).saturating_sub(rate.interval())
    }

    pub fn use_turn(&mut self, rate: QueueRate, now: Time) {
        self.turn_at = self.turn_at.max(now) + rate.interval();
    }
}

impl Stored for QueuePace {
    const KIND: RecordKind = RecordKind::QueuePace;

    fn key(&self) -> String {
        self.queue.as_str().to_string()
    }

    /// When to wake workers, or to delete it.
    fn due_at(&self) -> Option<Time> {
        Some(self.wake_at.unwrap_or(self.turn_at + KEPT))
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24);
        let mut out = Writer(&mut bytes);
        out.time(1, Some(self.turn_at));
        out.time(2, self.wake_at);
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<QueuePace, Corrupt> {
        let mut pace = QueuePace::new(Name::joined(key));
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => pace.turn_at = field.time()?,
                2 => pace.wake_at = Some(field.time()?),
                _ => {}
            }
        }
        Ok(pace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(1_000_000);

    fn pace() -> QueuePace {
        QueuePace::new(Name::new("q").unwrap())
    }

    impl QueuePace {
        /// Uses a turn, or returns when the next one comes.
        fn take(&mut self, rate: QueueRate, now: Time) -> Result<(), Time> {
            *self = self.clone().at_rate(rate, now);
            let turn_comes_at = self.turn_comes_at(rate);
            if turn_comes_at > now {
                return Err(turn_comes_at);
            }
            self.use_turn(rate, now);
            Ok(())
        }
    }

    #[test]
    fn the_jobs_of_a_second_go_at_once_and_then_one_after_the_other() {
        let (mut pace, rate) = (pace(), QueueRate::per_1000_s(4000));
        for _ in 0..4 {
            assert_eq!(pace.take(rate, NOW), Ok(()));
        }
        let next = NOW + Duration::from_millis(250);
        assert_eq!(pace.take(rate, NOW), Err(next));
        assert_eq!(pace.take(rate, next), Ok(()));
        assert_eq!(pace.take(rate, next), Err(next + Duration::from_millis(250)));
    }

    #[test]
    fn a_rate_below_one_per_second_hands_out_one_at_a_time() {
        let (mut pace, rate) = (pace(), QueueRate::per_1000_s(500));
        assert_eq!(pace.take(rate, NOW), Ok(()));
        assert_eq!(pace.take(rate, NOW), Err(NOW + Duration::from_secs(2)));
    }

    #[test]
    fn a_faster_rate_counts_at_once() {
        let (mut pace, rate) = (pace(), QueueRate::per_1000_s(2000));
        assert_eq!(pace.take(QueueRate::per_1000_s(1), NOW), Ok(()));
        let next = NOW + Duration::from_millis(500);
        assert_eq!(pace.take(rate, NOW), Err(next));
        assert_eq!(pace.take(rate, next), Ok(()));
    }

    #[test]
    fn a_queue_that_rested_saves_no_more_than_a_second() {
        let (mut pace, rate) = (pace(), QueueRate::per_1000_s(2000));
        pace.take(rate, NOW).unwrap();
        let later = NOW + Duration::from_secs(3600);
        assert_eq!((pace.take(rate, later), pace.take(rate, later)), (Ok(()), Ok(())));
        assert!(pace.take(rate, later).is_err());
    }

    #[test]
    fn a_pace_is_read_back_as_it_was_written() {
        for wake_at in [None, Some(NOW)] {
            let pace = QueuePace { turn_at: NOW, wake_at, ..pace() };
            assert_eq!(QueuePace::of(&pace.to_record(3)), Ok(pace));
        }
        assert_eq!(QueuePace::decode("q", &[1]), Err(Corrupt));
    }
}
