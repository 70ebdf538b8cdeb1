//! A run as a self-contained page: numbers, SVG plots, violations with requests that repeat them.

use std::fmt::Write;

use super::Summary;
use super::tally::Tick;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 56.0;
const BOTTOM: f64 = 22.0;

/// A line of a plot.
struct Line<'a> {
    name: &'a str,
    colour: &'a str,
    points: Vec<Option<f64>>,
}

impl Summary {
    pub fn to_html(&self) -> String {
        let mut page = String::new();
        let _ = self.write_html(&mut page);
        page
    }

    fn write_html(&self, page: &mut String) -> std::fmt::Result {
        let about = &self.about;
        let verdict = if self.is_ok() { "clean" } else { "not clean" };
        writeln!(
            page,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">"
        )?;
        writeln!(
            page,
            "<title>{}, {verdict}</title>\n<style>{STYLE}</style></head><body>",
            escaped(&about.scenario)
        )?;
        writeln!(
            page,
            "<h1>{} <span class=\"{}\">{verdict}</span></h1>",
            escaped(&about.scenario),
            if self.is_ok() { "good" } else { "bad" }
        )?;
        writeln!(
            page,
            "<p>{}, seed {}, {:.1} s. {} requests ({:.0} per second), {} errors, {} interrupted by {} kills.</p>",
            escaped(&about.target),
            about.seed,
            about.duration.as_secs_f64(),
            self.requests,
            self.per_second(),
            self.errors,
            self.interrupted,
            about.n_kills
        )?;
        self.write_numbers(page)?;
        self.write_plots(page)?;
        self.write_violations(page)?;
        writeln!(
            page,
            "<p class=\"small\">Latencies count from the moment at which a request was meant to be sent. The tool itself: {}.</p>\n</body></html>",
            self.overhead()
        )
    }

    fn write_numbers(&self, page: &mut String) -> std::fmt::Result {
        let jobs = &self.jobs;
        let counts = [
            ("submitted", jobs.submitted),
            ("accepted", jobs.accepted),
            ("refused", jobs.refused),
            ("succeeded", jobs.succeeded),
            ("failed", jobs.failed),
            ("canceled", jobs.canceled),
            ("unfinished", jobs.unfinished),
            ("lost", jobs.lost),
            ("doubled", jobs.doubled),
        ];
        let (mut heads, mut cells) = (String::new(), String::new());
        for (name, n) in counts {
            write!(heads, "<th>{name}</th>")?;
            write!(cells, "<td>{n}</td>")?;
        }
        writeln!(page, "<h2>Jobs</h2><table><tr>{heads}</tr><tr>{cells}</tr></table>")?;
        writeln!(
            page,
            "<h2>Latency in ms</h2><table><tr><th></th><th>p50</th><th>p90</th><th>p99</th><th>p99.9</th><th>max</th></tr>"
        )?;
        for (name, latency) in [("submit", self.submit), ("poll", self.poll), ("end to end", self.end_to_end)]
        {
            writeln!(page, "<tr><th>{name}</th><td>{}</td></tr>", latency.cells().join("</td><td>"))?;
        }
        writeln!(page, "</table>")
    }

    fn write_plots(&self, page: &mut String) -> std::fmt::Result {
        let line = |name, colour, value: &dyn Fn(&Tick) -> Option<f64>| Line {
            name,
            colour,
            points: self.ticks.iter().map(value).collect(),
        };
        let count = |n: u64| Some(n as f64);
        plot(
            page,
            "Requests and jobs per second",
            &[
                line("requests", "#2563eb", &|tick| count(tick.requests)),
                line("jobs accepted", "#059669", &|tick| count(tick.accepted)),
            ],
        )?;
        plot(
            page,
            "Latency of submissions and polls, ms",
            &[
                line("submit p50", "#93c5fd", &|tick| tick.submit_ms.map(|pair| pair.0)),
                line("submit p99", "#2563eb", &|tick| tick.submit_ms.map(|pair| pair.1)),
                line("poll p50", "#fcd34d", &|tick| tick.poll_ms.map(|pair| pair.0)),
                line("poll p99", "#d97706", &|tick| tick.poll_ms.map(|pair| pair.1)),
            ],
        )?;
        plot(
            page,
            "Time until clients knew of the end, ms",
            &[
                line("p50", "#c4b5fd", &|tick| tick.end_to_end_ms.map(|pair| pair.0)),
                line("p99", "#7c3aed", &|tick| tick.end_to_end_ms.map(|pair| pair.1)),
            ],
        )?;
        plot(
            page,
            "Ends per second, and journeys under way",
            &[
                line("succeeded", "#059669", &|tick| count(tick.succeeded)),
                line("failed", "#dc2626", &|tick| count(tick.failed)),
                line("canceled", "#d97706", &|tick| count(tick.canceled)),
                line("under way", "#94a3b8", &|tick| count(tick.in_flight)),
            ],
        )?;
        plot(
            page,
            "Errors per second, and violations so far",
            &[
                line("errors", "#dc2626", &|tick| count(tick.errors)),
                line("violations", "#7c3aed", &|tick| count(tick.violations)),
            ],
        )
    }

    fn write_violations(&self, page: &mut String) -> std::fmt::Result {
        writeln!(page, "<h2>Violations</h2>")?;
        if self.violations.is_empty() && self.unmet.is_empty() {
            return writeln!(page, "<p>None, and every expectation was met.</p>");
        }
        for unmet in &self.unmet {
            writeln!(page, "<p><b>unmet</b> {}</p>", escaped(unmet))?;
        }
        for found in &self.violations {
            writeln!(
                page,
                "<details open><summary><b>{}</b> {} ({} times)</summary><pre>{}</pre><pre>{}</pre></details>",
                found.id,
                escaped(&found.what),
                found.count,
                escaped(&found.curl),
                escaped(&found.response)
            )?;
        }
        Ok(())
    }
}

/// Draws lines over the seconds of a run.
fn plot(page: &mut String, title: &str, lines: &[Line<'_>]) -> std::fmt::Result {
    let n = lines.iter().map(|line| line.points.len()).max().unwrap_or(0);
    let highest = lines.iter().flat_map(|line| line.points.iter().flatten()).copied().fold(0.0, f64::max);
    let top = round_up(highest);
    let x = |index: usize| LEFT + (WIDTH - LEFT - 20.0) * index as f64 / (n.max(2) - 1) as f64;
    let y = |value: f64| 8.0 + (HEIGHT - BOTTOM - 8.0) * (1.0 - value / top);
    writeln!(
        page,
        "<h2>{}</h2><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escaped(title),
        escaped(title)
    )?;
    for step in 0..=4 {
        let value = top * f64::from(step) / 4.0;
        let at = y(value);
        writeln!(
            page,
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\" class=\"grid\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            short(value)
        )?;
    }
    for index in (0..n).step_by((n / 8).max(1)) {
        writeln!(
            page,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} s</text>",
            x(index),
            HEIGHT - 4.0,
            index + 1
        )?;
    }
    for line in lines {
        // A second without values is a gap.
        for run in line.points.iter().enumerate().collect::<Vec<_>>().split(|(_, point)| point.is_none()) {
            let points: Vec<String> = run
                .iter()
                .filter_map(|(index, point)| Some(format!("{:.1},{:.1}", x(*index), y((**point)?))))
                .collect();
            match points.as_slice() {
                [] => {}
                [one] => {
                    let (cx, cy) = one.split_once(',').unwrap_or_default();
                    writeln!(page, "<circle cx=\"{cx}\" cy=\"{cy}\" r=\"1.5\" fill=\"{}\"/>", line.colour)?;
                }
                many => {
                    writeln!(page, "<polyline points=\"{}\" stroke=\"{}\"/>", many.join(" "), line.colour)?
                }
            }
        }
    }
    writeln!(page, "</svg><p class=\"legend\">")?;
    for line in lines {
        writeln!(page, "<span style=\"color:{}\">■</span> {} ", line.colour, escaped(line.name))?;
    }
    writeln!(page, "</p>")
}

/// The next of 1, 2, 5, 10, 20, …
fn round_up(value: f64) -> f64 {
    let value = value.max(1e-3);
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|bound| *bound >= value).unwrap_or(value)
}

fn short(value: f64) -> String {
    match value {
        v if v >= 10_000.0 => format!("{:.0}k", v / 1000.0),
        v if v >= 10.0 || v == 0.0 => format!("{v:.0}"),
        v => format!("{v:.2}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:800px;margin:2em auto;padding:0 1em;color:#1e293b}\
h1 span{font-size:.6em;padding:.1em .6em;border-radius:1em;color:#fff}.good{background:#059669}.bad{background:#dc2626}\
table{border-collapse:collapse}th,td{padding:.2em .5em;text-align:right;border-bottom:1px solid #e2e8f0}th{font-weight:600}\
svg{width:100%;height:auto}svg text{font-size:11px;fill:#64748b}.grid{stroke:#e2e8f0}polyline{fill:none;stroke-width:1.5}\
.legend,.small{font-size:13px;color:#475569}pre{background:#f1f5f9;padding:.6em;overflow-x:auto;white-space:pre-wrap}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_at_round_numbers() {
        for (value, expected) in [(0.0, 0.001), (3.0, 5.0), (5.0, 5.0), (51.0, 100.0), (1001.0, 2000.0)] {
            assert!((round_up(value) - expected).abs() < 1e-9, "{value}: {}", round_up(value));
        }
    }

    #[test]
    fn a_gap_in_the_numbers_is_a_gap_in_the_line() {
        let mut page = String::new();
        let points = vec![Some(1.0), Some(2.0), None, Some(3.0), Some(1.0), None, Some(2.0)];
        plot(&mut page, "a < b", &[Line { name: "x", colour: "red", points }]).unwrap();
        assert_eq!((page.matches("<polyline").count(), page.matches("<circle").count()), (2, 1), "{page}");
        assert!(page.contains("a &lt; b"));
    }
}
