//! A RabbitMQ broker.

use forgerun_core::id::ClientId;
use forgerun_core::job::Name;
use forgerun_wire::ojs::amqp::can_be_bridged;

use super::COUNT_MAX;
use super::sinks::{CloudEvents, SinkEvents};
use crate::config::reader::SettingsReader;
use crate::config::secret::Secret;

const BROKER: &str = "the URL of a broker, such as amqp://user:password@127.0.0.1:5672/vhost";
const QUEUES: &str = "names of OJS queues, lower-case letters, digits, dots and hyphens, at most 200, \
     not beginning with dlx., retry. or control.";

const EXCHANGE: &str = "letters, digits, dashes, underscores, dots and colons, at most 127, or nothing";

#[derive(Clone, Debug)]
pub struct Amqp {
    pub url: Option<Secret>,
    pub queues: Vec<Name>,
    pub client_id: Option<ClientId>,
    /// Jobs per minute from all bridged queues, 0 for no limit; `None` for the limit of the client.
    pub rate_per_minute: Option<u32>,
    pub queue_length_max: Option<u32>,
    /// `None` if results are not published.
    pub results_exchange: Option<String>,
    pub events: SinkEvents,
    pub cloudevents: CloudEvents,
}

impl Amqp {
    pub(in crate::config) fn read(from: &mut SettingsReader<'_>, usual: CloudEvents) -> Amqp {
        Amqp {
            url: from.text_or_unset("amqp.url", BROKER, broker),
            queues: from.list("amqp.queues", QUEUES, bridged),
            client_id: from.text_or_unset("amqp.client_id", "the id of a client", |text| text.parse().ok()),
            rate_per_minute: from.whole_or_inherited(
                "amqp.rate_per_minute",
                COUNT_MAX,
                "limits.rate_per_minute",
            ),
            queue_length_max: from.whole_or_off("amqp.queue_length_max", COUNT_MAX),
            results_exchange: from.text_or_unset("amqp.results_exchange", EXCHANGE, exchange),
            events: SinkEvents::read(from, "amqp.events"),
            cloudevents: CloudEvents::of_sink(from, "amqp.cloudevents", usual),
        }
    }
}

fn broker(text: &str) -> Option<Secret> {
    let url = url::Url::parse(text).ok()?;
    let good =
        matches!(url.scheme(), "amqp" | "amqps") && url.host_str().is_some_and(|host| !host.is_empty());
    good.then(|| Secret::new(text.to_owned()))
}

fn exchange(text: &str) -> Option<String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    (text.len() <= 127 && text.bytes().all(good)).then(|| text.to_owned())
}

fn bridged(text: &str) -> Option<Name> {
    Name::queue(text).ok().filter(|name| can_be_bridged(name.as_str()))
}
