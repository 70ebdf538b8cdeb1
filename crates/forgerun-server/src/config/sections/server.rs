//! Settings of the process: addresses, storage, access, logs and telemetry.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};

use super::{DAY_S, DAYS_MAX};
use crate::auth::OperatorRole;
use crate::config::reader::SettingsReader;
use crate::config::secret::Secret;
use crate::config::values::{
    ADDRESS, AuthMode, COLLECTOR, DATABASE, Database, HEADERS, ISSUER, LogFormat, LogLevel, NETWORK, Network,
    ORIGIN, PATH, PlainHttp, Reach, Registration, TOKEN, URL, address, collector, database, header_field,
    issuer, origin, path, token, url,
};

#[derive(Clone, Debug)]
pub struct Server {
    pub listen: SocketAddr,
    pub data: PathBuf,
    /// From `database_url`, or the file in `data`.
    pub database: Database,
    /// Without a trailing slash.
    pub public_base_url: Option<String>,
    pub trusted_proxies: Vec<Network>,
    /// Origins of pages that may call; `*` for all.
    pub cors_origins: Vec<String>,
    pub tls: Tls,
}

impl Server {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Server {
        let listen = from.text("server.listen", ADDRESS, address);
        let data = from.text("server.data", "the path of a folder", |path| {
            (!path.is_empty()).then(|| PathBuf::from(path))
        });
        let database = from.text_or_unset("server.database_url", DATABASE, database);
        Server {
            listen,
            database: database.unwrap_or_else(|| Database::Sqlite(data.join("forgerun.db"))),
            data,
            public_base_url: from.text_or_unset("server.public_base_url", URL, url),
            trusted_proxies: from.list("server.trusted_proxies", NETWORK, Network::parse),
            cors_origins: from.list("server.cors_origins", ORIGIN, origin),
            tls: Tls::read(from),
        }
    }

    /// Whether local requests get relaxed rules (C-115): only if no others are expected.
    pub(in crate::config) fn may_be_local(&self) -> bool {
        self.reach() == Reach::Loopback && self.public_base_url.is_none()
    }

    pub fn reach(&self) -> Reach {
        Reach::of(self.listen)
    }
}

/// TLS on the main port, and on that of gRPC unless it has its own.
#[derive(Clone, Debug)]
pub struct Tls {
    /// `None`: plain HTTP.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// If set, clients need a certificate of these authorities.
    pub client_ca: Option<PathBuf>,
    /// Whether probes need none.
    pub open_probes: bool,
    pub plain_http: PlainHttp,
}

impl Tls {
    fn read(from: &mut SettingsReader<'_>) -> Tls {
        let answers = [("refuse", PlainHttp::Refuse), ("redirect", PlainHttp::Redirect)];
        Tls {
            cert: from.text_or_unset("server.tls.cert", PATH, path),
            key: from.text_or_unset("server.tls.key", PATH, path),
            client_ca: from.text_or_unset("server.tls.client_ca", PATH, path),
            open_probes: from.truth("server.tls.open_probes"),
            plain_http: from.one_of("server.tls.plain_http", &answers),
        }
    }

    /// Whether the main port serves TLS.
    pub fn is_on(&self) -> bool {
        self.cert.is_some()
    }
}

#[derive(Clone, Debug)]
pub struct Log {
    pub format: LogFormat,
    pub level: LogLevel,
}

impl Log {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Log {
        Log {
            format: from.one_of("log.format", &[("json", LogFormat::Json), ("text", LogFormat::Text)]),
            level: from.one_of(
                "log.level",
                &[
                    ("error", LogLevel::Error),
                    ("warn", LogLevel::Warn),
                    ("info", LogLevel::Info),
                    ("debug", LogLevel::Debug),
                    ("trace", LogLevel::Trace),
                ],
            ),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Auth {
    pub mode: AuthMode,
    pub registration: Registration,
    pub admin_token: Option<Secret>,
    pub key_ttl: Duration,
    pub renew_grace: Duration,
    pub hide_foreign: bool,
    pub viewers_see_payloads: bool,
    pub oidc: Oidc,
}

impl Auth {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>, server: &Server) -> Auth {
        let auto = match server.reach() {
            Reach::Loopback => Registration::Local,
            Reach::Public => Registration::Admin,
        };
        Auth {
            mode: from.one_of("auth.mode", &[("keys", AuthMode::Keys), ("open", AuthMode::Open)]),
            registration: from.one_of(
                "auth.registration",
                &[("auto", auto), ("open", Registration::Open), ("admin", Registration::Admin)],
            ),
            admin_token: from.text_or_unset("auth.admin_token", TOKEN, token),
            key_ttl: from.days("auth.key_ttl_days", 1..=DAYS_MAX),
            renew_grace: from.days("auth.renew_grace_days", 0..=DAYS_MAX),
            hide_foreign: from.truth("auth.hide_foreign"),
            viewers_see_payloads: from.truth("auth.viewers_see_payloads"),
            oidc: Oidc::read(from),
        }
    }
}

/// Single sign-on of operators by OpenID Connect.
#[derive(Clone, Debug)]
pub struct Oidc {
    /// As the provider writes it, to the last slash; `None`: no single sign-on.
    pub issuer: Option<String>,
    pub client_id: String,
    pub client_secret: Option<Secret>,
    pub scopes: Vec<String>,
    /// The claim that roles are in: its name, or its path with dots.
    pub role_claim: String,
    /// Values of the claim, and their roles.
    pub roles: Vec<(String, OperatorRole)>,
}

impl Oidc {
    fn read(from: &mut SettingsReader<'_>) -> Oidc {
        let one = |text: &str| (!text.contains(char::is_whitespace)).then(|| text.to_owned());
        let word = |text: &str| one(text).filter(|text| !text.is_empty());
        let secret = |text: &str| {
            text.bytes().all(|byte| (b' '..=b'~').contains(&byte)).then(|| Secret::new(text.to_owned()))
        };
        let roles = OperatorRole::ALL.map(|role| (role.word(), role));
        Oidc {
            issuer: from.text_or_unset("auth.oidc.issuer", ISSUER, issuer),
            client_id: from.text("auth.oidc.client_id", "a text without spaces", one),
            client_secret: from.text_or_unset("auth.oidc.client_secret", "printable ASCII", secret),
            scopes: from.list("auth.oidc.scopes", "words without spaces", word),
            role_claim: from.text("auth.oidc.role_claim", "the name of a claim, or its path with dots", word),
            roles: from.choices_by_name("auth.oidc.roles", &roles),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Alerts {
    pub no_worker: Duration,
}

impl Alerts {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Alerts {
        Alerts { no_worker: from.seconds("alerts.no_worker_s", 1..=DAY_S) }
    }
}

/// How many queues and types metrics name; the others are counted together.
#[derive(Clone, Copy, Debug)]
pub struct MetricsConfig {
    pub queues_max: usize,
    pub types_max: usize,
}

impl MetricsConfig {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> MetricsConfig {
        MetricsConfig {
            queues_max: from.whole("metrics.queues_max", 1..=1000),
            types_max: from.whole("metrics.types_max", 1..=1000),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Telemetry {
    /// Without a trailing slash.
    pub otlp_endpoint: Option<String>,
    /// Sent with every batch; they may contain credentials.
    pub otlp_headers: Vec<(HeaderName, HeaderValue)>,
}

impl Telemetry {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Telemetry {
        Telemetry {
            otlp_endpoint: from.text_or_unset("telemetry.otlp_endpoint", COLLECTOR, collector),
            otlp_headers: from.list("telemetry.otlp_headers", HEADERS, header_field),
        }
    }
}
