//! Server-sent events over HTTP: `reader` is a small client, the rest are tests.

mod bodies;
mod bounds;
mod nodes;
mod pages;
pub(crate) mod reader;
mod resume;
mod streams;

use forgerun_core::Command;
use forgerun_core::command::{Extend, HeldJob, LeaseProof, Note};
use forgerun_core::job::Job;

use self::reader::{Message, Opening, Stream};
use super::server::{Client, Server};

/// The stream of a job, which must open.
async fn of_job(client: &Client, id: &str) -> Stream {
    opened(Opening::new(client, &format!("/v1/jobs/{id}/events"))).await
}

/// The stream of a client, which must open.
async fn of_client(client: &Client) -> Stream {
    opened(Opening::new(client, "/v1/events")).await
}

async fn opened(opening: Opening) -> Stream {
    opening.open().await.unwrap_or_else(|answer| panic!("no stream but {answer:?}"))
}

fn names(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.name.as_str()).collect()
}

/// Says how far a running job is.
async fn progress(server: &Server, job: &Job, percent: u8) {
    let held = HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: None };
    let note = Some(Note::Progress { percent, message: None });
    server.app.engine.act(Command::Extend(Extend { held, lease: None, note })).await.unwrap();
}
