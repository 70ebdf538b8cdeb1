//! Sinks: destinations for the events of all jobs besides webhooks and streams, such as a topic of
//! a broker.
//!
//! A sink is a record with its position in the journal and the node that sends. The position moves
//! only forward, and only by the node that holds the sink; a node that was replaced has an old
//! fence and is refused. So an event is sent at least once, and the next node continues after the
//! last confirmed event.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::codec::{Corrupt, Fields, Writer};
use crate::job::Name;
use crate::record::{RecordKind, Stored};
use crate::time::Time;

/// A position in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SinkPosition {
    /// All rows before this one were sent.
    pub row: i64,
    /// And this many entries of it.
    pub entries: u32,
}

impl SinkPosition {
    /// After this row and all before it.
    pub const fn after(row: i64) -> SinkPosition {
        SinkPosition { row, entries: u32::MAX }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkLease {
    pub node: Name,
    /// After this moment another node may take over.
    pub until: Time,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkTrouble {
    pub since: Time,
    /// The last error; at most [`TEXT_BYTES_MAX`](crate::limits::TEXT_BYTES_MAX) bytes.
    pub message: String,
}

/// Event totals since the sink was first used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkTotals {
    /// Confirmed by the broker.
    pub sent: u64,
    /// Their job was deleted before they were sent, or cannot be read.
    pub skipped: u64,
    /// The broker will never accept them, for example because they are too large.
    pub refused: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkCursor {
    pub name: Name,
    /// `kafka`, `nats` or `amqp`.
    pub kind: String,
    /// Everything up to here was sent.
    pub position: SinkPosition,
    /// The right to send; `None` if the last holder released it.
    pub lease: Option<SinkLease>,
    /// Incremented with each holder; older ones are refused.
    pub fence: u64,
    /// Last report of a holder.
    pub seen_at: Time,
    /// Last confirmation of the broker.
    pub sent_at: Option<Time>,
    /// Why nothing is sent; `None` while it works.
    pub trouble: Option<SinkTrouble>,
    pub totals: SinkTotals,
}

impl SinkCursor {
    /// An unused sink that begins after `position`.
    pub fn new(name: Name, position: SinkPosition, now: Time) -> SinkCursor {
        SinkCursor {
            name,
            kind: String::new(),
            position,
            lease: None,
            fence: 0,
            seen_at: now,
            sent_at: None,
            trouble: None,
            totals: SinkTotals::default(),
        }
    }

    /// Whether another node holds the lease.
    pub fn is_held(&self, now: Time) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.until > now)
    }
}

impl Stored for SinkCursor {
    const KIND: RecordKind = RecordKind::Sink;

    fn key(&self) -> String {
        self.name.as_str().to_string()
    }

    /// There are few, and they are listed together.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(96);
        let mut out = Writer(&mut bytes);
        out.text(1, Some(&self.kind));
        out.number(2, self.position.row as u64);
        out.number(3, u64::from(self.position.entries));
        if let Some(lease) = &self.lease {
            out.text(4, Some(lease.node.as_str()));
            out.time(5, Some(lease.until));
        }
        out.number(6, self.fence);
        out.time(7, Some(self.seen_at));
        out.time(8, self.sent_at);
        if let Some(trouble) = &self.trouble {
            out.time(9, Some(trouble.since));
            out.text(10, Some(&trouble.message));
        }
        out.number(11, self.totals.sent);
        out.number(12, self.totals.skipped);
        out.number(13, self.totals.refused);
        bytes
    }

    fn decode(key: &str, bytes: &[u8]) -> Result<SinkCursor, Corrupt> {
        let name = Name::new(key).ok_or(Corrupt)?;
        let mut sink = SinkCursor::new(name, SinkPosition { row: 0, entries: 0 }, Time::ZERO);
        let (mut node, mut until, mut since, mut message) = (None, Time::ZERO, None, String::new());
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => sink.kind = field.text()?,
                2 => sink.position.row = field.number()? as i64,
                3 => sink.position.entries = field.small()?,
                4 => node = Some(Name::new(field.str()?).ok_or(Corrupt)?),
                5 => until = field.time()?,
                6 => sink.fence = field.number()?,
                7 => sink.seen_at = field.time()?,
                8 => sink.sent_at = Some(field.time()?),
                9 => since = Some(field.time()?),
                10 => message = field.text()?,
                11 => sink.totals.sent = field.number()?,
                12 => sink.totals.skipped = field.number()?,
                13 => sink.totals.refused = field.number()?,
                _ => {}
            }
        }
        sink.lease = node.map(|node| SinkLease { node, until });
        sink.trouble = since.map(|since| SinkTrouble { since, message });
        Ok(sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_is_read_back_as_it_was_written() {
        let name = Name::new("kafka").unwrap();
        let plain = SinkCursor::new(name, SinkPosition::after(0), Time::from_micros(3));
        let full = SinkCursor {
            kind: "kafka".into(),
            position: SinkPosition { row: 7, entries: 5 },
            lease: Some(SinkLease { node: Name::new("n-1").unwrap(), until: Time::from_micros(8) }),
            fence: 4,
            sent_at: Some(Time::from_micros(9)),
            trouble: Some(SinkTrouble { since: Time::from_micros(10), message: "refused".into() }),
            totals: SinkTotals { sent: 1, skipped: 2, refused: 3 },
            ..plain.clone()
        };
        for sink in [plain, full] {
            assert_eq!(SinkCursor::of(&sink.to_record(1)), Ok(sink));
        }
        assert_eq!(SinkCursor::decode("kafka", &[1]), Err(Corrupt));
    }

    #[test]
    fn places_come_in_the_order_of_the_journal() {
        let places = [
            SinkPosition::after(0),
            SinkPosition { row: 1, entries: 0 },
            SinkPosition { row: 1, entries: 2 },
            SinkPosition::after(1),
            SinkPosition { row: 2, entries: 1 },
        ];
        assert!(places.is_sorted());
    }
}
