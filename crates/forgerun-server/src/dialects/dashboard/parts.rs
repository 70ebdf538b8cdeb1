//! Elements of pages: moments, states, numbers, links, forms.

use forgerun_core::time::Time;
use forgerun_wire::admin::AdminPage;
use forgerun_wire::time;
use forgerun_wire::workflow::WaitView;
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::access;
use crate::app::App;
use crate::auth::OperatorRole;
use crate::http::{Exchange, routing::Call};

/// What a step waits for.
pub(super) fn awaited(wait: &WaitView) -> String {
    match (&wait.signal, &wait.until, &wait.span) {
        (Some(signal), ..) => format!("for signal {signal}"),
        (None, Some(until), _) => format!("until {until}"),
        (None, None, span) => format!("for {}", span.as_deref().unwrap_or_default()),
    }
}

/// A relative time, with the exact one on hover. The script updates it.
pub(super) fn moment(now: Time, text: &str) -> Markup {
    let shown = time::parse(text).map_or_else(|| text.to_owned(), |at| ago(now, at));
    html! { time datetime=(text) title=(text) { (shown) } }
}

/// The same for an optional moment.
pub(super) fn maybe_moment(now: Time, text: Option<&str>) -> Markup {
    html! { @match text { Some(text) => (moment(now, text)), None => span .muted { "–" } } }
}

/// Distance of a moment from now.
fn ago(now: Time, at: Time) -> String {
    let micros = now.as_micros() - at.as_micros();
    let span = short_span(micros.unsigned_abs() as f64 / 1e6);
    match micros {
        ..-500_000 => format!("in {span}"),
        -500_000..1_000_000 => "now".to_owned(),
        _ => format!("{span} ago"),
    }
}

/// A span in its largest unit.
fn short_span(seconds: f64) -> String {
    match seconds {
        ..60.0 => format!("{seconds:.0} s"),
        60.0..3600.0 => format!("{:.0} min", seconds / 60.0),
        3600.0..86_400.0 => format!("{:.0} h", seconds / 3600.0),
        _ => format!("{:.0} d", seconds / 86_400.0),
    }
}

/// A span in readable precision.
pub(super) fn span(seconds: f64) -> String {
    match seconds {
        ..0.001 => format!("{:.0} µs", seconds.max(0.0) * 1e6),
        0.001..1.0 => format!("{:.0} ms", seconds * 1000.0),
        1.0..60.0 => format!("{seconds:.1} s"),
        60.0..3600.0 => format!("{:.0} min {:02.0} s", (seconds / 60.0).floor(), (seconds % 60.0).floor()),
        3600.0..86_400.0 => {
            format!("{:.0} h {:02.0} min", (seconds / 3600.0).floor(), (seconds % 3600.0 / 60.0).floor())
        }
        _ => {
            format!("{:.0} d {:02.0} h", (seconds / 86_400.0).floor(), (seconds % 86_400.0 / 3600.0).floor())
        }
    }
}

/// A number with thin spaces between its thousands.
pub(super) fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + 8);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

pub(super) fn rate(per_s: f64) -> String {
    match per_s {
        0.0 => "0".to_owned(),
        ..10.0 => format!("{per_s:.2}"),
        ..100.0 => format!("{per_s:.1}"),
        _ => number(per_s.round() as u64),
    }
}

pub(super) fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        _ => format!("{:.1} MiB", n as f64 / 1_048_576.0),
    }
}

pub(super) fn counted(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {one}s", number(n)) }
}

/// A state by word, colour and shape.
pub(super) fn state(word: &str) -> Markup {
    html! { span class={ "state state-" (word.to_ascii_lowercase()) } { (word) } }
}

/// A status word: `ok`, `warn`, `bad` or `off`.
pub(super) fn badge(kind: &str, word: &str) -> Markup {
    html! { span class={ "badge badge-" (kind) } { (word) } }
}

/// A link to a job. Ids begin with their time, so the end is shown.
pub(super) fn job_link(id: &str) -> Markup {
    html! { a .id href={ "/dashboard/jobs/" (id) } title=(id) { (short_id(id)) } }
}

pub(super) fn short_id(id: &str) -> &str {
    id.rsplit('-').next().unwrap_or(id)
}

/// A link to a client: the beginning of its id, and its name.
pub(super) fn client_link(id: &str, name: Option<&str>) -> Markup {
    html! {
        a .id href={ "/dashboard/clients/" (id) } title=(id) { (id.get(..8).unwrap_or(id)) }
        @if let Some(name) = name { " " (name) }
    }
}

/// A copy button. Without a script there is none.
pub(super) fn copy(text: &str, what: &str) -> Markup {
    html! { button .copy type="button" hidden data-copy=(text) aria-label={ "Copy " (what) } { "Copy" } }
}

/// The CSRF token of a form.
pub(super) fn csrf(app: &App, exchange: &Exchange) -> Markup {
    let token = app.sessions.form_token(access::session(app, exchange));
    html! { input type="hidden" name="csrf" value=(token); }
}

/// A button with an action.
pub(super) struct ActionButton<'a> {
    pub(super) path: &'a str,
    pub(super) label: &'a str,
    /// `primary`, `danger`, or empty.
    pub(super) class: &'a str,
    /// The object of the action, for screen readers.
    pub(super) about: Option<&'a str>,
}

impl ActionButton<'_> {
    /// Shown to operators who may use it.
    pub(super) fn show(&self, call: &Call<'_>) -> Markup {
        html! {
            @if call.may(OperatorRole::Operator) {
                form .inline method="post" action=(self.path) {
                    (csrf(call.app, call.exchange))
                    button class=(self.class) type="submit" title=[self.about] { (self.label) }
                }
            }
        }
    }
}

/// The text of an empty section.
pub(super) fn nothing(text: &str) -> Markup {
    html! { p .nothing { (text) } }
}

/// The text of an empty page of a list; `none` is the text if the list itself is empty. A page may
/// be empty although there is more.
pub(super) fn empty_page<T>(page: &AdminPage<T>, none: &str) -> Markup {
    match page.next_cursor {
        Some(_) => nothing("Nothing on this page; there is more on the next one."),
        None => nothing(none),
    }
}

/// Links to the next and first page of a list.
pub(super) fn pager(call: &Call<'_>, next_cursor: Option<&str>) -> Markup {
    let query = call.exchange.uri.query().unwrap_or_default();
    let others: Vec<&str> =
        query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("cursor=")).collect();
    let is_first = others.len() == query.split('&').filter(|pair| !pair.is_empty()).count();
    let path = call.exchange.uri.path();
    let first = format!("{path}?{}", others.join("&"));
    let next = next_cursor.map(|cursor| {
        let cursor = format!("cursor={}", encoded(cursor));
        let pairs: Vec<&str> = others.iter().copied().chain([cursor.as_str()]).collect();
        format!("{path}?{}", pairs.join("&"))
    });
    html! {
        nav .pager aria-label="Pages" {
            @if !is_first { a href=(first) { "First page" } }
            @if let Some(next) = next { a rel="next" href=(next) { "Next page" } }
        }
    }
}

/// Encodes a text for an address.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

pub(super) fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Replaces characters that change the text direction by visible ones: client texts must not
/// reorder the page. Attributes stay as they are, because forms and scripts return them.
pub(super) fn directed(page: String) -> String {
    if !page.contains(turns) {
        return page;
    }
    let mut shown = String::with_capacity(page.len() + 64);
    let mut is_text = true;
    for sign in page.chars() {
        match sign {
            // Neither occurs literally in a text or an attribute: both are escaped there.
            '<' => is_text = false,
            '>' => is_text = true,
            _ => {}
        }
        match is_text && turns(sign) {
            true => shown += &format!("[U+{:04X}]", u32::from(sign)),
            false => shown.push(sign),
        }
    }
    shown
}

/// Marks, embeddings, overrides and isolates of the bidirectional algorithm.
fn turns(sign: char) -> bool {
    matches!(sign, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_the_direction_of_a_text_is_spelt_out() {
        let page = |text: &str| html! { p title=(text) { (text) } }.into_string();
        assert_eq!(directed(page("<שלום> é")), page("<שלום> é"));
        let text = "invoice\u{202e}fdp.exe\u{2069}";
        let expected = format!("<p title=\"{text}\">invoice[U+202E]fdp.exe[U+2069]</p>");
        assert_eq!(directed(page(text)), expected);
    }

    #[test]
    fn numbers_and_spans_are_easy_to_read() {
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(number(999), "999");
        for (seconds, text) in [
            (0.000_25, "250 µs"),
            (0.25, "250 ms"),
            (2.5, "2.5 s"),
            (61.0, "1 min 01 s"),
            (3_660.0, "1 h 01 min"),
            (90_000.0, "1 d 01 h"),
        ] {
            assert_eq!(span(seconds), text);
        }
        let now = Time::from_millis(10_000_000);
        assert_eq!(ago(now, Time::from_millis(9_940_000)), "1 min ago");
        assert_eq!(ago(now, Time::from_millis(10_005_000)), "in 5 s");
        assert_eq!(ago(now, now), "now");
    }
}
