//! Sinks as the operator sees them.

use std::time::Duration;

use forgerun_core::sink::SinkCursor;
use forgerun_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::time;

/// What waits longer than this makes a sink count as behind.
const BEHIND: Duration = Duration::from_secs(30);

/// How far a sink is behind.
#[derive(Clone, Copy, Debug)]
pub struct AdminSinkLag {
    /// Events that wait to be sent.
    pub events: u64,
    /// How long the oldest of them has waited.
    pub age: Duration,
}

/// A sink: where the events of all jobs go besides.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminSink {
    /// What it is called.
    pub name: String,
    /// What it is: kafka, nats or amqp.
    pub kind: String,
    /// `ok`; `behind` if events wait for more than 30 seconds; `down` if nothing goes out, or no node sends.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::SinkState"))]
    pub state: String,
    /// The row of the journal that it has come to.
    pub position: i64,
    /// Events that wait to be sent; an estimate if there are many.
    pub lag_events: u64,
    /// How long the oldest of them has waited.
    pub lag_seconds: f64,
    /// Why nothing goes out; `null` while it does.
    pub last_error: Option<String>,
    /// When the broker last confirmed anything.
    pub last_sent_at: Option<String>,
    /// The node that sends; `null` if none does.
    pub node: Option<String>,
    /// Events that the broker confirmed, since the sink was first used; repetitions count.
    pub sent: u64,
    /// Events that were left out because their job was deleted before.
    pub skipped: u64,
    /// Events that the broker will never take.
    pub refused: u64,
}

impl AdminSink {
    /// The sink at this moment.
    pub fn new(sink: &SinkCursor, lag: AdminSinkLag, now: Time) -> AdminSink {
        let is_down = sink.trouble.is_some() || !sink.is_held(now);
        let state = if is_down {
            "down"
        } else if lag.age > BEHIND {
            "behind"
        } else {
            "ok"
        };
        let lease = sink.lease.as_ref().filter(|lease| lease.until > now);
        AdminSink {
            name: sink.name.to_string(),
            kind: sink.kind.clone(),
            state: state.to_owned(),
            position: sink.position.row,
            lag_events: lag.events,
            lag_seconds: lag.age.as_millis() as f64 / 1000.0,
            last_error: sink.trouble.as_ref().map(|trouble| trouble.message.clone()),
            last_sent_at: sink.sent_at.map(time::millis),
            node: lease.map(|lease| lease.node.to_string()),
            sent: sink.totals.sent,
            skipped: sink.totals.skipped,
            refused: sink.totals.refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use forgerun_core::job::Name;
    use forgerun_core::sink::{SinkLease, SinkPosition, SinkTrouble};

    use super::*;

    #[test]
    fn a_sink_is_down_if_nothing_goes_out_and_behind_if_it_takes_long() {
        let now = Time::from_millis(1_000_000);
        let lease = |until| Some(SinkLease { node: Name::new("n").unwrap(), until });
        let plain = SinkCursor::new(Name::new("kafka").unwrap(), SinkPosition::after(7), now);
        let held = SinkCursor { lease: lease(now + BEHIND), ..plain.clone() };
        let gone = SinkCursor { lease: lease(now), ..plain.clone() };
        let broken =
            SinkCursor { trouble: Some(SinkTrouble { since: now, message: "away".into() }), ..held.clone() };
        for (sink, age_s, expected) in [
            (&held, 0, "ok"),
            (&held, 31, "behind"),
            (&broken, 0, "down"),
            (&gone, 0, "down"),
            (&plain, 0, "down"),
        ] {
            let lag = AdminSinkLag { events: 1, age: Duration::from_secs(age_s) };
            assert_eq!(AdminSink::new(sink, lag, now).state, expected);
        }
        assert_eq!(AdminSink::new(&gone, AdminSinkLag { events: 0, age: BEHIND }, now).node, None);
    }
}
