//! Sinks: where the events of all jobs go besides webhooks and streams, such as a topic of a broker.
//!
//! A sink is a record. It says how far the journal has been sent, and which node sends. The place moves only forward, and only
//! by the node that holds the sink; a node that was taken for dead has an old fence, and what it then says is refused. So an
//! event is sent at least once, and whoever goes on after a crash goes on where the last confirmed event was.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::codec::{Corrupt, Fields, Writer};
use crate::job::Name;
use crate::record::{RecordKind, Stored};
use crate::time::Time;

/// A place in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SinkPosition {
    /// All rows before this one are through.
    pub row: i64,
    /// And of this one so many entries.
    pub entries: u32,
}

impl SinkPosition {
    /// After everything in this row and before it.
    pub const fn after(row: i64) -> SinkPosition {
        SinkPosition { row, entries: u32::MAX }
    }
}

/// Who sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkLease {
    /// The node.
    pub node: Name,
    /// Without a word until then, another may take over.
    pub until: Time,
}

/// Why nothing goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkTrouble {
    /// Since when.
    pub since: Time,
    /// What was said last; bounded by [`TEXT_BYTES_MAX`](crate::limits::TEXT_BYTES_MAX).
    pub message: String,
}

/// How many events went where, since the sink was first used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkTotals {
    /// The broker has confirmed them.
    pub sent: u64,
    /// Their job was deleted before they were sent, or cannot be read.
    pub skipped: u64,
    /// The broker will never take them, for example because they are too large.
    pub refused: u64,
}

/// A sink, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkCursor {
    /// Which sink.
    pub name: Name,
    /// What it is: `kafka`, `nats`, `amqp`.
    pub kind: String,
    /// Everything up to here is through.
    pub position: SinkPosition,
    /// The right to send; `None` if the last holder left in good order.
    pub lease: Option<SinkLease>,
    /// Grows with each holder; what an old one says is refused.
    pub fence: u64,
    /// When a holder last gave a sign of life.
    pub seen_at: Time,
    /// When the broker last confirmed anything.
    pub sent_at: Option<Time>,
    /// Why nothing goes out; `None` while it does.
    pub trouble: Option<SinkTrouble>,
    /// How many events went where.
    pub totals: SinkTotals,
}

impl SinkCursor {
    /// A sink that nobody has used, which begins after `position`.
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

    /// Whether another node sends, as far as is known.
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
