//! Converts between our messages and the types of the client library.

use forgerun_core::time::Time;
use forgerun_wire::ojs::amqp::{CONTENT_TYPE, HeaderField, MessageHead, header, refusal_headers};
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::time;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};

/// Delivery mode: stored by the broker.
const PERSISTENT: u8 = 2;

/// Bytes of foreign headers that are kept on a forwarded message. All headers must fit into one
/// frame, with ours added; frames have 128 KB by default.
const FOREIGN_HEADERS_BYTES_MAX: usize = 64 * 1024;

/// Headers that route copies of a message. Kept on a forwarded message, they would route it again.
const ROUTING: [&str; 2] = ["CC", "BCC"];

/// The properties of a message of ours.
pub(super) fn of_message(head: &MessageHead) -> BasicProperties {
    let mut properties = BasicProperties::default()
        .with_content_type(CONTENT_TYPE.into())
        .with_content_encoding("utf-8".into())
        .with_delivery_mode(PERSISTENT)
        .with_app_id("ojs".into())
        .with_headers(table(FieldTable::default(), &head.headers));
    if let Some(id) = &head.message_id {
        properties = properties.with_message_id(short(id));
    }
    if let Some(kind) = &head.kind {
        properties = properties.with_type(short(kind));
    }
    if let Some(priority) = head.priority {
        properties = properties.with_priority(priority);
    }
    if let Some(timestamp_s) = head.timestamp_s {
        properties = properties.with_timestamp(timestamp_s);
    }
    if let Some(expiration_ms) = head.expiration_ms {
        properties = properties.with_expiration(expiration_ms.to_string().into());
    }
    properties
}

/// The properties of a message that is forwarded because it cannot become a job, or not yet: its
/// own, and the reason. `expiration_ms` is its delay. Properties that the broker would act on again
/// (routing, user, its own time to live) are dropped.
pub(super) fn of_refused(
    original: &BasicProperties,
    queue: &str,
    refused: &RefusedRequest,
    now: Time,
    expiration_ms: Option<u64>,
) -> BasicProperties {
    let foreign = original.headers().clone().unwrap_or_default();
    let foreign = if size(&foreign) > FOREIGN_HEADERS_BYTES_MAX { FieldTable::default() } else { foreign };
    let kept = foreign.inner().iter().filter(|(name, _)| !ROUTING.contains(&name.as_str()));
    let mut headers = FieldTable::default();
    for (name, value) in kept {
        headers.insert(name.clone(), value.clone());
    }
    let mut added = refusal_headers(refused, &time::millis(now));
    added.push((header::QUEUE, HeaderField::Text(queue.to_owned())));
    let mut properties =
        BasicProperties::default().with_delivery_mode(PERSISTENT).with_headers(table(headers, &added));
    if let Some(value) = original.content_type() {
        properties = properties.with_content_type(value.clone());
    }
    if let Some(value) = original.content_encoding() {
        properties = properties.with_content_encoding(value.clone());
    }
    if let Some(value) = original.priority() {
        properties = properties.with_priority(*value);
    }
    if let Some(value) = original.correlation_id() {
        properties = properties.with_correlation_id(value.clone());
    }
    if let Some(value) = original.message_id() {
        properties = properties.with_message_id(value.clone());
    }
    if let Some(value) = original.timestamp() {
        properties = properties.with_timestamp(*value);
    }
    if let Some(value) = original.kind() {
        properties = properties.with_type(value.clone());
    }
    if let Some(value) = original.app_id() {
        properties = properties.with_app_id(value.clone());
    }
    if let Some(expiration_ms) = expiration_ms {
        properties = properties.with_expiration(expiration_ms.to_string().into());
    }
    properties
}

/// A text header.
pub(super) fn text(properties: &BasicProperties, name: &str) -> Option<String> {
    match properties.headers().as_ref()?.inner().get(name)? {
        AMQPValue::LongString(text) => String::from_utf8(text.as_bytes().to_vec()).ok(),
        AMQPValue::ShortString(text) => Some(text.as_str().to_owned()),
        _ => None,
    }
}

/// A header as a number, whatever its width.
pub(super) fn count(properties: &BasicProperties, name: &str) -> Option<u32> {
    let number = match properties.headers().as_ref()?.inner().get(name)? {
        AMQPValue::ShortShortInt(number) => i64::from(*number),
        AMQPValue::ShortShortUInt(number) => i64::from(*number),
        AMQPValue::ShortInt(number) => i64::from(*number),
        AMQPValue::ShortUInt(number) => i64::from(*number),
        AMQPValue::LongInt(number) => i64::from(*number),
        AMQPValue::LongUInt(number) => i64::from(*number),
        AMQPValue::LongLongInt(number) => *number,
        _ => return None,
    };
    u32::try_from(number).ok()
}

fn table(mut table: FieldTable, fields: &[(&'static str, HeaderField)]) -> FieldTable {
    for (name, field) in fields {
        let value = match field {
            HeaderField::Text(text) => AMQPValue::LongString(text.as_str().into()),
            HeaderField::Int(number) => AMQPValue::LongInt(*number),
        };
        table.insert(ShortString::from(*name), value);
    }
    table
}

/// The beginning of a text, within AMQP's 255 bytes.
fn short(text: &str) -> ShortString {
    ShortString::from(&text[..text.floor_char_boundary(255)])
}

/// Approximate bytes of a table.
fn size(table: &FieldTable) -> usize {
    table.inner().iter().map(|(name, value)| name.as_str().len() + 2 + size_of_value(value)).sum()
}

fn size_of_value(value: &AMQPValue) -> usize {
    match value {
        AMQPValue::LongString(text) => 4 + text.as_bytes().len(),
        AMQPValue::ShortString(text) => 1 + text.as_str().len(),
        AMQPValue::ByteArray(bytes) => 4 + bytes.as_slice().len(),
        AMQPValue::FieldArray(values) => 4 + values.as_slice().iter().map(size_of_value).sum::<usize>(),
        AMQPValue::FieldTable(inner) => 4 + size(inner),
        _ => 9,
    }
}

#[cfg(test)]
mod tests {
    use forgerun_core::catalog::Kind;

    use super::*;

    fn refused(original: &BasicProperties) -> BasicProperties {
        let refused = RefusedRequest::new(Kind::RateLimited, "Too fast.");
        of_refused(original, "emails", &refused, Time::ZERO, Some(1500))
    }

    #[test]
    fn a_message_that_is_passed_on_keeps_what_is_its_own_and_nothing_the_broker_would_act_on() {
        let mut headers = FieldTable::default();
        headers.insert("x-own".into(), AMQPValue::LongString("kept".into()));
        headers
            .insert("CC".into(), AMQPValue::FieldArray(vec![AMQPValue::LongString("other".into())].into()));
        headers.insert(header::ATTEMPT.into(), AMQPValue::LongLongInt(3));
        let original = BasicProperties::default()
            .with_headers(headers)
            .with_message_id("m-1".into())
            .with_user_id("producer".into())
            .with_expiration("60000".into());
        let passed = refused(&original);
        assert_eq!(text(&passed, "x-own").as_deref(), Some("kept"));
        assert_eq!(text(&passed, header::ERROR_CODE).as_deref(), Some("RATE_LIMITED"));
        assert_eq!((count(&passed, header::ATTEMPT), count(&passed, "x-own")), (Some(3), None));
        assert!(!passed.headers().as_ref().unwrap().contains_key("CC"));
        assert_eq!((passed.user_id(), passed.message_id()), (&None, original.message_id()));
        assert_eq!((passed.expiration(), passed.delivery_mode()), (&Some("1500".into()), &Some(PERSISTENT)));
    }

    #[test]
    fn headers_that_leave_no_room_for_ours_are_left_out() {
        let mut headers = FieldTable::default();
        headers.insert("x-large".into(), AMQPValue::LongString("x".repeat(FOREIGN_HEADERS_BYTES_MAX).into()));
        let passed = refused(&BasicProperties::default().with_headers(headers));
        assert_eq!(text(&passed, "x-large"), None);
        assert_eq!(text(&passed, header::QUEUE).as_deref(), Some("emails"));
    }
}
