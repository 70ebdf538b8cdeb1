//! `forgerun webhook`: a receiver for testing, and a check of signatures.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use clap::{Args, Subcommand};
use forgerun_cli::Exit;
use forgerun_cli::client_commands::{CommandError, Connection, exit_of};
use forgerun_cli::terminal::{complain, print, say};
use forgerun_client::Client;
use forgerun_client::forge::NewWebhook;
use forgerun_client::worker::Sign;
use forgerun_engine::{Clock, SystemClock};
use forgerun_server::config::{CommandMode, Database, PrivateTargets};
use forgerun_server::webhooks::fetch::{self, KeySource};
use forgerun_server::webhooks::standard::{SignedContent, WebhookSecret};
use forgerun_server::webhooks::verify::{self, ReceivedDelivery, SignatureReport, VerifyOptions};
use forgerun_server::webhooks::{ListenOptions, Target, WebhookListener, rotate_in};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::DatabaseFlags;
use crate::commands::load;

#[derive(Debug, Subcommand)]
pub(crate) enum Webhook {
    /// Receive webhooks on this machine: print each, and check its signatures; Ctrl-C ends it
    Listen(ListenFlags),
    /// Check the signatures of a delivery step by step, and explain a mismatch; exit code 0 or 1
    Verify(VerifyFlags),
    /// Create a new key to sign webhooks with, also while servers run; the previous key signs for
    /// another day and stays published
    RotateKey(DatabaseFlags),
}

#[derive(Debug, Args)]
pub(crate) struct ListenFlags {
    /// Port on 127.0.0.1; 0 picks a free one
    #[arg(long, default_value_t = 4000)]
    port: u16,
    /// Register this receiver as a webhook of the server, and remove it at the end; its signatures
    /// are then checked
    #[arg(long)]
    register: bool,
    /// Forward each delivery to this URL, and return its answer
    #[arg(long, value_name = "URL", conflicts_with = "answer")]
    forward: Option<String>,
    /// Save each delivery in this folder, as DELIVERY.headers and DELIVERY.body, which `webhook
    /// verify` reads
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Secret of the webhook, whsec_…; repeat it during a rotation
    #[arg(long = "secret", value_name = "SECRET")]
    secrets: Vec<String>,
    /// Public keys of the server: a JWK set at a URL or in a file
    #[arg(long, value_name = "URL|FILE")]
    keys: Option<String>,
    #[command(flatten)]
    connection: Connection,
    /// Status of the answer: 500 or 410 shows how a server reacts
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
    /// The URL as registered
    #[arg(long, value_name = "URL")]
    url: String,
    /// The method of the request
    #[arg(long, default_value = "POST")]
    method: String,
    #[command(flatten)]
    means: MeansFlags,
    /// Maximum age of a signature, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    tolerance: u64,
    /// Ignore the age: for saved deliveries
    #[arg(long)]
    any_age: bool,
}

#[derive(Debug, Args)]
struct MeansFlags {
    /// Secret of the webhook, whsec_…; repeat it during a rotation
    #[arg(long = "secret", value_name = "SECRET")]
    secrets: Vec<String>,
    /// Public keys of the server: a JWK set at a URL or in a file
    #[arg(long, visible_alias = "key", value_name = "URL|FILE")]
    keys: Option<String>,
}

fn parse_secrets(texts: &[String]) -> Result<Vec<WebhookSecret>, String> {
    let parse = |text: &String| {
        WebhookSecret::parse(text).ok_or("a secret is whsec_ and the base64 of 24 to 64 bytes".to_owned())
    };
    texts.iter().map(parse).collect()
}

impl MeansFlags {
    fn secrets(&self) -> Result<Vec<WebhookSecret>, String> {
        parse_secrets(&self.secrets)
    }

    fn keys(&self) -> Option<KeySource> {
        self.keys.as_deref().map(KeySource::parse)
    }
}

/// Signs as webhooks are signed; `None` if the text is not a secret.
pub(crate) fn sign_with(secret: &str) -> Option<Sign> {
    let secrets = [WebhookSecret::parse(secret)?];
    Some(Arc::new(move |id, timestamp, body| SignedContent { id, timestamp, body }.header(&secrets)))
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
    let mut secrets = match parse_secrets(&flags.secrets) {
        Ok(secrets) => secrets,
        Err(text) => return say(&text, Exit::Usage),
    };
    let forward =
        match flags.forward.as_deref().map(|url| Target::parse(url, PrivateTargets::Allow)).transpose() {
            Ok(forward) => forward,
            Err(objection) => return say(&format!("--forward: the URL {objection}"), Exit::Usage),
        };
    let listener = match WebhookListener::bind(flags.port).await {
        Ok(listener) => listener,
        Err(error) => return complain(&error, Exit::Failure),
    };
    let address = listener.address;
    let mut keys = flags.keys.as_deref().map(KeySource::parse);
    let registered = match flags.register {
        false => None,
        true => match register(&flags.connection, address).await {
            Ok(registered) => {
                secrets.extend(registered.webhook.secret.as_deref().and_then(WebhookSecret::parse));
                let published = registered.client.base().join(".well-known/forgerun/webhook-keys");
                keys = keys.or_else(|| Some(KeySource::Url(published.ok()?.to_string())));
                Some(registered)
            }
            Err(trouble) => return trouble.print(),
        },
    };
    print(&format!("forgerun webhook listening on http://{address}\n"), Exit::Done);
    let answer = StatusCode::from_u16(flags.answer).expect("within its range");
    let options = ListenOptions { secrets, keys, answer, forward, save: flags.save.clone() };
    let ended = listener.receive(options, |text| _ = print(text, Exit::Done), stop()).await;
    let removed = match registered {
        None => Exit::Done,
        Some(Registered { client, webhook }) => {
            match client.forge().delete_webhook(&webhook.webhook_id).await {
                Ok(()) => Exit::Done,
                Err(error) => say(
                    &format!("the webhook {} is still registered: {error}", webhook.webhook_id),
                    exit_of(&error),
                ),
            }
        }
    };
    match ended {
        Ok(()) => removed,
        Err(error) => complain(&error, Exit::Failure),
    }
}

/// Ends at Ctrl-C and SIGTERM: the registration must be removed.
async fn stop() {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => drop(terminate.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

/// A webhook registered while the receiver runs.
struct Registered {
    client: Client,
    webhook: forgerun_client::forge::Webhook,
}

async fn register(connection: &Connection, address: SocketAddr) -> Result<Registered, CommandError> {
    let client = connection.client()?;
    let wanted = NewWebhook::of_everything(format!("http://{address}/"));
    let webhook = client.forge().create_webhook(&wanted).await?;
    Ok(Registered { client, webhook })
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
    let mut reports = Vec::new();
    if !keys.is_empty() {
        reports.push(("RFC 9421 signature", verify::message_signature(&delivery, &means)));
    }
    if !secrets.is_empty() {
        reports.push(("Standard Webhooks signature", verify::standard_signature(&delivery, &means)));
    }
    let holds = reports.iter().all(|(_, report)| report.holds());
    let text: String = reports.iter().map(|(name, report)| shown(name, report)).collect();
    print(&text, if holds { Exit::Done } else { Exit::Failure })
}

async fn rotate(flags: &DatabaseFlags) -> Exit {
    let config = match load(flags.given(), &flags.config, CommandMode::Serve) {
        Ok(config) => config,
        Err(invalid) => return complain(&invalid, Exit::Usage),
    };
    if config.server.database == Database::Memory {
        return say("the keys are in the database, and memory: is another one for each server", Exit::Usage);
    }
    match rotate_in(&config).await {
        Ok(keys) => print(&format!("{}\n", keys.document()), Exit::Done),
        Err(error) => complain(&error, Exit::Failure),
    }
}

fn shown(name: &str, report: &SignatureReport) -> String {
    format!("{name}\n{report}  => {}\n", if report.holds() { "holds" } else { "does not hold" })
}

fn read(path: &PathBuf) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("could not read {}: {error}", path.display()))
}

/// Parses lines of "Name: value"; request lines and other text are skipped.
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
