//! Durations as text: `500ms`, `10s`, `2m`, `1h30m`, `7d`.

use std::time::Duration;

/// Parses a duration: numbers with units, the larger before the smaller.
///
/// # Errors
/// With a sentence that describes the format.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration; write 500ms, 10s, 2m or 1h30m");
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    let mut smallest = u64::MAX;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let unit_ms = match &rest[..letters] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        if unit_ms >= smallest {
            return Err(wrong());
        }
        smallest = unit_ms;
        let ms = number.checked_mul(unit_ms).ok_or_else(wrong)?;
        total = total.checked_add(Duration::from_millis(ms)).ok_or_else(wrong)?;
        rest = &rest[letters..];
    }
    Ok(total)
}

pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Duration, D::Error> {
    let text: String = serde::Deserialize::deserialize(source)?;
    parse(&text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ms) in [
            ("500ms", 500),
            ("10s", 10_000),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("1d12h", 129_600_000),
            ("1s500ms", 1_500),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "10", "s", "1.5s", "-1s", "30m1h", "1s1s", "1x", "1 s", "99999999999999999999s", "ä"]
        {
            assert!(parse(bad).unwrap_err().contains("500ms"), "{bad}");
        }
    }
}
