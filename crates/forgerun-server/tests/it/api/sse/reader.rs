//! A small reader of server-sent events, to the letter of the HTML standard: lines end at CR, LF or
//! both, data lines are joined by a line feed, an id stays until the next one.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::api::http::Answer;
use crate::api::server::Client;

/// Far more than anything here takes, so that only a hang fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// An event as a browser would hand it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: String,
}

impl Message {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }
}

/// An open stream.
pub(crate) struct Stream {
    connection: TcpStream,
    head: Answer,
    /// Bytes of the connection that are not looked at yet.
    raw: Vec<u8>,
    parser: Parser,
    over: bool,
}

/// How to open a stream.
pub(crate) struct Opening {
    address: SocketAddr,
    path: String,
    headers: Vec<(String, String)>,
    receive_buffer: Option<u32>,
}

impl Opening {
    pub(crate) fn new(client: &Client, path: &str) -> Opening {
        let headers =
            [("accept", "text/event-stream".to_owned()), ("authorization", format!("Bearer {}", client.key))];
        let headers = headers.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Opening { address: client.address, path: path.into(), headers, receive_buffer: None }
    }

    pub(crate) fn after(mut self, id: &str) -> Opening {
        self.headers.push(("last-event-id".into(), id.into()));
        self
    }

    /// With little room for what is not read.
    pub(crate) fn narrow(mut self) -> Opening {
        self.receive_buffer = Some(4096);
        self
    }

    /// Opens it, or gives the answer that is no stream.
    pub(crate) async fn open(self) -> Result<Stream, Answer> {
        timeout(PATIENCE, self.exchange()).await.expect("an answer in time")
    }

    async fn exchange(self) -> Result<Stream, Answer> {
        let socket = TcpSocket::new_v4().unwrap();
        self.receive_buffer.iter().for_each(|size| socket.set_recv_buffer_size(*size).unwrap());
        let mut connection = socket.connect(self.address).await.unwrap();
        let mut head = format!("GET {} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n", self.path);
        self.headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        connection.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
        let mut raw = Vec::new();
        let end = loop {
            if let Some(at) = raw.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            assert_ne!(
                connection.read_buf(&mut raw).await.unwrap(),
                0,
                "{:?}",
                String::from_utf8_lossy(&raw)
            );
        };
        let head = Answer::parse(&raw[..end]);
        if head.status != 200 || head.header("content-type") != Some("text/event-stream") {
            connection.read_to_end(&mut raw).await.unwrap();
            return Err(Answer::parse(&raw));
        }
        assert_eq!(head.header("transfer-encoding"), Some("chunked"));
        raw.drain(..end);
        Ok(Stream { connection, head, raw, parser: Parser::default(), over: false })
    }
}

impl Stream {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// The next event; `None` once the server has closed the stream.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        timeout(PATIENCE, async {
            loop {
                if !self.parser.messages.is_empty() {
                    return Some(self.parser.messages.remove(0));
                }
                if !self.read().await {
                    return None;
                }
            }
        })
        .await
        .expect("an event in time")
    }

    /// The next so many events.
    pub(crate) async fn take(&mut self, n: usize) -> Vec<Message> {
        let mut messages = Vec::new();
        while messages.len() < n {
            messages.push(self.next().await.expect("the stream goes on"));
        }
        messages
    }

    /// All events until the server closes the stream.
    pub(crate) async fn rest(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(message) = self.next().await {
            messages.push(message);
        }
        messages
    }

    /// Waits until so many comments came.
    pub(crate) async fn comments(&mut self, n: usize) {
        while self.parser.n_comments < n {
            assert!(timeout(PATIENCE, self.read()).await.expect("a comment in time"), "the stream goes on");
        }
    }

    pub(crate) fn retry_ms(&self) -> Option<u64> {
        self.parser.retry_ms
    }

    /// Reads some more; whether there was more.
    async fn read(&mut self) -> bool {
        loop {
            if let Some(chunk) = self.chunk() {
                self.over = chunk.is_empty();
                self.parser.feed(&chunk);
                return !self.over;
            }
            if self.over || self.connection.read_buf(&mut self.raw).await.unwrap_or(0) == 0 {
                return false;
            }
        }
    }

    /// The next whole chunk of the transfer coding; the empty one is the last.
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let line_end = self.raw.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&self.raw[..line_end]).ok()?;
        let size = usize::from_str_radix(size, 16).unwrap();
        let (begin, end) = (line_end + 2, line_end + 2 + size);
        if self.raw.len() < end + 2 {
            return None;
        }
        let chunk = self.raw[begin..end].to_vec();
        self.raw.drain(..end + 2);
        Some(chunk)
    }
}

/// Puts events together from any pieces of the text.
#[derive(Default)]
struct Parser {
    line: Vec<u8>,
    after_cr: bool,
    name: String,
    data: String,
    last_id: String,
    retry_ms: Option<u64>,
    n_comments: usize,
    messages: Vec<Message>,
}

impl Parser {
    fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' if self.after_cr => self.after_cr = false,
                b'\n' | b'\r' => {
                    self.after_cr = byte == b'\r';
                    let line = String::from_utf8(std::mem::take(&mut self.line)).unwrap();
                    self.line(&line);
                }
                _ => {
                    self.after_cr = false;
                    self.line.push(byte);
                }
            }
        }
    }

    fn line(&mut self, line: &str) {
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" => self.n_comments += 1,
            "event" => self.name = value.into(),
            "data" => self.data += &format!("{value}\n"),
            "id" if !value.contains('\0') => self.last_id = value.into(),
            "retry" => self.retry_ms = value.parse().ok(),
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
        if let Some(data) = data.strip_suffix('\n') {
            self.messages.push(Message { name, id: self.last_id.clone(), data: data.into() });
        }
    }
}

#[test]
fn the_reader_joins_data_lines_and_takes_any_end_of_line() {
    let text = ": hello\r\nretry: 5\n\nevent: a\rid: 1\rdata: {\"x\":\rdata:  1}\r\rdata: y\r\n\r\nid\n\nevent: lost\n";
    let message = |name: &str, data: &str| Message { name: name.into(), id: "1".into(), data: data.into() };
    for size in 1..text.len() {
        let mut parser = Parser::default();
        text.as_bytes().chunks(size).for_each(|piece| parser.feed(piece));
        assert_eq!(parser.messages, [message("a", "{\"x\":\n 1}"), message("", "y")], "pieces of {size}");
        assert_eq!((parser.retry_ms, parser.n_comments, parser.last_id.as_str()), (Some(5), 1, ""));
    }
}
