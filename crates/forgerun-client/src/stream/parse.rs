//! Server-sent events, line by line, as the HTML standard reads them.

use crate::limits::LINE_BYTES_MAX;

/// One event as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Where to go on after it; empty if the server gave none.
    pub id: String,
    /// Its name; `message` if the server gave none.
    pub name: String,
    /// What it says.
    pub data: String,
}

/// A line is longer than any sensible one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Event(Event),
    /// How many milliseconds to wait before coming back.
    Retry(u64),
}

/// Collects bytes and gives whole events.
#[derive(Debug, Default)]
pub(super) struct Parser {
    rest: Vec<u8>,
    /// The last byte was a carriage return, so a line feed that follows belongs to it.
    after_return: bool,
    id: String,
    name: String,
    data: Option<String>,
}

impl Parser {
    /// Takes bytes; gives what they complete.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Item>, TooLong> {
        let mut items = Vec::new();
        for &byte in bytes {
            let ends = match byte {
                b'\n' if self.after_return => {
                    self.after_return = false;
                    continue;
                }
                b'\n' | b'\r' => true,
                _ => false,
            };
            self.after_return = byte == b'\r';
            if ends {
                let line = std::mem::take(&mut self.rest);
                items.extend(self.line(&String::from_utf8_lossy(&line)));
            } else if self.rest.len() >= LINE_BYTES_MAX {
                return Err(TooLong);
            } else {
                self.rest.push(byte);
            }
        }
        Ok(items)
    }

    fn line(&mut self, line: &str) -> Option<Item> {
        if line.is_empty() {
            return self.end();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = value.to_owned(),
            "id" if !value.contains('\0') => self.id = value.to_owned(),
            "retry" => return value.parse().ok().map(Item::Retry),
            "data" => match &mut self.data {
                Some(data) if data.len() + value.len() < LINE_BYTES_MAX => {
                    data.push('\n');
                    data.push_str(value);
                }
                Some(_) => {}
                None => self.data = Some(value.to_owned()),
            },
            // A comment is a sign of life; unknown fields are ignored.
            _ => {}
        }
        None
    }

    fn end(&mut self) -> Option<Item> {
        let name = std::mem::take(&mut self.name);
        let data = self.data.take()?;
        let name = if name.is_empty() { "message".to_owned() } else { name };
        Some(Item::Event(Event { id: self.id.clone(), name, data }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str, name: &str, data: &str) -> Item {
        Item::Event(Event { id: id.into(), name: name.into(), data: data.into() })
    }

    #[test]
    fn events_are_read_however_the_bytes_are_cut() {
        let text =
            "retry: 3000\n\n: hello\n\nevent: job-started\nid: 7\ndata: {\"a\":1}\n\ndata: x\ndata:y\r\n\r\n";
        let expected =
            [Item::Retry(3000), event("7", "job-started", r#"{"a":1}"#), event("7", "message", "x\ny")];
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let pieces = text.as_bytes().chunks(size);
            let items: Vec<Item> = pieces.flat_map(|piece| parser.take(piece).unwrap()).collect();
            assert_eq!(items, expected, "{size}");
        }
    }

    #[test]
    fn what_is_not_finished_is_no_event() {
        let mut parser = Parser::default();
        assert_eq!(parser.take(b"event: a\ndata: b\n").unwrap(), []);
        assert_eq!(parser.take(b"\n").unwrap(), [event("", "a", "b")]);
        assert_eq!(parser.take(b"event: only-a-name\n\n").unwrap(), []);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; LINE_BYTES_MAX];
        assert_eq!(parser.take(&piece), Ok(vec![]));
        assert_eq!(parser.take(b"x"), Err(TooLong));
    }
}
