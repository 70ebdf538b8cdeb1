//! Abusive requests over plain sockets: incomplete requests, slow heads, bad bodies, bytes that are
//! not HTTP. The server may refuse with 4xx or close the connection. It must not fail, and must not
//! accept a job.

use std::rc::Rc;
use std::time::Duration;

use forgerun_client::raw::Stream;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::call::{Call, Key};
use super::plan::Plan;
use super::world::World;
use crate::clock::sleep;
use crate::limits::{ABUSE_TIMEOUT, TRICKLE_STEP, UNREAD_STREAM};

/// An abusive request.
struct Nonsense {
    name: &'static str,
    bytes: Vec<u8>,
    how: Manner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// All at once; then the answer is read.
    AtOnce,
    /// Byte by byte, slowly; then the connection is closed.
    Trickle,
    /// All at once, then the connection is closed without reading.
    HangUp,
}

fn nonsense(which: usize, host: &str, key: &str) -> Nonsense {
    let head =
        |first: &str, more: &str| format!("{first} HTTP/1.1\r\nHost: {host}\r\n{key}{more}\r\n").into_bytes();
    let post = |more: &str, body: &[u8]| {
        let mut bytes = head(
            "POST /v1/jobs",
            &format!("Content-Type: application/json\r\nContent-Length: {}\r\n{more}", body.len()),
        );
        bytes.extend_from_slice(body);
        bytes
    };
    let one = |name, bytes, how| Nonsense { name, bytes, how };
    use Manner::{AtOnce, HangUp, Trickle};
    match which % N_KINDS {
        0 => one("bytes that are no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), AtOnce),
        1 => one("half a head", b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Le".to_vec(), HangUp),
        2 => one("a head that trickles in", head("GET /v1/jobs", "X-Slow: yes\r\n"), Trickle),
        3 => one(
            "half a body",
            head("POST /v1/jobs", "Content-Type: application/json\r\nContent-Length: 500\r\n"),
            HangUp,
        ),
        4 => one(
            "a body of 100 MB, announced",
            head("POST /v1/jobs", "Content-Type: application/json\r\nContent-Length: 104857600\r\n"),
            AtOnce,
        ),
        5 => one("a method that does not exist", head("BREW /v1/jobs", ""), AtOnce),
        6 => one("a path that climbs", head("GET /v1/../../../etc/passwd", ""), AtOnce),
        7 => one("broken JSON", post("", b"{\"type\":\"EXECUTE\","), AtOnce),
        8 => one("JSON that is too deep", post("", &b"[".repeat(20_000)), AtOnce),
        9 => one(
            "text instead of JSON",
            {
                let mut bytes = head("POST /v1/jobs", "Content-Type: text/plain\r\nContent-Length: 2\r\n");
                bytes.extend_from_slice(b"{}");
                bytes
            },
            AtOnce,
        ),
        10 => one("no Host", b"GET /v1/jobs HTTP/1.1\r\n\r\n".to_vec(), AtOnce),
        11 => one("two lengths", post("Content-Length: 3\r\n", b"{}"), AtOnce),
        12 => one(
            "a head of 200 KB",
            head("GET /v1/jobs", &format!("X-Large: {}\r\n", "a".repeat(200_000))),
            AtOnce,
        ),
        13 => one(
            "an unknown kind of work",
            post("", b"{\"type\":\"EXECUTE\",\"work_kind\":\"DANCE\"}"),
            AtOnce,
        ),
        14 => one(
            "a foreign key",
            format!(
                "GET /v1/jobs HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer frk_{}\r\n\r\n",
                "x".repeat(43)
            )
            .into_bytes(),
            AtOnce,
        ),
        _ => one("a malformed job id", head("GET /v1/jobs/%00%ff", ""), AtOnce),
    }
}

const N_KINDS: usize = 16;

pub(super) async fn play(world: &Rc<World>, plan: &Plan, which: usize) {
    let Ok(_permit) = world.raw.acquire().await else {
        return;
    };
    let key = &world.clients[plan.client].key;
    let line = key.as_ref().and_then(|key| key.to_str().ok()).map(|key| format!("Authorization: {key}\r\n"));
    let host = world.pool.host.to_str().unwrap_or_default().to_owned();
    let nonsense = nonsense(which, &host, &line.unwrap_or_default());
    let answer = timeout(ABUSE_TIMEOUT, send(world, &nonsense)).await;
    let status = match answer {
        Ok(Some(status)) => status,
        // Connection closed, or still waiting for more: both are fine.
        Ok(None) | Err(_) => return,
    };
    world.tally.borrow_mut().answered(super::tally::Class::Other, status, Duration::ZERO);
    // A random key may pass if the server needs none.
    let is_open = key.is_none() && nonsense.name == "a foreign key";
    if !(400..500).contains(&status) && !is_open {
        let id = if status >= 500 { "FR-ERR-06" } else { "FR-SUB-10" };
        let call = Call::get(format!("/v1/jobs#{}", nonsense.name.replace(' ', "-")), key);
        world.violate(id, format!("{} is answered {status}", nonsense.name), &call, None);
    }
}

/// Sends, and reads the status of the answer, if there is one.
async fn send(world: &World, nonsense: &Nonsense) -> Option<u16> {
    let mut stream = tokio_stream(world.pool.stream().await.ok()?);
    match nonsense.how {
        Manner::AtOnce => {
            // The server may refuse before it has read all.
            let _ = stream.write_all(&nonsense.bytes).await;
            let mut head = [0; 12];
            stream.read_exact(&mut head).await.ok()?;
            std::str::from_utf8(&head).ok()?.split(' ').nth(1)?.parse().ok()
        }
        Manner::Trickle => {
            for piece in nonsense.bytes.chunks(16) {
                stream.write_all(piece).await.ok()?;
                sleep(TRICKLE_STEP).await;
            }
            None
        }
        Manner::HangUp => {
            let _ = stream.write_all(&nonsense.bytes).await;
            None
        }
    }
}

/// Opens a stream of events, reads nothing for a while, and closes it.
pub(super) async fn unread_stream(world: &Rc<World>, key: &Key) {
    let Ok(_permit) = world.raw.acquire().await else {
        return;
    };
    let Ok(stream) = world.pool.stream().await else {
        return;
    };
    let mut stream = tokio_stream(stream);
    let key = key.as_ref().and_then(|key| key.to_str().ok()).map(|key| format!("Authorization: {key}\r\n"));
    let host = world.pool.host.to_str().unwrap_or_default();
    let request = format!(
        "GET /v1/events HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n{}\r\n",
        key.unwrap_or_default()
    );
    if stream.write_all(request.as_bytes()).await.is_ok() {
        sleep(UNREAD_STREAM).await;
    }
}

fn tokio_stream(stream: Stream) -> TokioIo<Stream> {
    TokioIo::new(stream)
}
