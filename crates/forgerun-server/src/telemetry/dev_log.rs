//! The log of `forgerun dev`, for watching: one line per relevant change, in columns. The other
//! formats have every field.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Omitted fields: in `dev` there is one client, and answers contain the request ids.
const LEFT_OUT: [&str; 4] = ["client_id", "request_id", "route", "delivery_id"];

const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const PLAIN: &str = "";

/// Writes an event as a line, unless other lines say the same.
pub(super) struct DevLog;

impl<S, N> FormatEvent<S, N> for DevLog
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let level = *event.metadata().level();
        let is_coloured = out.has_ansi_escapes();
        match columns(level, &fields) {
            Some(columns) => writeln!(out, "{}", line(&time_of_day()?, &columns, is_coloured)),
            None => Ok(()),
        }
    }
}

/// Hours, minutes and seconds (UTC): it is watched for minutes, not for days.
fn time_of_day() -> Result<String, fmt::Error> {
    let mut now = String::new();
    SystemTime.format_time(&mut Writer::new(&mut now))?;
    Ok(now.get(11..19).unwrap_or_default().to_owned())
}

/// The fields of an event, in order.
#[derive(Default)]
struct EventFields(Vec<(&'static str, String)>);

impl EventFields {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// A failure's code and reason.
    fn reason(&self) -> Option<String> {
        let reason = self.get("error_message").or(self.get("error"))?;
        Some(match self.get("error_code") {
            Some(code) => format!("{code}: {reason}"),
            None => reason.to_owned(),
        })
    }
}

impl Visit for EventFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        // Some values are client texts; they must not move the cursor or begin a line.
        let clean = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        self.0.push((field.name(), value.chars().map(clean).collect()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// The columns of a line, with colours.
struct Columns {
    what: String,
    word: (String, &'static str),
    rest: Vec<String>,
}

fn columns(level: Level, fields: &EventFields) -> Option<Columns> {
    let message = fields.get("message").unwrap_or_default();
    match (message, fields.get("job_id"), fields.get("next_state")) {
        // Each job passes these within a millisecond; the changes before and after suffice.
        ("job changed state", _, Some("CREATED" | "ASSIGNED")) => None,
        ("job changed state", Some(job), Some(state)) => Some(change(job, state, fields)),
        // The change itself has a line.
        ("request done", Some(_), _) if level == Level::INFO => None,
        _ => Some(other(level, message, fields)),
    }
}

fn change(job: &str, state: &str, fields: &EventFields) -> Columns {
    let colour = match state {
        "SUCCEEDED" => GREEN,
        "FAILED" => RED,
        "CANCELED" => YELLOW,
        _ => PLAIN,
    };
    let scenario = fields.get("scenario").map(|scenario| format!("{scenario:<24}"));
    let attempt = fields.get("attempt").map(|attempt| format!("attempt {attempt}"));
    let rest = [scenario, attempt, fields.reason()].into_iter().flatten().collect();
    Columns { what: job.to_owned(), word: (format!("{state:<9}"), colour), rest }
}

fn other(level: Level, message: &str, fields: &EventFields) -> Columns {
    let (word, colour) = match level {
        Level::ERROR => ("ERROR", RED),
        Level::WARN => ("WARN", YELLOW),
        _ => ("", PLAIN),
    };
    let told = ["message", "error_code", "error_message", "error"];
    let told = |name: &str| told.contains(&name) || LEFT_OUT.contains(&name);
    let mut rest: Vec<String> = fields.reason().into_iter().collect();
    let others = fields.0.iter().filter(|(name, _)| !told(name));
    let others: Vec<String> = others.map(|(name, value)| format!("{name}={value}")).collect();
    rest.extend((!others.is_empty()).then(|| others.join(" ")));
    Columns { what: message.to_owned(), word: (format!("{word:<9}"), colour), rest }
}

fn line(time: &str, columns: &Columns, is_coloured: bool) -> String {
    let mut line = String::new();
    let mut put = |text: &str, colour: &str| {
        let _ = match is_coloured && colour != PLAIN {
            true => write!(line, "\x1b[{colour}m{text}\x1b[0m  "),
            false => write!(line, "{text}  "),
        };
    };
    put(time, DIM);
    put(&columns.word.0, columns.word.1);
    put(&format!("{:<36}", columns.what), PLAIN);
    columns.rest.iter().for_each(|text| put(text, PLAIN));
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(level: Level, fields: &[(&'static str, &str)], is_coloured: bool) -> Option<String> {
        let fields = EventFields(fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect());
        Some(line("12:00:00", &columns(level, &fields)?, is_coloured))
    }

    #[test]
    fn colours_are_for_terminals_only() {
        let failed = [
            ("message", "job changed state"),
            ("job_id", "019"),
            ("next_state", "FAILED"),
            ("error_code", "RFA_X"),
            ("error_message", "It broke."),
        ];
        let plain = shown(Level::INFO, &failed, false).unwrap();
        assert_eq!(plain, format!("12:00:00  FAILED     {:<36}  RFA_X: It broke.", "019"));
        let coloured = shown(Level::INFO, &failed, true).unwrap();
        assert!(coloured.contains("\x1b[31mFAILED   \x1b[0m"), "{coloured:?}");
    }

    #[test]
    fn what_another_line_says_is_left_out() {
        let created = [("message", "job changed state"), ("job_id", "019"), ("next_state", "CREATED")];
        assert_eq!(shown(Level::INFO, &created, false), None);
        let done = [("message", "request done"), ("job_id", "019"), ("action", "submit")];
        assert_eq!(shown(Level::INFO, &done, false), None);
        let registered = [("message", "request done"), ("client_id", "0"), ("action", "register")];
        let line = shown(Level::INFO, &registered, false).unwrap();
        assert!(line.ends_with("  action=register") && !line.contains("client_id"), "{line}");
    }

    #[test]
    fn trouble_says_how_bad_it_is_and_why() {
        let trouble = [("message", "could not sweep"), ("error", "disk full"), ("table", "jobs")];
        let line = shown(Level::WARN, &trouble, false).unwrap();
        assert_eq!(line, format!("12:00:00  WARN       {:<36}  disk full  table=jobs", "could not sweep"));
    }
}
