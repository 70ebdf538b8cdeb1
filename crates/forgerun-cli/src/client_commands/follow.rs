//! Waiting for a job with progress: `wait`, and `submit --wait`.

use std::io::Write;
use std::time::Duration;

use forgerun_client::{Client, Clock, Error, EventStream, Schedule, SystemClock};
use indicatif::ProgressBar;
use serde_json::Value;
use tokio::time::timeout;

use super::CommandError;
use super::failure;
use super::flags::WaitFlags;
use super::ids;
use super::screen::Screen;
use crate::Exit;
use crate::terminal::clean;

/// Poll interval without a stream of events.
const POLLING: Schedule = Schedule {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(5),
    // The caller limits the wait.
    total: Duration::MAX,
};

/// Wait after which a queue without workers is reported.
const NO_WORKER: Duration = Duration::from_secs(5);

/// Timeout of the last query when the wait is over.
const LAST_LOOK: Duration = Duration::from_secs(5);

pub(super) async fn wait(flags: &WaitFlags) -> Result<Exit, CommandError> {
    let screen = Screen::of(&flags.connection);
    let client = flags.connection.client()?;
    let job_id = ids::whole(&client, &flags.id).await?;
    let job = until_ended(&client, &screen, &job_id, flags.timeout).await?;
    let state = job["state"].as_str().unwrap_or_default().to_owned();
    if screen.json {
        screen.json(&job)?;
    } else {
        screen.line(&screen.state(&state, &state))?;
    }
    if state == "SUCCEEDED" {
        return Ok(Exit::Done);
    }
    if let Some(failure) = client.forge().failure(&job_id).await? {
        screen.note(failure::explain(&job, &failure.problem, client.base()).trim_end());
    }
    Ok(Exit::JobFailed)
}

/// Waits, then prints the result, or why there is none.
pub(super) async fn wait_and_print(
    client: &Client,
    screen: &Screen,
    job_id: &str,
    patience: Option<Duration>,
) -> Result<Exit, CommandError> {
    let job = until_ended(client, screen, job_id, patience).await?;
    if job["state"] != "SUCCEEDED" {
        let Some(failure) = client.forge().failure(job_id).await? else {
            // Another client retried it meanwhile.
            screen.note("the job did not succeed");
            return Ok(Exit::JobFailed);
        };
        if screen.json {
            screen.line(&String::from_utf8_lossy(&failure.bytes))?;
        }
        screen.note(failure::explain(&job, &failure.problem, client.base()).trim_end());
        return Ok(Exit::JobFailed);
    }
    if screen.json {
        screen.json(&job)?;
        return Ok(Exit::Done);
    }
    match client.forge().result(job_id).await {
        Ok(mut download) => {
            while let Some(chunk) = download.chunk().await? {
                let mut out = std::io::stdout().lock();
                out.write_all(&chunk)?;
                out.flush()?;
            }
        }
        Err(error) if error.is_not_found() => screen.note("the job left no result"),
        Err(error) => return Err(error.into()),
    }
    Ok(Exit::Done)
}

/// The ended job.
async fn until_ended(
    client: &Client,
    screen: &Screen,
    job_id: &str,
    patience: Option<Duration>,
) -> Result<Value, CommandError> {
    let bar = screen.spinner("waiting".to_owned());
    let ended = async {
        let mut stream = client.forge().events(job_id)?;
        match follow(&mut stream, &bar).await {
            // No stream: too many are open, or a proxy blocks it.
            Err(Error::Resource(said)) if said.status != Some(404) => poll(client, job_id).await?,
            Err(Error::Protocol(_)) => poll(client, job_id).await?,
            followed => followed?,
        }
        client.forge().get_json(job_id).await
    };
    let noted = async {
        SystemClock.sleep(NO_WORKER).await;
        if let Some(queue) = unattended_queue(client, job_id).await {
            bar.suspend(|| screen.note(&clean(&format!("no worker has asked for queue {queue} yet"))));
        }
        std::future::pending().await
    };
    let ended = async {
        tokio::select! {
            ended = ended => ended,
            never = noted => never,
        }
    };
    let ended = match patience {
        None => ended.await,
        Some(patience) => match timeout(patience, ended).await {
            Ok(ended) => ended,
            Err(_) => last_look(client, job_id, patience).await,
        },
    };
    bar.finish_and_clear();
    Ok(ended?)
}

/// The queue of a real job that waits without workers; `None` also if the server does not report
/// it.
async fn unattended_queue(client: &Client, job_id: &str) -> Option<String> {
    let job = client.forge().get_json(job_id).await.ok()?;
    if job["simulated"] != false || job["state"] != "QUEUED" {
        return None;
    }
    let queue = job["queue"].as_str()?;
    let answer = client.ojs().queue_stats(queue).await.ok()?;
    (answer["stats"]["attended"] == false).then(|| queue.to_owned())
}

/// The job, if it has ended: the wait may be over before its events arrived.
async fn last_look(client: &Client, job_id: &str, waited: Duration) -> Result<Value, Error> {
    let timed_out = Err(Error::TimedOut { job_id: job_id.to_owned(), waited });
    match timeout(LAST_LOOK, client.forge().get_json(job_id)).await {
        Ok(Ok(job)) if has_ended(&job) => Ok(job),
        Ok(Ok(_)) | Err(_) => timed_out,
        Ok(Err(error)) => Err(error),
    }
}

fn has_ended(job: &Value) -> bool {
    matches!(job["state"].as_str(), Some("SUCCEEDED" | "FAILED" | "CANCELED"))
}

async fn follow(stream: &mut EventStream, bar: &ProgressBar) -> Result<(), Error> {
    while let Some(event) = stream.next().await? {
        let data = event.json();
        let name = event.name.strip_prefix("job-").unwrap_or(&event.name).replace('-', " ");
        let message = data["message"].as_str().filter(|_| event.name == "job-progress").unwrap_or_default();
        bar.set_message(match data["progress"].as_u64() {
            Some(percent) => format!("{percent} % {}", clean(message)),
            None => name,
        });
    }
    Ok(())
}

async fn poll(client: &Client, job_id: &str) -> Result<(), Error> {
    client.forge().wait_by(job_id, POLLING).await.map(drop)
}
