//! Frames of HTTP/2 by hand, for what no client library sends.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::{H2, PATIENCE, World};

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RESET: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const GOAWAY: u8 = 7;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// A frame that came.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

/// A connection without a library.
pub(super) struct Frames(TlsStream<TcpStream>);

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A field that is written out.
fn field(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        assert!(text.len() < 127);
        block.push(text.len() as u8);
        block.extend(text.as_bytes());
    }
}

/// The fields of a request for this path.
pub(super) fn fields(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    let pseudo = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    pseudo.iter().chain(more).for_each(|(name, value)| field(&mut block, name, value));
    block
}

impl Frames {
    pub(super) async fn open(world: &World) -> Frames {
        let mut frames = Frames(world.tls(H2).await.unwrap());
        frames.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        frames.send(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        frames
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes).await?;
        self.0.flush().await
    }

    /// The next frame; `None` at the end of the connection.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        let read = async {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.ok()?;
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.0.read_exact(&mut payload).await.ok()?;
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            Some(Frame { kind: head[3], stream, payload })
        };
        timeout(PATIENCE, read).await.expect("a frame or the end in time")
    }

    /// The next frame of this kind; `None` if the connection ends before it.
    pub(super) async fn next_of(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.next().await?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// Reads to the end of the connection, and returns the kinds of the frames.
    pub(super) async fn rest(&mut self) -> Vec<u8> {
        let mut kinds = Vec::new();
        while let Some(frame) = self.next().await {
            kinds.push(frame.kind);
        }
        kinds
    }
}
