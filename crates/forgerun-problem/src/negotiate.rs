//! Which representation and which language a client wants.
//!
//! Errors are never refused for lack of an acceptable form: whoever asks for something else gets
//! JSON, as HTTP allows.

/// A form of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Representation {
    /// `application/problem+json`.
    Json,
    /// `application/problem+xml`.
    Xml,
}

/// Picks a representation by an `Accept` header.
///
/// `application/json` counts as a wish for problem+json and `application/xml` or `text/xml` as one
/// for problem+xml, but the latter only where JSON is not acceptable at all: browsers list it
/// without meaning it. A wildcard such as `text/*` is no wish for XML. Between equal weights the
/// more specific wish wins, then JSON.
#[must_use]
pub fn representation(accept: Option<&str>) -> Representation {
    let ranges: Vec<_> = split(accept.unwrap_or("*/*"), b',').filter_map(Range::parse).collect();
    let best = |media_type: &str| {
        let matches = ranges.iter().filter_map(|range| Some((range.specificity(media_type)?, range.weight)));
        // The most specific range decides about its type, whatever weight the wider ones have.
        matches.max().map(|(specificity, weight)| (weight, specificity)).filter(|(weight, _)| *weight > 0)
    };
    let names = |media_type: &str| ranges.iter().any(|range| range.name.eq_ignore_ascii_case(media_type));
    let json = match best("application/problem+json") {
        problem_json if names("application/problem+json") => problem_json,
        by_wildcard => by_wildcard.max(best("application/json")),
    };
    let xml = best("application/problem+xml");
    // By name only: whoever takes any text has not asked for XML.
    let any_xml = ["application/xml", "text/xml"].iter().any(|name| names(name) && best(name).is_some());
    if xml > json || (json.is_none() && any_xml) { Representation::Xml } else { Representation::Json }
}

/// Picks a language by an `Accept-Language` header: RFC 4647 lookup, that is, `de-CH` is served by
/// `de` if there is nothing closer. Whoever wants none of them gets the default.
#[must_use]
pub fn language<'a>(accept_language: Option<&str>, default: &'a str, others: &[&'a str]) -> &'a str {
    let mut ranges: Vec<_> =
        split(accept_language.unwrap_or_default(), b',').filter_map(Range::parse).collect();
    ranges.retain(|range| range.weight > 0);
    ranges.sort_by_key(|range| std::cmp::Reverse(range.weight));
    ranges.iter().find_map(|range| lookup(range.name, default, others)).unwrap_or(default)
}

/// Shortens the range subtag by subtag until it is available.
fn lookup<'a>(range: &str, default: &'a str, others: &[&'a str]) -> Option<&'a str> {
    let mut range = range;
    loop {
        let mut available = std::iter::once(default).chain(others.iter().copied());
        if let Some(found) = available.find(|language| language.eq_ignore_ascii_case(range)) {
            return Some(found);
        }
        range = &range[..range.rfind('-')?];
        // A single letter only introduces what came after it.
        if range.len() >= 2 && range.as_bytes()[range.len() - 2] == b'-' {
            range = &range[..range.len() - 2];
        }
    }
}

/// An entry of an `Accept` header.
struct Range<'a> {
    name: &'a str,
    /// The `q` value in thousandths.
    weight: u16,
}

impl<'a> Range<'a> {
    /// `None` for an empty entry, or a weight that is none.
    fn parse(entry: &'a str) -> Option<Self> {
        let mut parts = split(entry, b';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?;
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        Some(Self { name, weight: weight.map_or(Some(1_000), thousandths)? })
    }

    /// How closely the range names the media type: 2 exactly, 1 by `application/*`, 0 by `*/*`.
    fn specificity(&self, media_type: &str) -> Option<u8> {
        if self.name.eq_ignore_ascii_case(media_type) {
            return Some(2);
        }
        let main_type = media_type.split('/').next()?;
        match self.name.strip_suffix("/*").unwrap_or(self.name) {
            "*" => Some(0),
            wide if wide.eq_ignore_ascii_case(main_type) => Some(1),
            _ => None,
        }
    }
}

/// `0.123` as 123; at most three decimals and not above 1.
fn thousandths(weight: &str) -> Option<u16> {
    let (whole, decimals) = weight.split_once('.').unwrap_or((weight, ""));
    let whole: u16 = whole.parse().ok().filter(|whole| *whole <= 1)?;
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let decimals: u16 = format!("{decimals:0<3}").parse().ok()?;
    Some(whole * 1_000 + decimals).filter(|weight| *weight <= 1_000)
}

/// Splits at a separator outside of quoted strings.
fn split(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut quoted = false;
        let mut escaped = false;
        let end = text.bytes().position(|byte| {
            let was_escaped = std::mem::replace(&mut escaped, false);
            match byte {
                b'"' if !was_escaped => quoted = !quoted,
                b'\\' if quoted && !was_escaped => escaped = true,
                _ => {}
            }
            byte == separator && !quoted
        });
        rest = end.map(|end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accept_header_picks_the_representation() {
        use Representation::{Json, Xml};
        for (accept, expected) in [
            ("application/problem+xml", Xml),
            ("application/problem+json", Json),
            ("application/json", Json),
            ("application/json, application/problem+json", Json),
            ("*/*", Json),
            ("", Json),
            ("text/html", Json),
            ("application/xml", Xml),
            ("text/xml;q=0.5", Xml),
            ("text/*", Json),
            ("text/html, text/*;q=0.5", Json),
            ("text/*, application/xml;q=0.1", Xml),
            ("application/xml;q=0, text/*", Json),
            ("application/problem+xml, */*", Xml),
            ("application/problem+xml;q=0.5, application/problem+json;q=0.8", Json),
            ("application/problem+xml;q=0.9, application/json;q=0.8", Xml),
            ("application/problem+xml;q=0.9, application/json;q=0.9", Json),
            ("application/problem+xml, application/*;q=0.5", Xml),
            ("application/problem+json;q=0, application/problem+xml;q=0.1", Xml),
            ("application/problem+json;q=0, */*", Xml),
            ("application/json;q=0.2, application/problem+json", Json),
            ("APPLICATION/PROBLEM+XML", Xml),
            ("text/html;x=\"a, application/problem+xml\", application/json;q=0.1", Json),
            ("application/problem+xml;q=7, application/json", Json),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Json),
            ("a;q=\u{e9}, \"", Json),
        ] {
            assert_eq!(representation(Some(accept)), expected, "{accept}");
        }
        assert_eq!(representation(None), Json);
    }

    #[test]
    fn the_accept_language_header_picks_the_language() {
        let others = ["de", "fr-CA", "zh-Hant"];
        for (accept, expected) in [
            ("de", "de"),
            ("de-CH-1996", "de"),
            ("fr", "en"),
            ("FR-ca", "fr-CA"),
            ("ja, de;q=0.5, en;q=0.4", "de"),
            ("en;q=0.1, de;q=0.9", "de"),
            ("de;q=0, en", "en"),
            ("zh-Hant-TW-x-private", "zh-Hant"),
            ("*", "en"),
            ("", "en"),
            ("\u{e9}-\u{e9}, -, --", "en"),
        ] {
            assert_eq!(language(Some(accept), "en", &others), expected, "{accept}");
        }
        assert_eq!(language(None, "en", &others), "en");
    }
}
