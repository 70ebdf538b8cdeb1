//! Content negotiation. `application/problem+*` counts as consent to JSON (ruling C-48).

use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use forgerun_core::catalog::Kind;

use crate::http::{ApiError, Exchange};

/// The requested form of a failed job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureFormat {
    Json,
    /// The stored failure object, as JSON.
    ProblemJson,
    /// The stored failure object, as XML.
    ProblemXml,
}

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";
const PROBLEM_JSON: &str = "application/problem+json";
const PROBLEM_XML: &str = "application/problem+xml";
const OJS: &str = forgerun_wire::ojs::MEDIA_TYPE;

/// Refuses a request that does not accept JSON.
pub(crate) fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    require_one_of(headers, &[JSON])
}

/// Refuses a request that accepts none of these types; the refusal names the first.
pub(crate) fn require_one_of(headers: &HeaderMap, offers: &[&str]) -> Result<(), ApiError> {
    let consents = |accept: &Accept<'_>| {
        let problem = || accept.named(PROBLEM_JSON).is_some() || accept.named(PROBLEM_XML).is_some();
        // OJS's type implies JSON.
        offers.iter().any(|offer| accept.takes(offer)) || problem() || accept.named(OJS).is_some()
    };
    require(headers, offers.first().copied().unwrap_or(JSON), consents)
}

/// Refuses a request that accepts neither these types nor a problem.
pub(crate) fn require_own_or_problem(headers: &HeaderMap, own: &[&str]) -> Result<(), ApiError> {
    let is_taken = |accept: &Accept<'_>| accept.takes(PROBLEM_JSON) || accept.takes(PROBLEM_XML);
    match Accept::of(headers) {
        Some(accept) if is_taken(&accept) => Ok(()),
        _ => require_one_of(headers, own),
    }
}

/// Whether an answer is a problem object.
pub(crate) fn is_problem(answer: &Response) -> bool {
    let is = |media_type: &str| answer.headers().get(CONTENT_TYPE).is_some_and(|value| value == media_type);
    is(PROBLEM_JSON) || is(PROBLEM_XML)
}

/// Refuses a request that does not accept this type.
pub(crate) fn require_type(headers: &HeaderMap, media_type: &str) -> Result<(), ApiError> {
    let essence = media_type.split(';').next().unwrap_or(media_type).trim();
    require(headers, essence, |accept| accept.takes(essence))
}

/// Whether `Accept` names a type.
pub(crate) fn names(headers: &HeaderMap, media_type: &str) -> bool {
    Accept::of(headers).is_some_and(|accept| accept.named(media_type).is_some())
}

fn require(headers: &HeaderMap, offer: &str, takes: impl Fn(&Accept<'_>) -> bool) -> Result<(), ApiError> {
    // What nearly all clients send; nothing to compare.
    if headers.get(ACCEPT).is_some_and(|first| first == offer) {
        return Ok(());
    }
    match Accept::of(headers) {
        None => Ok(()),
        Some(accept) if takes(&accept) => Ok(()),
        Some(_) => Err(ApiError::new(Kind::NotAcceptable, format!("The answer can only be {offer}."))),
    }
}

/// The form of a failed job that `Accept` names; else the dialect's default, unless that is not
/// accepted. The highest weight wins, then the first named.
pub(crate) fn form(exchange: &Exchange, unnamed: FailureFormat) -> FailureFormat {
    form_of(&exchange.headers, exchange.media_types(), unnamed)
}

fn form_of(headers: &HeaderMap, own: &[&str], unnamed: FailureFormat) -> FailureFormat {
    let Some(accept) = Accept::of(headers) else { return unnamed };
    let problems = [(PROBLEM_JSON, FailureFormat::ProblemJson), (PROBLEM_XML, FailureFormat::ProblemXml)];
    let forms: Vec<_> = own.iter().map(|own| (*own, FailureFormat::Json)).chain(problems).collect();
    let named = forms.iter().filter_map(|(media_type, form)| Some((accept.named(media_type)?, *form)));
    // Highest weight first, then the order of the header.
    let best = named.max_by_key(|((weight, place), _)| (*weight, std::cmp::Reverse(*place)));
    let takes = |wanted: FailureFormat| {
        forms.iter().any(|(media_type, form)| *form == wanted && accept.takes(media_type))
    };
    let taken = [unnamed, FailureFormat::Json, FailureFormat::ProblemJson, FailureFormat::ProblemXml];
    let taken = taken.into_iter().find(|form| takes(*form)).unwrap_or(FailureFormat::Json);
    best.map_or(taken, |(_, form)| form)
}

/// Whether `Accept` names a stream of events, and prefers no page type to it.
pub(crate) fn wants_stream(headers: &HeaderMap) -> bool {
    prefers(headers, EVENT_STREAM, JSON)
}

/// Whether `Accept` names `media_type` and does not prefer `usual` to it: the higher weight wins,
/// then the first named.
pub(crate) fn prefers(headers: &HeaderMap, media_type: &str, usual: &str) -> bool {
    let Some(accept) = Accept::of(headers) else { return false };
    let rank = |name: &str| accept.named(name).map(|(weight, place)| (weight, std::cmp::Reverse(place)));
    rank(media_type).is_some_and(|rank_of_type| rank(usual) < Some(rank_of_type))
}

struct Accept<'a>(Vec<MediaRange<'a>>);

struct MediaRange<'a> {
    name: &'a str,
    /// The `q` value in thousandths.
    weight: u16,
}

impl<'a> Accept<'a> {
    /// `None` if any type is accepted.
    fn of(headers: &'a HeaderMap) -> Option<Accept<'a>> {
        let mut lines = headers.get_all(ACCEPT).iter();
        let first = lines.next()?;
        let lone = lines.next().is_none();
        if lone && matches!(first.as_bytes(), b"*/*" | b"") {
            return None;
        }
        let texts = headers.get_all(ACCEPT).iter().filter_map(|line: &HeaderValue| line.to_str().ok());
        Some(Accept(texts.flat_map(|text| text.split(',')).filter_map(MediaRange::parse).collect()))
    }

    /// Whether the type is accepted: the most specific entry decides.
    fn takes(&self, media_type: &str) -> bool {
        let main = media_type.split('/').next().unwrap_or_default();
        let specificity = |range: &MediaRange<'_>| match range.name.split_once('/') {
            _ if range.name.eq_ignore_ascii_case(media_type) => Some(2),
            Some((wide, "*")) if wide.eq_ignore_ascii_case(main) => Some(1),
            Some(("*", "*")) => Some(0),
            _ => None,
        };
        let deciding = self.0.iter().filter_map(|range| Some((specificity(range)?, range.weight))).max();
        deciding.is_some_and(|(_, weight)| weight > 0)
    }

    /// Weight and position of a type that is named.
    fn named(&self, media_type: &str) -> Option<(u16, usize)> {
        let place = self.0.iter().position(|range| range.name.eq_ignore_ascii_case(media_type))?;
        Some((self.0[place].weight, place)).filter(|(weight, _)| *weight > 0)
    }
}

impl<'a> MediaRange<'a> {
    fn parse(entry: &'a str) -> Option<MediaRange<'a>> {
        let mut parts = entry.split(';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?;
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let weight = weight.map_or(Some(1.0), |weight| weight.trim().parse::<f32>().ok())?;
        Some(MediaRange { name, weight: (weight.clamp(0.0, 1.0) * 1000.0) as u16 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(accept: &str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())])
    }

    #[test]
    fn json_is_refused_only_to_whoever_cannot_read_it() {
        for (accept, fine) in [
            ("*/*", true),
            ("", true),
            ("application/json", true),
            ("APPLICATION/JSON; charset=utf-8", true),
            ("application/*", true),
            ("text/html, */*;q=0.1", true),
            ("application/problem+json", true),
            ("application/problem+xml", true),
            ("text/html, application/json;q=0.9", true),
            ("image/png", false),
            ("application/xml", false),
            ("text/*", false),
            ("application/json;q=0", false),
            ("application/json;q=0, */*", false),
            ("*/*;q=0", false),
        ] {
            assert_eq!(require_json(&headers(accept)).is_ok(), fine, "{accept}");
        }
        assert!(require_json(&HeaderMap::new()).is_ok());
    }

    #[test]
    fn a_failed_job_comes_in_the_form_that_is_named() {
        for (accept, expected) in [
            ("application/json", FailureFormat::Json),
            ("application/problem+json", FailureFormat::ProblemJson),
            ("application/problem+xml", FailureFormat::ProblemXml),
            ("application/problem+json, */*", FailureFormat::ProblemJson),
            ("application/json, application/problem+json", FailureFormat::Json),
            ("application/problem+json, application/json", FailureFormat::ProblemJson),
            ("application/json;q=0.5, application/problem+xml", FailureFormat::ProblemXml),
            ("application/problem+json;q=0, application/json;q=0.1", FailureFormat::Json),
            ("application/problem+json;q=0, */*", FailureFormat::Json),
            ("application/json;q=0, */*", FailureFormat::ProblemJson),
            ("application/json;q=0, application/problem+json;q=0, */*", FailureFormat::ProblemXml),
        ] {
            for unnamed in [FailureFormat::Json, FailureFormat::ProblemJson] {
                assert_eq!(form_of(&headers(accept), &[JSON], unnamed), expected, "{accept}");
            }
        }
    }

    #[test]
    fn a_type_of_the_dialect_is_its_own_form_whichever_of_them_is_taken() {
        for (accept, expected) in [
            ("application/openjobspec+json, application/problem+json", FailureFormat::Json),
            ("application/problem+json, application/openjobspec+json", FailureFormat::ProblemJson),
            ("application/json;q=0, */*", FailureFormat::Json),
            ("application/json;q=0, application/openjobspec+json;q=0, */*", FailureFormat::ProblemJson),
        ] {
            assert_eq!(form_of(&headers(accept), &[OJS, JSON], FailureFormat::Json), expected, "{accept}");
        }
    }

    #[test]
    fn who_names_no_form_gets_the_choice_of_the_dialect() {
        for unnamed in [FailureFormat::Json, FailureFormat::ProblemJson] {
            for accept in ["*/*", "application/*", "text/html, */*;q=0.1", ""] {
                assert_eq!(form_of(&headers(accept), &[JSON], unnamed), unnamed, "{accept}");
            }
            assert_eq!(form_of(&HeaderMap::new(), &[JSON], unnamed), unnamed);
        }
    }

    #[test]
    fn a_stream_is_for_whoever_names_it_first() {
        for (accept, stream) in [
            ("text/event-stream", true),
            ("text/event-stream, application/json", true),
            ("application/json, text/event-stream", false),
            ("application/json;q=0.5, text/event-stream", true),
            ("text/event-stream;q=0.9, application/json", false),
            ("text/event-stream;q=0", false),
            ("text/event-stream, */*", true),
            ("text/*", false),
            ("*/*", false),
        ] {
            assert_eq!(wants_stream(&headers(accept)), stream, "{accept}");
        }
        assert!(!wants_stream(&HeaderMap::new()));
    }

    #[test]
    fn a_result_is_refused_by_its_own_type() {
        assert!(require_type(&headers("application/json"), "application/json; charset=utf-8").is_ok());
        assert!(require_type(&headers("application/octet-stream"), "application/octet-stream").is_ok());
        assert!(require_type(&headers("application/json"), "application/octet-stream").is_err());
    }
}
