//! Receivers that do not behave, and names that lie.

use std::sync::Arc;
use std::time::Duration;

use forgerun_engine::{Clock, SystemClock};
use forgerun_server::config::PrivateTargets;
use forgerun_server::webhooks::guard::AddressRefused;
use forgerun_server::webhooks::{SendError, SendVerdict, SenderOptions};
use forgerun_store::testing::free_port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, mpsc};

use super::receiver::{Names, Receiver, delivery_request, hasty, options, read_request, send, sender};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

fn failed(error: SendError) -> SendVerdict {
    SendVerdict::Failed { error, retry_after: None }
}

#[tokio::test]
async fn a_delivery_arrives_as_it_was_signed() {
    let (arrived, mut arrivals) = mpsc::channel(1);
    let arrived = Arc::new(arrived);
    let receiver = Receiver::start(move |mut connection| {
        let arrived = arrived.clone();
        async move {
            let request = read_request(&mut connection).await.unwrap();
            connection.write_all(OK.as_bytes()).await.unwrap();
            arrived.send(request).await.unwrap();
        }
    })
    .await;
    assert_eq!(send(&sender(options()), &receiver.url()).await, SendVerdict::Delivered(200));
    let (head, body) = arrivals.recv().await.unwrap();
    assert!(head.starts_with("POST /hook HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("host: {}\r\n", receiver.address)), "{head}");
    assert!(head.contains("signature-input: sig1=(\"@method\" "), "{head}");
    assert!(!head.contains("accept-encoding"), "{head}");
    assert_eq!(body, br#"{"status":500}"#);
}

#[tokio::test]
async fn an_answer_is_heard_and_redirects_are_not_followed() {
    let names = Names::new(&[&["127.0.0.1"]]);
    for (answer, expected) in [
        ("HTTP/1.1 204 No Content\r\n\r\n", SendVerdict::Delivered(204)),
        ("HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\noops", failed(SendError::Status(500))),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", failed(SendError::Status(404))),
        ("HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n", SendVerdict::Gone),
        (
            "HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n",
            SendVerdict::Failed { error: SendError::Status(503), retry_after: Some(Duration::from_secs(7)) },
        ),
        (
            "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/latest\r\ncontent-length: 0\r\n\r\n",
            failed(SendError::Redirect(302)),
        ),
        (
            "HTTP/1.1 307 Elsewhere\r\nlocation: http://elsewhere.example/\r\ncontent-length: 0\r\n\r\n",
            failed(SendError::Redirect(307)),
        ),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", failed(SendError::NotHttp)),
        ("HTTP/1.1 999999 \r\n\r\n", failed(SendError::NotHttp)),
    ] {
        let receiver = Receiver::answering(answer).await;
        let sender = sender(SenderOptions { resolver: names.clone(), ..options() });
        assert_eq!(send(&sender, &receiver.url()).await, expected, "{answer}");
        assert_eq!(receiver.n_connections(), 1);
    }
    assert_eq!(names.n_asked(), 0);
}

#[tokio::test]
async fn a_name_that_changes_between_check_and_dial_is_dialled_as_it_was_checked() {
    let receiver = Receiver::start(|mut connection| async move {
        read_request(&mut connection).await;
        let closing = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let _ = connection.write_all(closing.as_bytes()).await;
    })
    .await;
    let url = format!("http://hooks.example:{}/", receiver.address.port());
    // The name leads to the receiver when it is looked up first, and to the metadata service ever
    // after.
    let names = Names::new(&[&["127.0.0.1"], &["169.254.169.254"], &["127.0.0.1", "fe80::1"]]);
    let sender = sender(SenderOptions { resolver: names.clone(), ..options() });
    assert_eq!(send(&sender, &url).await, SendVerdict::Delivered(200));
    assert_eq!((names.n_asked(), receiver.n_connections()), (1, 1));
    assert_eq!(send(&sender, &url).await, failed(SendError::Forbidden(AddressRefused::Never)));
    // One bad address among good ones spoils them all.
    assert_eq!(send(&sender, &url).await, failed(SendError::Forbidden(AddressRefused::Never)));
    assert_eq!(send(&sender, &url).await, failed(SendError::NoSuchName));
    assert_eq!((names.n_asked(), receiver.n_connections()), (4, 1));
}

#[tokio::test]
async fn a_public_name_that_leads_into_the_private_network_is_not_called() {
    let receiver = Receiver::answering(OK).await;
    let port = receiver.address.port();
    let private = PrivateTargets::Deny;
    for address in ["127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "0.0.0.0"] {
        let resolver = Names::new(&[&[address]]);
        let sender = sender(SenderOptions { resolver, private, ..options() });
        let verdict = send(&sender, &format!("http://hooks.example:{port}/")).await;
        assert_eq!(verdict, failed(SendError::Forbidden(AddressRefused::Private)), "{address}");
    }
    // An address in the URL never gets to a resolver, and is judged all the same.
    let sender = sender(SenderOptions { private, ..options() });
    assert_eq!(send(&sender, &receiver.url()).await, failed(SendError::Forbidden(AddressRefused::Private)));
    assert_eq!(receiver.n_connections(), 0);
}

#[tokio::test]
async fn on_loopback_only_localhost_may_be_a_name_for_this_machine() {
    let receiver = Receiver::answering(OK).await;
    let port = receiver.address.port();
    for (host, expected) in [
        ("hooks.example", failed(SendError::Forbidden(AddressRefused::Private))),
        ("localhost.example", failed(SendError::Forbidden(AddressRefused::Private))),
        ("localhost", SendVerdict::Delivered(200)),
        ("hooks.localhost", SendVerdict::Delivered(200)),
        ("127.0.0.1", SendVerdict::Delivered(200)),
    ] {
        let resolver = Names::new(&[&["127.0.0.1"]]);
        let sender = sender(SenderOptions { resolver, private: PrivateTargets::Local, ..options() });
        assert_eq!(send(&sender, &format!("http://{host}:{port}/")).await, expected, "{host}");
    }
}

#[tokio::test]
async fn a_receiver_that_never_answers_or_never_reads_is_given_up_in_time() {
    let held = Arc::new(Mutex::new(Vec::new()));
    let holding = held.clone();
    let receiver = Receiver::start(move |connection| {
        let holding = holding.clone();
        async move { holding.lock().await.push(connection) }
    })
    .await;
    let sender = sender(hasty());
    assert_eq!(send(&sender, &receiver.url()).await, failed(SendError::Slow));
    // Far more than the buffers of two sockets.
    let large = delivery_request(&receiver.url(), vec![b'x'; 32 * 1024 * 1024]);
    let request = large.request(SystemClock.now(), None);
    assert_eq!(sender.send(&large.target, request).await, failed(SendError::Slow));
    // We hung up: whatever the receiver still reads comes to an end.
    for connection in held.lock().await.iter_mut() {
        let mut rest = Vec::new();
        let _ = connection.read_to_end(&mut rest).await;
    }
}

/// Bytes one by one, each after a moment, until nobody listens.
async fn dribble(connection: &mut TcpStream, bytes: &[u8]) {
    for byte in bytes {
        SystemClock.sleep(Duration::from_millis(50)).await;
        if connection.write_all(&[*byte]).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_receiver_that_answers_byte_by_byte_is_given_up_in_time() {
    let receiver = Receiver::start(|mut connection| async move {
        read_request(&mut connection).await;
        dribble(&mut connection, OK.as_bytes()).await;
    })
    .await;
    assert_eq!(send(&sender(hasty()), &receiver.url()).await, failed(SendError::Slow));

    // Its status is what counts; nobody waits for the rest.
    let receiver = Receiver::start(|mut connection| async move {
        read_request(&mut connection).await;
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await.unwrap();
        dribble(&mut connection, &[b'x'; 1000]).await;
    })
    .await;
    assert_eq!(send(&sender(options()), &receiver.url()).await, SendVerdict::Delivered(200));
}

#[tokio::test]
async fn a_receiver_that_sends_a_gigabyte_gets_rid_of_a_fraction_of_it() {
    let (sent, mut n_sent) = mpsc::channel(1);
    let receiver = Receiver::start(move |mut connection| {
        let sent = sent.clone();
        async move {
            read_request(&mut connection).await;
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n";
            connection.write_all(head).await.unwrap();
            let megabyte = vec![b'x'; 1024 * 1024];
            let mut n_megabytes = 0;
            while n_megabytes < 1024 && connection.write_all(&megabyte).await.is_ok() {
                n_megabytes += 1;
            }
            sent.send(n_megabytes).await.unwrap();
        }
    })
    .await;
    assert_eq!(send(&sender(options()), &receiver.url()).await, SendVerdict::Delivered(200));
    let n_megabytes = n_sent.recv().await.unwrap();
    assert!(n_megabytes < 64, "{n_megabytes} MB went out");
}

#[tokio::test]
async fn endless_headers_are_not_listened_to() {
    let receiver = Receiver::start(|mut connection| async move {
        read_request(&mut connection).await;
        connection.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        let header = format!("x: {}\r\n", "y".repeat(1000));
        while connection.write_all(header.as_bytes()).await.is_ok() {}
    })
    .await;
    assert_eq!(send(&sender(options()), &receiver.url()).await, failed(SendError::NotHttp));
}

#[tokio::test]
async fn a_connection_that_is_closed_reset_or_refused_is_told_apart_from_silence() {
    let closing = Receiver::start(|mut connection| async move {
        read_request(&mut connection).await;
    })
    .await;
    assert_eq!(send(&sender(options()), &closing.url()).await, failed(SendError::Closed));
    let resetting = Receiver::start(|connection| async move {
        connection.set_zero_linger().unwrap();
    })
    .await;
    assert_eq!(send(&sender(options()), &resetting.url()).await, failed(SendError::Closed));
    let gone = free_port();
    assert_eq!(
        send(&sender(options()), &format!("http://127.0.0.1:{gone}/")).await,
        failed(SendError::Refused)
    );
}

#[tokio::test]
async fn connections_are_used_again_and_one_that_was_closed_meanwhile_costs_nothing() {
    let receiver = Receiver::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let sender = sender(options());
    for _ in 0..5 {
        assert_eq!(send(&sender, &receiver.url()).await, SendVerdict::Delivered(200));
    }
    assert_eq!(receiver.n_connections(), 1);

    // Answers one request per connection, and says nothing of closing it.
    let receiver = Receiver::start(|mut connection| async move {
        read_request(&mut connection).await;
        let _ = connection.write_all(OK.as_bytes()).await;
    })
    .await;
    for n_sent in 1..=5 {
        assert_eq!(send(&sender, &receiver.url()).await, SendVerdict::Delivered(200));
        assert_eq!(receiver.n_connections(), n_sent);
    }
}

#[test]
fn what_is_told_of_trouble_names_nothing_of_ours() {
    for (error, text) in [
        (SendError::Forbidden(AddressRefused::Private), "the address must not lead to a private address"),
        (SendError::Redirect(302), "answered with status 302; redirects are not followed"),
        (SendError::Slow, "no answer in time"),
    ] {
        assert_eq!(error.to_string(), text);
    }
}
