//! `watch`: events line by line, with a summary at the bottom of a terminal.

use std::time::Duration;

use forgerun_client::{Clock, Error, Event, EventStream, SystemClock};
use indicatif::ProgressBar;
use serde_json::Value;

use super::CommandError;
use super::flags::WatchFlags;
use super::ids;
use super::jobs::kind;
use super::screen::Screen;
use crate::Exit;
use crate::terminal::clean;

/// Attempts to reconnect before the watch ends, and the pause between them.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
struct Counts {
    submitted: u64,
    succeeded: u64,
    failed: u64,
    canceled: u64,
}

pub(super) async fn watch(flags: &WatchFlags) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    let client = flags.connection.client()?;
    let mut stream = match &flags.id {
        Some(id) => client.forge().events(&ids::whole(&client, id).await?)?,
        None => {
            // Wrong credentials must be reported at once, and a stream without events reports
            // nothing.
            let filter = forgerun_client::forge::Filter { limit: Some(1), ..Default::default() };
            client.forge().list_json(&filter).await?;
            client.forge().all_events()?
        }
    };
    let bar = screen.spinner("watching; Ctrl-C ends it".to_owned());
    let watched = follow(&mut stream, &screen, &bar, flags.id.is_some()).await;
    bar.finish_and_clear();
    watched
}

async fn follow(
    stream: &mut EventStream,
    screen: &Screen,
    bar: &ProgressBar,
    one: bool,
) -> Result<Exit, CommandError> {
    let mut counts = Counts::default();
    let mut heard = false;
    let mut away = 0;
    let mut exit = Exit::Done;
    loop {
        match stream.next().await {
            Ok(None) => return Ok(exit),
            Ok(Some(event)) => {
                (heard, away) = (true, 0);
                if one && event.is_end() && event.name != "job-completed" {
                    exit = Exit::JobFailed;
                }
                counts.add(&event);
                let line = if screen.json { event.data.clone() } else { line(screen, &event) };
                // Printed while the bar is hidden, so that neither writes into the other.
                bar.suspend(|| screen.line(&line))?;
                bar.set_message(counts.summary());
            }
            // The server was there, so it probably comes back.
            Err(error @ Error::Unreachable(_)) if heard && away < TRIES => {
                away += 1;
                bar.suspend(|| screen.note(&format!("{error}; trying again")));
                SystemClock.sleep(BETWEEN).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

impl Counts {
    fn add(&mut self, event: &Event) {
        match event.name.as_str() {
            "job-created" => self.submitted += 1,
            "job-completed" => self.succeeded += 1,
            "job-failed" | "job-timed-out" | "job-completed-with-errors" => self.failed += 1,
            "job-cancelled" => self.canceled += 1,
            _ => {}
        }
    }

    fn summary(&self) -> String {
        let Counts { submitted, succeeded, failed, canceled } = self;
        format!("{submitted} submitted, {succeeded} succeeded, {failed} failed, {canceled} canceled")
    }
}

/// Time, job, event, details.
fn line(screen: &Screen, event: &Event) -> String {
    let data = event.json();
    let text = |name: &str| data[name].as_str().unwrap_or_default();
    let time = text("timestamp").get(11..19).unwrap_or("");
    let name = text("event_name");
    let shown = event.name.strip_prefix("job-").unwrap_or(&event.name);
    let id = if text("job_id").is_empty() { text("jobId") } else { text("job_id") };
    let about = match (data["progress"].as_u64(), event.is_end() && event.name != "job-completed") {
        (Some(percent), _) => format!("{percent} % {}", text("message")),
        (None, true) => text("detail").to_owned(),
        (None, false) => [kind(&data), attempt(&data)].join(" ").trim().to_owned(),
    };
    let state = screen.state(name, &format!("{shown:<10}"));
    let plain = format!("{time:<8}  {id}  ").chars().count() + 12;
    let room = if screen.tables { screen.columns().saturating_sub(plain) } else { usize::MAX };
    let about = clean(&about);
    let about =
        if room == usize::MAX { about } else { console::truncate_str(&about, room, "…").into_owned() };
    format!("{time:<8}  {id}  {state}  {about}").trim_end().to_owned()
}

/// The attempt, from the second on.
fn attempt(data: &Value) -> String {
    match data["attempt"].as_u64() {
        Some(attempt) if attempt > 1 => format!("try {attempt}"),
        _ => String::new(),
    }
}
