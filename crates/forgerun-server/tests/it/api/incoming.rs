//! What callers can make the server hold: bodies that never end, of strangers and of clients, and
//! bodies that are too large.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::server::{Client, Server};

const ADMIN: &str = "the-token-of-the-operator";

/// A request that announces `n_announced` bytes of a body and sends `n_sent` of them.
async fn unfinished(server: &Server, head: &str, n_announced: usize, n_sent: usize) -> TcpStream {
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    let head = format!("{head}host: localhost\r\ncontent-length: {n_announced}\r\n\r\n");
    connection.write_all(head.as_bytes()).await.unwrap();
    // A server that refuses may close before all of it is sent.
    let _ = connection.write_all(&vec![b' '; n_sent]).await;
    connection
}

/// The status of the answer, once there is one.
async fn status(connection: &mut TcpStream) -> u16 {
    let mut answer = vec![0; 12];
    let read = timeout(Duration::from_secs(20), connection.read_exact(&mut answer)).await;
    read.expect("an answer in time").expect("an answer");
    String::from_utf8_lossy(&answer[9..12]).parse().unwrap()
}

/// Waits until the server has taken in so many bytes that it has not judged.
async fn holds(server: &Server, n_bytes: usize) {
    let held = async {
        while server.app.incoming.n_bytes() < n_bytes {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), held).await.expect("it takes in what is sent");
}

const LOGIN: &str = "POST /dashboard/login HTTP/1.1\r\ncontent-type: application/x-www-form-urlencoded\r\n";

fn batch_of(client: &Client) -> String {
    format!(
        "POST /ojs/v1/jobs/batch HTTP/1.1\r\ncontent-type: application/json\r\nauthorization: Bearer {}\r\n",
        client.key
    )
}

#[tokio::test]
async fn a_caller_that_is_not_known_sends_a_few_kilobytes() {
    let server = Server::with(&[("auth.admin_token", ADMIN)]).await;
    for head in [LOGIN, "POST /v1/clients HTTP/1.1\r\ncontent-type: application/json\r\n"] {
        let mut large = unfinished(&server, head, 8 * 1024 + 1, 0).await;
        assert_eq!(status(&mut large).await, 413, "{head}");
    }
    let mut chunked = TcpStream::connect(server.address).await.unwrap();
    let head = format!("{LOGIN}host: localhost\r\ntransfer-encoding: chunked\r\n\r\n");
    let body = format!("3000\r\n{}\r\n", "x".repeat(0x3000));
    chunked.write_all((head + &body).as_bytes()).await.unwrap();
    assert_eq!(status(&mut chunked).await, 413);
    let form = format!("token={ADMIN}");
    let call =
        server.call("POST", "/dashboard/login").header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(call.body(form).send().await.status, 303);
}

#[tokio::test]
async fn unfinished_bodies_of_strangers_have_a_bound_and_hinder_no_client() {
    let server = Server::with(&[("auth.admin_token", ADMIN), ("auth.registration", "open")]).await;
    let client = server.client().await;
    let mut open = Vec::new();
    for _ in 0..128 {
        open.push(unfinished(&server, LOGIN, 8 * 1024, 4 * 1024).await);
    }
    holds(&server, 1024 * 1024).await;
    let mut refused = unfinished(&server, LOGIN, 8 * 1024, 4 * 1024).await;
    assert_eq!(status(&mut refused).await, 429);
    assert_eq!(server.app.incoming.n_bytes(), 1024 * 1024);
    client.job().await;
    drop(open);
    let freed = async {
        while server.app.incoming.n_bytes() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), freed).await.expect("what is broken off is free again");
}

#[tokio::test]
async fn unfinished_bodies_of_a_client_have_a_bound_and_others_go_on() {
    let server = Server::with(&[("limits.max_incoming_bytes", "67108864")]).await;
    let (hostile, other) = (server.client().await, server.client().await);
    let mut open = Vec::new();
    let n_bytes = 16 * 1024 * 1024;
    for _ in 0..2 {
        open.push(unfinished(&server, &batch_of(&hostile), n_bytes, n_bytes - 1).await);
    }
    holds(&server, 2 * n_bytes).await;
    let mut refused = unfinished(&server, &batch_of(&hostile), n_bytes, 64 * 1024).await;
    assert_eq!(status(&mut refused).await, 429, "its share is used up");
    let ack = "POST /ojs/v1/workers/ack HTTP/1.1\r\ncontent-type: application/json\r\n";
    let ack = format!("{ack}authorization: Bearer {}\r\n", hostile.key);
    let mut refused = unfinished(&server, &ack, 512 * 1024, 64 * 1024).await;
    assert_eq!(status(&mut refused).await, 429, "acknowledgements count too");
    other.job().await;
    hostile.job().await;
    // The last byte ends one of them, which is then judged.
    open[0].write_all(b" ").await.unwrap();
    assert_eq!(status(&mut open[0]).await, 400);
}

#[tokio::test]
async fn a_client_that_sends_all_of_a_body_that_is_too_large_sees_why_it_is_refused() {
    let server = Server::start().await;
    let client = server.client().await;
    let address = server.address;
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer {}\r\n",
        client.key
    );
    let n_bytes = 24 * 1024 * 1024;
    // As Python's http.client does: nothing is read before everything is sent.
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(format!("{head}content-length: {n_bytes}\r\n\r\n").as_bytes()).await.unwrap();
    connection.write_all(&vec![b' '; n_bytes]).await.expect("the server reads on");
    assert_eq!(status(&mut connection).await, 413);
}

#[tokio::test]
async fn an_address_has_so_many_connections() {
    let server = Server::with(&[("limits.connections_per_address", "3")]).await;
    let connect = async || {
        let mut connection = TcpStream::connect(server.address).await.unwrap();
        connection.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        connection
    };
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut connection = connect().await;
        assert_eq!(status(&mut connection).await, 200);
        open.push(connection);
    }
    let mut further = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(status(&mut further).await, 429);
    drop(open);
    let served = async {
        loop {
            let mut connection = connect().await;
            let mut answer = vec![0; 12];
            if connection.read_exact(&mut answer).await.is_ok() && answer.ends_with(b"200") {
                return;
            }
        }
    };
    timeout(Duration::from_secs(20), served).await.expect("closed ones make room");
}
