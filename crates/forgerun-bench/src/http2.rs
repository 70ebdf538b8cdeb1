//! A client of HTTP/2 for measuring, as thin as the one for HTTP/1.1: frames are put together beforehand, and of an answer it is looked only at where it
//! ends. A client that does more would be measured along with the server.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// Bytes of a frame before its payload.
const HEAD: usize = 9;

/// Bytes before a gRPC message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// One connection.
pub(crate) struct Http2 {
    stream: BufReader<TcpStream>,
    next_id: u32,
    /// What has come of messages that are not whole yet, by call.
    partial: HashMap<u32, Vec<u8>>,
    /// What has come and was not taken yet.
    waiting: VecDeque<Arrived>,
}

/// Something that the server sent.
pub(crate) enum Arrived {
    /// A message of this call.
    Message(u32, Vec<u8>),
    /// The call is over.
    End(u32),
}

/// A call put together beforehand, but for the number of its stream.
#[derive(Clone)]
pub(crate) struct PreparedCall(Vec<u8>);

impl PreparedCall {
    pub(crate) fn new(path: &str, metadata: &[(&str, &str)], message: &[u8]) -> PreparedCall {
        // POST and http stand in the static table of HPACK; the rest is written out.
        let mut fields = vec![0x83, 0x86];
        text(&mut fields, &[0x04], path);
        text(&mut fields, &[0x01], "localhost");
        for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")].iter().chain(metadata)
        {
            let mut begin = vec![0x00];
            text(&mut begin, &[], name);
            text(&mut fields, &begin, value);
        }
        let mut body = vec![0];
        body.extend_from_slice(&(message.len() as u32).to_be_bytes());
        body.extend_from_slice(message);
        let mut bytes = frame(HEADERS, END_HEADERS, 0, &fields);
        bytes.extend(frame(DATA, END_STREAM, 0, &body));
        PreparedCall(bytes)
    }

    /// The bytes for a stream of this number: it stands in the heads of both frames.
    fn numbered(&self, id: u32) -> Vec<u8> {
        let mut bytes = self.0.clone();
        let second = HEAD + usize::from(u16::from_be_bytes([bytes[1], bytes[2]]));
        for begin in [0, second] {
            bytes[begin + 5..begin + HEAD].copy_from_slice(&id.to_be_bytes());
        }
        bytes
    }
}

/// A literal that is not indexed; nothing here is longer than one byte can say.
fn text(out: &mut Vec<u8>, begin: &[u8], value: &str) {
    assert!(value.len() < 127, "a short value");
    out.extend_from_slice(begin);
    out.push(value.len() as u8);
    out.extend_from_slice(value.as_bytes());
}

fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + payload.len());
    bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

impl Http2 {
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Http2> {
        assert!(address.ip().is_loopback(), "load goes to this machine only");
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        // No pushes, and windows that nothing here fills.
        begin.extend(frame(SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff]));
        begin.extend(frame(WINDOW_UPDATE, 0, 0, &(0x7fff_ffff_u32 - 65_535).to_be_bytes()));
        let stream = BufReader::with_capacity(64 * 1024, stream);
        let mut http2 = Http2 { stream, next_id: 1, partial: HashMap::new(), waiting: VecDeque::new() };
        http2.stream.get_mut().write_all(&begin).await?;
        Ok(http2)
    }

    /// Sends a call: the number of its stream.
    pub(crate) async fn send(&mut self, call: &PreparedCall) -> io::Result<u32> {
        let id = self.next_id;
        self.next_id += 2;
        self.stream.get_mut().write_all(&call.numbered(id)).await?;
        Ok(id)
    }

    /// What comes next of any call.
    pub(crate) async fn arrived(&mut self) -> io::Result<Arrived> {
        loop {
            if let Some(arrived) = self.waiting.pop_front() {
                return Ok(arrived);
            }
            let mut head = [0; HEAD];
            self.stream.read_exact(&mut head).await?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let mut payload = vec![0; length];
            self.stream.read_exact(&mut payload).await?;
            if kind == DATA {
                self.take_in(id, &payload);
            }
            match kind {
                HEADERS | DATA if flags & END_STREAM != 0 => {
                    self.partial.remove(&id);
                    self.waiting.push_back(Arrived::End(id));
                }
                RST_STREAM | GOAWAY => {
                    return Err(io::Error::other(format!("the server gave up: {payload:?}")));
                }
                SETTINGS if flags & ACK == 0 => {
                    self.stream.get_mut().write_all(&frame(SETTINGS, ACK, 0, &[])).await?;
                }
                PING if flags & ACK == 0 => {
                    self.stream.get_mut().write_all(&frame(PING, ACK, 0, &payload)).await?;
                }
                _ => {}
            }
        }
    }

    /// Takes in bytes of a call: a frame may hold several messages, or a part of one.
    fn take_in(&mut self, id: u32, payload: &[u8]) {
        let bytes = self.partial.entry(id).or_default();
        bytes.extend_from_slice(payload);
        while let Some(length) = bytes.get(1..PREFIX) {
            let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
            if bytes.len() < PREFIX + length {
                break;
            }
            let rest = bytes.split_off(PREFIX + length);
            let message = std::mem::replace(bytes, rest).split_off(PREFIX);
            self.waiting.push_back(Arrived::Message(id, message));
        }
    }

    /// One call and its answer, if it has one. Messages of other calls are put aside.
    pub(crate) async fn call(
        &mut self,
        call: &PreparedCall,
        aside: &mut VecDeque<Vec<u8>>,
    ) -> io::Result<Option<Vec<u8>>> {
        let id = self.send(call).await?;
        let mut answer = None;
        loop {
            match self.arrived().await? {
                Arrived::Message(of, message) if of == id => answer = Some(message),
                Arrived::Message(_, message) => aside.push_back(message),
                Arrived::End(of) if of == id => return Ok(answer),
                Arrived::End(_) => return Err(io::Error::other("a stream ended")),
            }
        }
    }
}
