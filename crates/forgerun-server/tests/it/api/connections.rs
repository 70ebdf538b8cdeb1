//! Connections: those that never come to the point are ended, and only so many are served at once.

use std::net::SocketAddr;
use std::time::Duration;

use forgerun_server::connections::{ConnectionTerms, serve};
use forgerun_server::http::HttpService;
use forgerun_server::pages;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::server::Server;

const HEALTH: &[u8] = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// The pages of a server, on other terms.
async fn on(server: &Server, terms: ConnectionTerms) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let doors = HttpService::new(server.app.clone(), pages::router(&server.app));
    tokio::spawn(serve(listener, doors, terms, std::future::pending()));
    address
}

async fn answered(connection: &mut TcpStream) -> String {
    connection.write_all(HEALTH).await.unwrap();
    let mut answer = vec![0; 4096];
    let n_bytes = connection.read(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer[..n_bytes]).into_owned()
}

#[tokio::test]
async fn a_head_that_does_not_come_to_an_end_ends_the_connection() {
    let server = Server::start().await;
    let address = on(
        &server,
        ConnectionTerms { head_timeout: Duration::from_millis(200), ..ConnectionTerms::default() },
    )
    .await;
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(b"GET /health HTTP/1.1\r\nx: ").await.unwrap();
    let mut rest = Vec::new();
    // Only a server that closes lets this return.
    let _ = slow.read_to_end(&mut rest).await;
    assert!(!rest.starts_with(b"HTTP/1.1 200"), "{rest:?}");
    let mut good = TcpStream::connect(address).await.unwrap();
    assert!(answered(&mut good).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_cut_off_and_gives_its_place_back() {
    let server = Server::start().await;
    let terms =
        ConnectionTerms { n_max: 1, write_stall: Duration::from_millis(300), ..ConnectionTerms::default() };
    let address = on(&server, terms).await;
    let mut deaf = TcpStream::connect(address).await.unwrap();
    // Far more than the kernel holds for a connection.
    let asked = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(40);
    deaf.write_all(&asked).await.unwrap();
    // There is one place, so this one is served only when the first is gone.
    let mut next = TcpStream::connect(address).await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(30), answered(&mut next)).await;
    assert!(answer.expect("the first is cut off").starts_with("HTTP/1.1 200"));
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the reader is slow in real time, which is what is bounded")]
async fn a_reader_that_goes_on_reading_is_not_cut_off_however_long_it_takes() {
    let server = Server::start().await;
    let terms = ConnectionTerms { write_stall: Duration::from_secs(3), ..ConnectionTerms::default() };
    let address = on(&server, terms).await;
    let mut slow = TcpStream::connect(address).await.unwrap();
    let n_asked = 20;
    let mut asked = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(n_asked - 1);
    asked.extend(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    slow.write_all(&asked).await.unwrap();
    let (mut n_bytes, mut buffer) = (0, vec![0; 1 << 20]);
    let mut n_answers = 0;
    loop {
        let n_read = slow.read(&mut buffer).await.unwrap();
        n_answers += buffer[..n_read].windows(8).filter(|window| window == b"HTTP/1.1").count();
        n_bytes += n_read;
        if n_read == 0 {
            break;
        }
        // Less than the bound each time, more in all.
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    assert!(n_answers >= n_asked - 1, "{n_answers} answers in {n_bytes} bytes");
}

#[tokio::test]
async fn a_head_without_bounds_is_refused() {
    let server = Server::start().await;
    let address = on(&server, ConnectionTerms::default()).await;
    let mut large = TcpStream::connect(address).await.unwrap();
    large.write_all(b"GET /health HTTP/1.1\r\nx: ").await.unwrap();
    // The server may stop reading before all of it is sent.
    let _ = large.write_all(&vec![b'x'; 1 << 20]).await;
    let mut answer = Vec::new();
    let _ = large.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn more_connections_than_there_is_room_for_wait_their_turn() {
    let server = Server::start().await;
    let address = on(&server, ConnectionTerms { n_max: 1, ..ConnectionTerms::default() }).await;
    let mut first = TcpStream::connect(address).await.unwrap();
    assert!(answered(&mut first).await.starts_with("HTTP/1.1 200"));
    let mut second = TcpStream::connect(address).await.unwrap();
    second.write_all(HEALTH).await.unwrap();
    let mut byte = [0; 1];
    let waited = tokio::time::timeout(Duration::from_millis(300), second.read(&mut byte)).await;
    assert!(waited.is_err(), "the second waits while the first is served");
    drop(first);
    assert_eq!(second.read(&mut byte).await.unwrap(), 1);
}
