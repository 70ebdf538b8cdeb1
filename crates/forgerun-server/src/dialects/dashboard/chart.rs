//! Charts as SVG. Colours come from the style by class; each value has a title, shown on hover and
//! read aloud.

use forgerun_wire::admin::OverviewMinute;
use maud::{Markup, html};

use super::parts::{number, span};

/// The size of a large chart; it is stretched, so text stands beside it.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;

/// The next round number: 1, 2, 2.5 or 5 times a power of ten. The top of a chart.
fn rounded_up(most: f64) -> f64 {
    let noughts = 10_f64.powf(most.max(1.0).log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|step| step * noughts).find(|round| *round >= most).unwrap_or(most)
}

/// Successes and failures per minute as columns, submissions as a line.
pub(super) fn throughput(minutes: &[OverviewMinute]) -> Markup {
    let most = minutes.iter().map(|minute| minute.submitted.max(minute.succeeded + minute.failed)).max();
    let top = rounded_up(most.unwrap_or(0) as f64);
    let (step, scale) = (WIDTH / minutes.len().max(1) as f64, HEIGHT / top);
    let line = points(minutes, step, |minute| Some(HEIGHT - minute.submitted as f64 * scale));
    let total: u64 = minutes.iter().map(|minute| minute.succeeded + minute.failed).sum();
    framed(
        &number(top as u64),
        &format!("Throughput: {total} executions ended in the last hour"),
        html! {
            @for (place, minute) in minutes.iter().enumerate() {
                @let (x, well) = (place as f64 * step, minute.succeeded as f64 * scale);
                @let badly = minute.failed as f64 * scale;
                rect .is-succeeded x=(n(x + 0.75)) y=(n(HEIGHT - well)) width=(n(step - 1.5)) height=(n(well)) {}
                rect .is-failed x=(n(x + 0.75)) y=(n(HEIGHT - well - badly)) width=(n(step - 1.5)) height=(n(badly)) {}
            }
            @for part in &line { polyline .submitted points=(part) {} }
            (hover(minutes, step, |minute| format!("{} submitted, {} succeeded, {} failed", minute.submitted, minute.succeeded, minute.failed)))
        },
    )
}

/// Waits and durations per minute, as two lines.
pub(super) fn latency(minutes: &[OverviewMinute]) -> Markup {
    let most = minutes.iter().flat_map(|minute| [minute.waited_ms, minute.ran_ms]).flatten().max();
    let top = rounded_up(most.unwrap_or(0) as f64);
    let (step, scale) = (WIDTH / minutes.len().max(1) as f64, HEIGHT / top);
    let waited = points(minutes, step, |minute| minute.waited_ms.map(|ms| HEIGHT - ms as f64 * scale));
    let ran = points(minutes, step, |minute| minute.ran_ms.map(|ms| HEIGHT - ms as f64 * scale));
    let told = |ms: Option<u64>| ms.map_or_else(|| "–".to_owned(), |ms| span(ms as f64 / 1000.0));
    framed(
        &span(top / 1000.0),
        "Latency of the last hour",
        html! {
            @for part in &waited { polyline .waited points=(part) {} }
            @for part in &ran { polyline .ran points=(part) {} }
            (hover(minutes, step, |minute| format!("waited {}, ran {}", told(minute.waited_ms), told(minute.ran_ms))))
        },
    )
}

/// A chart with its scale: from zero to `top`, over the last hour.
fn framed(top: &str, label: &str, drawing: Markup) -> Markup {
    html! {
        div .chart {
            span .top { (top) }
            svg viewBox="0 0 600 120" preserveAspectRatio="none" role="img" aria-label=(label) {
                @for y in [0.5, 60.0, 119.5] { line .grid x1="0" x2="600" y1=(y) y2=(y) {} }
                (drawing)
            }
            span .from { "60 min ago" } span .until { "now" }
        }
    }
}

/// Lines through the values, with gaps. A single value is a short line.
fn points(minutes: &[OverviewMinute], step: f64, y: impl Fn(&OverviewMinute) -> Option<f64>) -> Vec<String> {
    let (mut lines, mut line): (Vec<String>, Vec<(f64, f64)>) = (Vec::new(), Vec::new());
    for (place, value) in minutes.iter().map(y).chain([None]).enumerate() {
        match value {
            Some(y) => line.push(((place as f64 + 0.5) * step, y)),
            None => {
                if let [(x, y)] = line[..] {
                    line = vec![(x - step / 2.0, y), (x + step / 2.0, y)];
                }
                if !line.is_empty() {
                    lines.push(line.iter().map(|(x, y)| format!("{},{} ", n(*x), n(*y))).collect());
                }
                line.clear();
            }
        }
    }
    lines
}

/// The hover text of each minute.
fn hover(minutes: &[OverviewMinute], step: f64, say: impl Fn(&OverviewMinute) -> String) -> Markup {
    html! {
        @for (place, minute) in minutes.iter().enumerate() {
            rect .hover x=(n(place as f64 * step)) y="0" width=(n(step)) height="120" {
                title { (minute.at.get(11..16).unwrap_or_default()) " UTC: " (say(minute)) }
            }
        }
    }
}

/// A coordinate, rounded to what is visible.
fn n(value: f64) -> String {
    format!("{value:.1}")
}

/// A small column chart, the newest value last. `what` is the subject, `title` names a column.
pub(super) fn sparkline(values: &[u64], what: &str, title: impl Fn(usize, u64) -> String) -> Markup {
    const TALL: f64 = 24.0;
    let most = values.iter().copied().max().unwrap_or(0).max(1) as f64;
    let total: u64 = values.iter().sum();
    html! {
        svg .spark viewBox={ "0 0 " (values.len() * 4) " 24" } preserveAspectRatio="none" role="img"
            aria-label={ (what) ": " (total) " in all" } {
            @for (place, value) in values.iter().enumerate() {
                @let height = if *value == 0 { 1.0 } else { (*value as f64 / most * TALL).max(2.0) };
                rect .none[*value == 0] x=(place * 4) y=(n(TALL - height)) width="3" height=(n(height)) {
                    title { (title(place, *value)) }
                }
            }
        }
    }
}

/// A bar, relative to the maximum.
pub(super) fn bar(value: u64, most: u64, class: &str, title: &str) -> Markup {
    let width = if most == 0 { 0.0 } else { value as f64 / most as f64 * 100.0 };
    html! {
        svg .bar viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=(title) {
            title { (title) }
            rect .ground width="100" height="6" rx="1" {}
            @if value > 0 { rect class=(class) width=(width.max(1.0)) height="6" rx="1" {} }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_reaches_up_to_a_round_number() {
        for (most, top) in
            [(0.0, 1.0), (1.0, 1.0), (3.0, 5.0), (10.0, 10.0), (11.0, 20.0), (230.0, 250.0), (730.0, 1000.0)]
        {
            assert_eq!(rounded_up(most), top, "{most}");
        }
    }

    #[test]
    fn a_line_has_a_gap_where_there_is_no_value() {
        let minute = |ran_ms| OverviewMinute {
            at: String::new(),
            submitted: 0,
            succeeded: 0,
            failed: 0,
            waited_ms: None,
            ran_ms,
        };
        let minutes = [Some(1), Some(2), None, Some(3)].map(minute);
        let lines = points(&minutes, 10.0, |minute| minute.ran_ms.map(|ms| ms as f64));
        assert_eq!(lines, ["5.0,1.0 15.0,2.0 ", "30.0,3.0 40.0,3.0 "]);
    }
}
