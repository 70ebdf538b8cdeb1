//! Settings of sinks: `[sinks]`, `[cloudevents]`, `[kafka]`, `[nats]`.

use std::path::PathBuf;
use std::time::Duration;

use super::{DAYS_MAX, HOUR_S};
use crate::config::reader::SettingsReader;
use crate::config::secret::Secret;

#[derive(Clone, Debug)]
pub struct Sinks {
    pub max_lag: Duration,
}

impl Sinks {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> Sinks {
        let hours: u64 = from.whole("sinks.max_lag_hours", 1..=DAYS_MAX * 24);
        Sinks { max_lag: Duration::from_secs(hours * HOUR_S as u64) }
    }
}

/// Which events a sink gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkEvents {
    Results,
    All,
}

impl SinkEvents {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>, key: &str) -> SinkEvents {
        from.one_of(key, &[("results", SinkEvents::Results), ("all", SinkEvents::All)])
    }
}

/// Format of a sink's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudEvents {
    Off,
    /// The envelope is in headers, beside the value.
    Binary,
    /// The envelope contains the value.
    Structured,
}

impl CloudEvents {
    const WORDS: [(&str, CloudEvents); 3] =
        [("off", CloudEvents::Off), ("binary", CloudEvents::Binary), ("structured", CloudEvents::Structured)];

    /// The value of `cloudevents.mode`.
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>) -> CloudEvents {
        from.one_of("cloudevents.mode", &CloudEvents::WORDS)
    }

    /// The value of a sink, or `cloudevents.mode` if it has none.
    pub(in crate::config) fn of_sink(
        from: &mut SettingsReader<'_>,
        key: &str,
        usual: CloudEvents,
    ) -> CloudEvents {
        let words = CloudEvents::WORDS.map(|(word, mode)| (word, Some(mode)));
        let [off, binary, structured] = words;
        from.one_of(key, &[("", None), off, binary, structured]).unwrap_or(usual)
    }
}

#[derive(Clone, Debug)]
pub struct Kafka {
    /// `host:port`, separated by commas; `None` without Kafka.
    pub brokers: Option<String>,
    pub topic: String,
    pub create_topic: bool,
    pub events: SinkEvents,
    pub cloudevents: CloudEvents,
    pub tls: KafkaTls,
    pub sasl: KafkaSasl,
}

#[derive(Clone, Debug)]
pub struct KafkaTls {
    pub enabled: bool,
    pub ca: Option<PathBuf>,
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub struct KafkaSasl {
    pub mechanism: Option<&'static str>,
    pub username: String,
    pub password: Option<Secret>,
}

impl Kafka {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>, usual: CloudEvents) -> Kafka {
        Kafka {
            brokers: from.text_or_unset("kafka.brokers", "host:port, more than one with commas", brokers),
            topic: from.text(
                "kafka.topic",
                "letters, digits, dots, dashes and underscores, at most 249",
                topic,
            ),
            create_topic: from.truth("kafka.create_topic"),
            events: SinkEvents::read(from, "kafka.events"),
            cloudevents: CloudEvents::of_sink(from, "kafka.cloudevents", usual),
            tls: KafkaTls {
                enabled: from.truth("kafka.tls.enabled"),
                ca: file(from, "kafka.tls.ca"),
                cert: file(from, "kafka.tls.cert"),
                key: file(from, "kafka.tls.key"),
            },
            sasl: KafkaSasl::read(from),
        }
    }
}

impl KafkaSasl {
    fn read(from: &mut SettingsReader<'_>) -> KafkaSasl {
        let words = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];
        let [plain, scram_256, scram_512] = words.map(|word| (word, Some(word)));
        KafkaSasl {
            mechanism: from.one_of("kafka.sasl.mechanism", &[("", None), plain, scram_256, scram_512]),
            username: from.text("kafka.sasl.username", "a name without spaces", |text| {
                (!text.contains(char::is_whitespace)).then(|| text.to_owned())
            }),
            password: secret(from, "kafka.sasl.password"),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Nats {
    /// May contain a password; `None` without NATS.
    pub url: Option<Secret>,
    pub login: NatsLogin,
    pub tls: NatsTls,
    pub subject: String,
    pub stream: String,
    pub events: SinkEvents,
    pub cloudevents: CloudEvents,
}

/// Credentials, if `nats.url` has none.
#[derive(Clone, Debug)]
pub struct NatsLogin {
    pub username: Option<String>,
    pub password: Option<Secret>,
    pub token: Option<Secret>,
    pub credentials: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub struct NatsTls {
    pub ca: Option<PathBuf>,
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

impl NatsLogin {
    fn read(from: &mut SettingsReader<'_>) -> NatsLogin {
        NatsLogin {
            username: from.text_or_unset("nats.username", "a name without spaces", |text| {
                (!text.contains(char::is_whitespace)).then(|| text.to_owned())
            }),
            password: secret(from, "nats.password"),
            token: secret(from, "nats.token"),
            credentials: file(from, "nats.credentials"),
        }
    }

    /// How many kinds of credentials are set.
    pub(in crate::config) fn n_ways(&self) -> usize {
        let ways = [self.username.is_some(), self.token.is_some(), self.credentials.is_some()];
        ways.into_iter().filter(|is_set| *is_set).count()
    }
}

impl Nats {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>, usual: CloudEvents) -> Nats {
        let url = "nats://host:port or tls://host:port, more than one with commas, or nothing";
        Nats {
            url: from.text_or_unset("nats.url", url, |text| {
                text.split(',').all(is_nats_url).then(|| Secret::new(text.to_owned()))
            }),
            login: NatsLogin::read(from),
            tls: NatsTls {
                ca: file(from, "nats.tls.ca"),
                cert: file(from, "nats.tls.cert"),
                key: file(from, "nats.tls.key"),
            },
            subject: from.text(
                "nats.subject",
                "words of a subject without * and >, with dots between",
                |text| text.split('.').all(is_nats_word).then(|| text.to_owned()),
            ),
            stream: from.text("nats.stream", "letters, digits, dashes and underscores", |text| {
                is_nats_word(text).then(|| text.to_owned())
            }),
            events: SinkEvents::read(from, "nats.events"),
            cloudevents: CloudEvents::of_sink(from, "nats.cloudevents", usual),
        }
    }
}

fn secret(from: &mut SettingsReader<'_>, key: &str) -> Option<Secret> {
    from.text_or_unset(key, "a text without control characters", |text| {
        (!text.contains(char::is_control)).then(|| Secret::new(text.to_owned()))
    })
}

fn file(from: &mut SettingsReader<'_>, key: &str) -> Option<PathBuf> {
    // The setting may hold the certificate itself instead of a path.
    from.text_or_unset(key, "the path of a file, or nothing", |path| {
        (!path.starts_with("-----BEGIN")).then(|| PathBuf::from(path))
    })
}

fn brokers(text: &str) -> Option<String> {
    let is_broker = |broker: &str| {
        broker.trim().rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && !host.contains(['/', ' ']) && port.parse::<u16>().is_ok()
        })
    };
    text.split(',').all(is_broker).then(|| text.to_owned())
}

fn topic(text: &str) -> Option<String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let whole = (1..=249).contains(&text.len()) && text != "." && text != "..";
    (whole && text.bytes().all(good)).then(|| text.to_owned())
}

fn is_nats_url(text: &str) -> bool {
    let schemes = ["nats://", "tls://"];
    schemes.iter().any(|scheme| text.trim().strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()))
}

fn is_nats_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_topics_and_urls_are_checked_before_anybody_connects() {
        for (text, good) in [("a:9092", true), ("a:1,b:2", true), ("[::1]:9092", true), ("a", false)] {
            assert_eq!(brokers(text).is_some(), good, "{text}");
        }
        for (text, good) in [("kafka://a:9092", false), ("a:99999", false), ("a:1,", false)] {
            assert_eq!(brokers(text).is_some(), good, "{text}");
        }
        for (text, good) in [("a.b-c_D1", true), ("", false), ("a b", false), ("..", false)] {
            assert_eq!(topic(text).is_some(), good, "{text}");
        }
        for (text, good) in
            [("nats://a:4222", true), ("tls://u:p@a", true), ("a:4222", false), ("nats://", false)]
        {
            assert_eq!(is_nats_url(text), good, "{text}");
        }
    }
}
