//! `forgerun webhook`: a receiver for trying things out, and why a signature does not match.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use clap::{Args, Subcommand};
use forge_engine::{Clock, SystemClock};
use forge_server::Exit;
use forge_server::config::{CommandMode, Database};
use forge_server::webhooks::fetch::{self, KeySource};
use forge_server::webhooks::standard::WebhookSecret;
use forge_server::webhooks::verify::{self, ReceivedDelivery, SignatureReport, VerifyOptions};
use forge_server::webhooks::{ListenOptions, listen, rotate_in};
use tokio::runtime::Runtime;

use crate::cli::ServeFlags;
use crate::commands::{complain, load, print, say};

#[derive(Debug, Subcommand)]
pub(crate) enum Webhook {
    /// Receive webhooks on this machine: print each, and say whether its signatures hold; Ctrl-C ends it
    Listen(ListenFlags),
    /// Say step by step whether the signatures of a delivery hold, and if not, why; exit code 0 or 1
    Verify(VerifyFlags),
    /// Make a new key to sign webhooks with, also while servers run; the one before signs for another day and stays published
    RotateKey(ServeFlags),
}

#[derive(Debug, Args)]
pub(crate) struct ListenFlags {
    /// Port on 127.0.0.1; 0 picks a free one
    #[arg(long, default_value_t = 4000)]
    port: u16,
    #[command(flatten)]
    means: MeansFlags,
    /// Status to answer with: 500 or 410 shows what a server does then
    #[arg(long, value_name = "STATUS", default_value_t = 204, value_parser = clap::value_parser!(u16).range(200..=599))]
    answer: u16,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyFlags {
    /// File with the headers, one "Name: value" per line
    #[arg(long, value_name = "FILE")]
    headers: PathBuf,
    /// File with the body, byte for byte
    #[arg(long, value_name = "FILE")]
    body: PathBuf,
    /// The URL as it is registered
    #[arg(long, value_name = "URL")]
    url: String,
    /// The method of the request
    #[arg(long, default_value = "POST")]
    method: String,
    #[command(flatten)]
    means: MeansFlags,
    /// How old a signature may be, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    tolerance: u64,
    /// Do not look at the age: for deliveries that were kept
    #[arg(long)]
    any_age: bool,
}

#[derive(Debug, Args)]
struct MeansFlags {
    /// Secret of the webhook, whsec_…; twice while it is being changed
    #[arg(long = "secret", value_name = "SECRET")]
    secrets: Vec<String>,
    /// Public keys of the server: a JWK set at a URL or in a file
    #[arg(long, visible_alias = "key", value_name = "URL|FILE")]
    keys: Option<String>,
}

impl MeansFlags {
    fn secrets(&self) -> Result<Vec<WebhookSecret>, String> {
        let parse = |text: &String| {
            WebhookSecret::parse(text).ok_or("a secret is whsec_ and the base64 of 24 to 64 bytes".to_owned())
        };
        self.secrets.iter().map(parse).collect()
    }

    fn keys(&self) -> Option<KeySource> {
        self.keys.as_deref().map(KeySource::parse)
    }
}

pub(crate) fn webhook(command: &Webhook) -> Exit {
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error, Exit::Failure),
    };
    match command {
        Webhook::Listen(flags) => runtime.block_on(receive(flags)),
        Webhook::Verify(flags) => runtime.block_on(explain(flags)),
        Webhook::RotateKey(flags) => runtime.block_on(rotate(flags)),
    }
}

async fn receive(flags: &ListenFlags) -> Exit {
    let secrets = match flags.means.secrets() {
        Ok(secrets) => secrets,
        Err(text) => return say(&text, Exit::Usage),
    };
    let answer = StatusCode::from_u16(flags.answer).expect("within its range");
    let options = ListenOptions { port: flags.port, secrets, keys: flags.means.keys(), answer };
    let stop = async {
        // Without a handler the process would end all the same, only with another exit code.
        let _ = tokio::signal::ctrl_c().await;
    };
    let ready = |address| print(&format!("forgerun webhook listening on http://{address}\n"));
    match listen(options, ready, print, stop).await {
        Ok(()) => Exit::Done,
        Err(error) => complain(&error, Exit::Failure),
    }
}

async fn explain(flags: &VerifyFlags) -> Exit {
    let secrets = match flags.means.secrets() {
        Ok(secrets) => secrets,
        Err(text) => return say(&text, Exit::Usage),
    };
    if secrets.is_empty() && flags.means.keys.is_none() {
        return say("there is nothing to verify with: give --secret, --keys, or both", Exit::Usage);
    }
    let (headers, body) = match (read(&flags.headers), read(&flags.body)) {
        (Ok(headers), Ok(body)) => (parse_headers(&String::from_utf8_lossy(&headers)), body),
        (Err(text), _) | (_, Err(text)) => return say(&text, Exit::Usage),
    };
    let keys = match flags.means.keys() {
        None => Vec::new(),
        Some(source) => match fetch::keys(&source).await {
            Ok(keys) => keys,
            Err(error) => return complain(&error, Exit::Failure),
        },
    };
    let delivery =
        ReceivedDelivery { method: &flags.method, url: &flags.url, headers: &headers, body: &body };
    let now = (!flags.any_age).then(|| SystemClock.now());
    let means = VerifyOptions {
        secrets: &secrets,
        keys: &keys,
        now,
        tolerance: Duration::from_secs(flags.tolerance),
    };
    let mut holds = true;
    if !keys.is_empty() {
        holds &= show("RFC 9421 signature", &verify::message_signature(&delivery, &means));
    }
    if !secrets.is_empty() {
        holds &= show("Standard Webhooks signature", &verify::standard_signature(&delivery, &means));
    }
    if holds { Exit::Done } else { Exit::Failure }
}

async fn rotate(flags: &ServeFlags) -> Exit {
    let config = match load(flags.given(), &flags.config, CommandMode::Serve) {
        Ok(config) => config,
        Err(invalid) => return complain(&invalid, Exit::Usage),
    };
    if config.server.database == Database::Memory {
        return say("the keys are in the database, and memory: is another one for each server", Exit::Usage);
    }
    match rotate_in(&config).await {
        Ok(keys) => {
            print(&format!("{}\n", keys.document()));
            Exit::Done
        }
        Err(error) => complain(&error, Exit::Failure),
    }
}

fn show(name: &str, report: &SignatureReport) -> bool {
    let holds = report.holds();
    print(&format!("{name}\n{report}  => {}\n", if holds { "holds" } else { "does not hold" }));
    holds
}

fn read(path: &PathBuf) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("could not read {}: {error}", path.display()))
}

/// Lines of "Name: value"; a request line and whatever else is no header is passed over.
fn parse_headers(text: &str) -> HeaderMap {
    let pairs = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((HeaderName::try_from(name.trim()).ok()?, HeaderValue::try_from(value.trim()).ok()?))
    });
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name, value);
    }
    headers
}
