//! The timeline of a job: a bar per attempt, with its waiting, assigned and running spans.

use std::time::Duration;

use forgerun_core::time::Time;
use forgerun_wire::admin::AdminJobDetail;
use forgerun_wire::forge::{EventView, FailedAttemptView};
use forgerun_wire::time;
use maud::{Markup, html};

use super::parts;

/// A span in one state.
#[derive(Clone, Debug, PartialEq)]
struct StateSpan {
    state: String,
    attempt: u32,
    from: Time,
    until: Time,
}

impl StateSpan {
    fn seconds(&self) -> f64 {
        self.until.since(self.from).as_secs_f64()
    }
}

/// The spans of a job, oldest first. The current state lasts until now, unless it is final.
fn spans(events: &[EventView], now: Time) -> Vec<StateSpan> {
    let changes: Vec<(&EventView, Time)> = events
        .iter()
        .filter(|event| event.prev_state.as_deref() != Some(event.next_state.as_str()))
        .filter_map(|event| time::parse(&event.timestamp).map(|at| (event, at)))
        .collect();
    let ends = changes.iter().skip(1).map(|(_, at)| *at).chain([now]);
    let spans = changes.iter().zip(ends).map(|((event, from), until)| StateSpan {
        state: event.next_state.clone(),
        attempt: event.attempt,
        from: *from,
        until: until.max(*from),
    });
    spans.filter(|span| !matches!(span.state.as_str(), "SUCCEEDED" | "FAILED" | "CANCELED")).collect()
}

/// The spans of each attempt. The wait before an attempt is part of it.
fn attempts(spans: Vec<StateSpan>) -> Vec<Vec<StateSpan>> {
    let mut attempts: Vec<Vec<StateSpan>> = Vec::new();
    for span in spans {
        let is_next = match attempts.last().and_then(|attempt| attempt.last()) {
            None => true,
            Some(before) => span.state == "QUEUED" && before.state != "CREATED",
        };
        if is_next {
            attempts.push(Vec::new());
        }
        attempts.last_mut().expect("just pushed").push(span);
    }
    attempts
}

/// The picture of all attempts.
pub(super) fn show(job: &AdminJobDetail, now: Time) -> Markup {
    let attempts = attempts(spans(&job.events, now));
    let first = attempts.first().and_then(|attempt| attempt.first()).map_or(now, |span| span.from);
    let last = attempts.last().and_then(|attempt| attempt.last()).map_or(now, |span| span.until);
    let whole = last.since(first).as_secs_f64();
    html! {
        section #timeline .panel data-live aria-labelledby="timeline-title" {
            h2 #timeline-title { "Timeline" span .muted { " " (parts::span(whole)) " in all" } }
            div .attempts {
                @for (place, attempt) in attempts.iter().enumerate() {
                    (row(place + 1, attempt, job, first, whole))
                }
            }
            p .legend {
                @for state in ["CREATED", "QUEUED", "ASSIGNED", "RUNNING"] { (parts::state(state)) " " }
            }
        }
    }
}

fn row(n: usize, attempt: &[StateSpan], job: &AdminJobDetail, first: Time, whole: f64) -> Markup {
    let n_attempt = attempt.last().map_or(0, |span| span.attempt);
    // Attempts are counted anew after a retry, so the moment is compared, too. Errors have
    // milliseconds.
    let begun = attempt.first().map_or(Time::ZERO, |span| span.from);
    let is_since = |at: &str| time::parse(at).is_none_or(|at| at + Duration::from_millis(1) > begun);
    let is_meant =
        |error: &&FailedAttemptView<'_>| error.attempt == n_attempt && is_since(&error.error.timestamp);
    let error = job.errors.iter().find(is_meant);
    let ran: f64 = attempt.iter().filter(|span| span.state == "RUNNING").map(StateSpan::seconds).sum();
    let waited: f64 = attempt.iter().filter(|span| span.state == "QUEUED").map(StateSpan::seconds).sum();
    html! {
        div .attempt {
            span .label { "Attempt " (n) }
            svg .gantt viewBox="0 0 1000 18" preserveAspectRatio="none" role="img"
                aria-label={ "Attempt " (n) ": waited " (parts::span(waited)) ", ran " (parts::span(ran)) } {
                rect .ground width="1000" height="18" {}
                @for span in attempt { (bar(span, first, whole)) }
            }
            span .spent { "waited " b { (parts::span(waited)) } ", ran " b { (parts::span(ran)) } }
            @if let Some(error) = error { span .why { (error.error.message) ": " (error.error.detail) } }
        }
    }
}

fn bar(span: &StateSpan, first: Time, whole: f64) -> Markup {
    /// Minimum width, so that a short span is visible.
    const WIDTH_MIN: f64 = 4.0;
    let scale = if whole > 0.0 { 1000.0 / whole } else { 0.0 };
    let width = (span.seconds() * scale).max(WIDTH_MIN);
    let x = (span.from.since(first).as_secs_f64() * scale).min(1000.0 - width);
    html! {
        rect class={ "is-" (span.state.to_ascii_lowercase()) } x={ (format!("{x:.1}")) } width={ (format!("{width:.1}")) } height="18" {
            title { (span.state) " for " (parts::span(span.seconds())) ", from " (time::millis(span.from)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(state: &str, from: i64, until: i64) -> StateSpan {
        StateSpan {
            state: state.to_owned(),
            attempt: 1,
            from: Time::from_millis(from),
            until: Time::from_millis(until),
        }
    }

    #[test]
    fn an_attempt_begins_with_its_wait() {
        let all = [
            ("CREATED", 0, 1),
            ("QUEUED", 1, 2),
            ("ASSIGNED", 2, 3),
            ("RUNNING", 3, 4),
            ("QUEUED", 4, 5),
            ("RUNNING", 5, 6),
        ];
        let found = attempts(all.map(|(state, from, until)| span(state, from, until)).to_vec());
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [4, 2]);
        assert!(attempts(Vec::new()).is_empty());
    }
}
