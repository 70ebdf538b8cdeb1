//! Durations as text: `500ms`, `10s`, `2m`, `1h30m`, `7d`.

use std::time::Duration;

pub(crate) use forgerun_probe::duration::parse;

/// A duration in one or two units, rounded down: `3 s`, `2 m`, `1 h 5 m`.
pub(crate) fn short(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 => format!("{} ms", span.as_millis()),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} m", seconds / 60),
        3600..86_400 => format!("{} h {} m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_shown_in_the_unit_that_fits() {
        for (s, text) in [(0, "0 ms"), (5, "5 s"), (125, "2 m"), (3_900, "1 h 5 m"), (200_000, "2 d")] {
            assert_eq!(short(Duration::from_secs(s)), text);
        }
    }
}
