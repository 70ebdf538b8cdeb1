//! The two text formats of scrapes: Prometheus 0.0.4, which all scrapers accept, and OpenMetrics on
//! request (ruling C-118).
//!
//! The encoder writes OpenMetrics. The older format differs in three ways: a counter is described
//! with `_total`; there are no units; and there is no end mark.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Media type of OpenMetrics, without parameters.
    pub const OPEN_METRICS: &str = "application/openmetrics-text";
    /// Media type of the older format, without parameters.
    pub const PROMETHEUS: &str = "text/plain";

    /// The media type with parameters.
    pub const fn media_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Converts OpenMetrics to Prometheus text 0.0.4.
pub(super) fn prometheus(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + 1024);
    let mut lines = open_metrics.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("# UNIT ") || line == "# EOF" {
            continue;
        }
        match described(line, lines.peek().copied()) {
            Some((keyword, name, rest)) => text.extend(["# ", keyword, " ", name, "_total ", rest]),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// A line that describes a counter: keyword, name, rest. The type of a metric is on the line
/// itself, or on the one after its help.
fn described<'a>(line: &'a str, next: Option<&str>) -> Option<(&'a str, &'a str, &'a str)> {
    let (keyword, line) = line.strip_prefix("# ")?.split_once(' ')?;
    let (name, rest) = line.split_once(' ')?;
    let counter = match keyword {
        "TYPE" => rest == "counter",
        "HELP" => next == Some(format!("# TYPE {name} counter").as_str()),
        _ => false,
    };
    counter.then_some((keyword, name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_described_by_the_name_of_their_samples_and_nothing_marks_the_end() {
        let open_metrics = "# HELP jobs Jobs.\n# TYPE jobs counter\njobs_total{a=\"b\"} 1\n# HELP wait_seconds From a counter.\n\
                            # TYPE wait_seconds histogram\n# UNIT wait_seconds seconds\nwait_seconds_count 0\n# EOF\n";
        let expected = "# HELP jobs_total Jobs.\n# TYPE jobs_total counter\njobs_total{a=\"b\"} 1\n\
                        # HELP wait_seconds From a counter.\n# TYPE wait_seconds histogram\nwait_seconds_count 0\n";
        assert_eq!(prometheus(open_metrics), expected);
    }
}
