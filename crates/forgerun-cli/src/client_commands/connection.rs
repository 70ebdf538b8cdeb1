//! The server and the credentials, from flags and environment.

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use forgerun_client::raw::Connector;
use forgerun_client::{Builder, Client, Error, RetryPolicy};

use crate::Exit;
use crate::terminal::say;

const URL_DEFAULT: &str = "http://127.0.0.1:8080";

/// Interactive: an unreachable server is reported after about a second.
const RETRY: RetryPolicy = RetryPolicy {
    retries_max: 3,
    first: Duration::from_millis(100),
    longest: Duration::from_secs(1),
    patience: Duration::from_secs(20),
};

/// A probe waits this long for an answer. The server itself gives its store two seconds.
const PROBE_TIMEOUT: Duration = Duration::from_secs(4);

/// Shorter waits are not reported.
const WORTH_TELLING: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Args)]
pub struct Connection {
    /// The server [env: FORGERUN_URL] [default: http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", help_heading = "Server")]
    url: Option<String>,
    /// The API key [env: FORGERUN_API_KEY]
    #[arg(long, value_name = "KEY", help_heading = "Server")]
    key: Option<String>,
    /// The operator's token, for operator commands [env: FORGERUN_ADMIN_TOKEN]
    #[arg(long, value_name = "TOKEN", help_heading = "Server")]
    admin_token: Option<String>,
    #[command(flatten)]
    tls: TlsFlags,
    /// Print JSON, for programs
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Print only the result
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,
}

/// For servers with https.
#[derive(Clone, Debug, Args)]
pub(crate) struct TlsFlags {
    /// Trust the certificate authorities in this file instead of the system's [env: FORGERUN_CA]
    #[arg(long, value_name = "FILE.pem", help_heading = "Server")]
    ca: Option<String>,
    /// The client's own certificate, if the server asks for one [env: FORGERUN_CERT]
    #[arg(long, value_name = "FILE.pem", help_heading = "Server")]
    cert: Option<String>,
    /// The private key of --cert [env: FORGERUN_CERT_KEY]
    #[arg(long, value_name = "FILE.pem", help_heading = "Server")]
    cert_key: Option<String>,
}

impl TlsFlags {
    /// What makes connections with these certificates.
    pub(crate) fn connector(&self) -> Result<Connector, Error> {
        self.apply(Client::builder(URL_DEFAULT))?.connector()
    }

    fn apply(&self, mut builder: Builder) -> Result<Builder, Error> {
        if let Some(ca) = given(&self.ca, "FORGERUN_CA") {
            builder = builder.ca(ca);
        }
        match (given(&self.cert, "FORGERUN_CERT"), given(&self.cert_key, "FORGERUN_CERT_KEY")) {
            (None, None) => Ok(builder),
            (Some(cert), Some(key)) => Ok(builder.certificate(cert, key)),
            (Some(_), None) => Err(Error::Usage("--cert needs --cert-key, or FORGERUN_CERT_KEY".to_owned())),
            (None, Some(_)) => Err(Error::Usage("--cert-key needs --cert, or FORGERUN_CERT".to_owned())),
        }
    }
}

/// The same for commands where `--url` has another meaning.
#[derive(Debug, Args)]
pub(crate) struct ServerConnection {
    /// The server [env: FORGERUN_URL] [default: http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", help_heading = "Server")]
    server: Option<String>,
    /// The API key [env: FORGERUN_API_KEY]
    #[arg(long, value_name = "KEY", help_heading = "Server")]
    key: Option<String>,
    /// The operator's token, for operator commands [env: FORGERUN_ADMIN_TOKEN]
    #[arg(long, value_name = "TOKEN", help_heading = "Server")]
    admin_token: Option<String>,
    #[command(flatten)]
    tls: TlsFlags,
    /// Print JSON, for programs
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Print only the result
    #[arg(long, short, help_heading = "Output")]
    quiet: bool,
}

impl ServerConnection {
    pub(crate) fn connection(&self) -> Connection {
        Connection {
            url: self.server.clone(),
            key: self.key.clone(),
            admin_token: self.admin_token.clone(),
            tls: self.tls.clone(),
            json: self.json,
            quiet: self.quiet,
        }
    }
}

impl Connection {
    pub fn client(&self) -> Result<Client, Error> {
        self.build(given(&self.key, "FORGERUN_API_KEY"))
    }

    /// A client with the operator's token, or with the API key without one.
    pub(crate) fn operator(&self) -> Result<Client, Error> {
        self.build(
            given(&self.admin_token, "FORGERUN_ADMIN_TOKEN").or_else(|| given(&self.key, "FORGERUN_API_KEY")),
        )
    }

    /// A client with the operator's token, or none if the server is open to local callers.
    pub(crate) fn admin(&self) -> Result<Client, Error> {
        self.build(given(&self.admin_token, "FORGERUN_ADMIN_TOKEN"))
    }

    /// Whether the operator calls: there is a token and no API key.
    pub(crate) fn is_operator(&self) -> bool {
        given(&self.key, "FORGERUN_API_KEY").is_none()
            && given(&self.admin_token, "FORGERUN_ADMIN_TOKEN").is_some()
    }

    /// A client that claims jobs: of the key's owner, or of all clients with only the operator's
    /// token.
    pub(crate) fn worker(&self) -> Result<Client, Error> {
        self.build(
            given(&self.key, "FORGERUN_API_KEY").or_else(|| given(&self.admin_token, "FORGERUN_ADMIN_TOKEN")),
        )
    }

    /// A client that reports every failure at once: its caller decides when to try again.
    pub fn forwarder(&self) -> Result<Client, Error> {
        let builder = self.tls.apply(Client::builder(self.url()).retry(RetryPolicy::NEVER))?;
        match given(&self.key, "FORGERUN_API_KEY") {
            Some(key) => builder.key(key).build(),
            None => builder.build(),
        }
    }

    /// A client that asks once and does not wait for long, without a key: probes need none.
    pub(crate) fn probe(&self) -> Result<Client, Error> {
        let builder = Client::builder(self.url()).retry(RetryPolicy::NEVER).timeout(PROBE_TIMEOUT);
        self.tls.apply(builder)?.build()
    }

    pub(crate) fn url(&self) -> String {
        given(&self.url, "FORGERUN_URL").unwrap_or_else(|| URL_DEFAULT.to_owned())
    }

    fn build(&self, key: Option<String>) -> Result<Client, Error> {
        let mut builder = self.tls.apply(Client::builder(self.url()).retry(RETRY))?;
        if !self.quiet && !self.json {
            builder = builder.on_retry(tell_once());
        }
        match key {
            Some(key) => builder.key(key).build(),
            None => builder.build(),
        }
    }
}

/// Prints once that an answer takes long, and why.
fn tell_once() -> impl Fn(&Error, Duration) + Send + Sync {
    let told = AtomicBool::new(false);
    move |error, wait| {
        if wait >= WORTH_TELLING && !told.swap(true, Ordering::Relaxed) {
            let text = format!("{error}; trying again in {} s", wait.as_secs());
            say(&text, Exit::Done);
        }
    }
}

/// The flag, or the variable; empty counts as missing.
pub(crate) fn given(flag: &Option<String>, variable: &str) -> Option<String> {
    flag.clone().or_else(|| env::var(variable).ok()).filter(|value| !value.is_empty())
}
