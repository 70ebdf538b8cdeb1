//! The course of a workflow in time: a bar per step, and the critical path, the chain of steps that
//! decided when it ended.

use std::collections::{HashMap, HashSet};

use forgerun_core::time::Time;
use forgerun_wire::time;
use forgerun_wire::workflow::StepView;
use maud::{Markup, html};

use super::parts;

/// Bars that are drawn; the table below has all steps.
const BARS_MAX: usize = 200;

/// The newest attempt of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepSpan {
    from: Time,
    until: Time,
}

impl StepSpan {
    /// `None` before the step has begun. A step that runs lasts until now.
    pub(super) fn of(step: &StepView, now: Time) -> Option<StepSpan> {
        let at = |text: &Option<String>| text.as_deref().and_then(time::parse);
        let from = at(&step.started_at)?;
        // A retry has begun after the last end.
        let until = at(&step.finished_at).filter(|until| *until >= from).unwrap_or_else(|| now.max(from));
        Some(StepSpan { from, until })
    }

    pub(super) fn seconds(self) -> f64 {
        self.until.since(self.from).as_secs_f64()
    }
}

/// The steps on the critical path: the one that ended last, the last of those it waited for, and so
/// on back to the beginning.
pub(super) fn critical_path(steps: &[StepView], now: Time) -> HashSet<&str> {
    let ends: HashMap<&str, (&StepView, Time)> = steps
        .iter()
        .filter_map(|step| StepSpan::of(step, now).map(|span| (step.id.as_str(), (step, span.until))))
        .collect();
    let mut path = HashSet::new();
    // Of several that end together, the later step.
    let mut next = steps.iter().filter_map(|step| ends.get(step.id.as_str())).max_by_key(|(_, until)| *until);
    while let Some((step, _)) = next {
        if !path.insert(step.id.as_str()) {
            break;
        }
        let before = step.depends_on.iter().filter_map(|id| ends.get(id.as_str()));
        next = before.max_by_key(|(_, until)| *until);
    }
    path
}

/// A bar per step that has begun.
pub(super) fn show(steps: &[StepView], now: Time) -> Markup {
    let mut begun: Vec<(&StepView, StepSpan)> =
        steps.iter().filter_map(|step| StepSpan::of(step, now).map(|span| (step, span))).collect();
    begun.sort_by_key(|(step, span)| (span.from, step.index));
    let first = begun.iter().map(|(_, span)| span.from).min().unwrap_or(now);
    let last = begun.iter().map(|(_, span)| span.until).max().unwrap_or(now);
    let whole = last.since(first).as_secs_f64();
    let path = critical_path(steps, now);
    html! {
        section #course .panel data-live aria-labelledby="course-title" {
            h2 #course-title { "Timeline" span .muted { " " (parts::span(whole)) " in all" } }
            @if begun.is_empty() { (parts::nothing("No step has begun.")) }
            div .attempts {
                @for (step, span) in begun.iter().take(BARS_MAX) { (row(step, *span, first, whole, path.contains(&*step.id))) }
            }
            @if begun.len() > BARS_MAX { p .muted { (begun.len() - BARS_MAX) " more in the table" } }
            @if !begun.is_empty() { p .muted { "● critical path: the steps that decided when it ends" } }
        }
    }
}

fn row(step: &StepView, span: StepSpan, first: Time, whole: f64, is_critical: bool) -> Markup {
    /// Minimum width, so that a short span is visible.
    const WIDTH_MIN: f64 = 4.0;
    let scale = if whole > 0.0 { 1000.0 / whole } else { 0.0 };
    let width = (span.seconds() * scale).max(WIDTH_MIN);
    let x = (span.from.since(first).as_secs_f64() * scale).min(1000.0 - width);
    let took = parts::span(span.seconds());
    html! {
        div .attempt data-bar=(step.id) {
            span .label title=(step.id) { @if is_critical { "● " } (step.id) }
            svg .gantt viewBox="0 0 1000 18" preserveAspectRatio="none" role="img"
                aria-label={ (step.id) ": " (step.state) ", " (took) @if is_critical { ", on the critical path" } } {
                rect .ground width="1000" height="18" {}
                rect class={ "is-" (step.state.to_ascii_lowercase()) } x=(format!("{x:.1}")) width=(format!("{width:.1}")) height="18" {}
            }
            span .spent { b { (took) } " " (step.state.to_ascii_lowercase()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::dashboard::graph::tests::step;

    fn at(second: u32) -> Option<String> {
        Some(format!("2030-01-01T00:00:{second:02}Z"))
    }

    fn ran(id: &str, depends_on: &[&str], from: u32, until: Option<u32>) -> StepView {
        StepView { started_at: at(from), finished_at: until.and_then(at), ..step(id, depends_on) }
    }

    #[test]
    fn the_critical_path_goes_back_from_the_last_end() {
        let now = time::parse("2030-01-01T00:00:30Z").unwrap();
        let steps = [
            ran("a", &[], 0, Some(2)),
            ran("b", &["a"], 2, Some(3)),
            ran("c", &["a"], 2, Some(9)),
            ran("d", &["b", "c"], 9, Some(10)),
            ran("e", &["b"], 3, Some(4)),
            step("f", &["d"]),
        ];
        let mut path: Vec<&str> = critical_path(&steps, now).into_iter().collect();
        path.sort_unstable();
        assert_eq!(path, ["a", "c", "d"]);
        let running = [ran("a", &[], 0, Some(20)), ran("b", &[], 1, None)];
        assert_eq!(critical_path(&running, now), HashSet::from(["b"]), "it ends last, as it has not ended");
        assert!(critical_path(&[step("a", &[])], now).is_empty());
    }

    #[test]
    fn a_step_lasts_from_its_newest_attempt_on() {
        let now = time::parse("2030-01-01T00:00:30Z").unwrap();
        let seconds = |step: &StepView| StepSpan::of(step, now).map(StepSpan::seconds);
        assert_eq!(seconds(&ran("a", &[], 1, Some(3))), Some(2.0));
        assert_eq!(seconds(&ran("a", &[], 20, Some(3))), Some(10.0), "it runs again");
        assert_eq!(seconds(&step("a", &[])), None);
    }
}
