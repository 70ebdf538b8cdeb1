//! Receivers of every temper, and a sender to try them with.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use forgerun_engine::{Clock, SystemClock};
use forgerun_server::config::PrivateTargets;
use forgerun_server::webhooks::keys::Signer;
use forgerun_server::webhooks::{
    Addresses, Contents, DeliveryRequest, Resolve, SendVerdict, Sender, SenderOptions, Target,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Somebody who listens.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    n_connections: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Receiver {
    /// Does with each connection what it is told.
    pub(crate) async fn start<Done>(behave: impl Fn(TcpStream) -> Done + Send + 'static) -> Receiver
    where
        Done: Future<Output = ()> + Send + 'static,
    {
        Receiver::start_at(Ipv4Addr::LOCALHOST.into(), behave).await
    }

    /// The same, and it listens on this address.
    pub(crate) async fn start_at<Done>(
        host: IpAddr,
        behave: impl Fn(TcpStream) -> Done + Send + 'static,
    ) -> Receiver
    where
        Done: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let n_connections = Arc::new(AtomicUsize::new(0));
        let counter = n_connections.clone();
        let serving = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(behave(connection));
            }
        });
        Receiver { address, n_connections, serving }
    }

    /// Answers every request with these bytes, on the same connection as long as it lasts.
    pub(super) async fn answering(answer: &'static str) -> Receiver {
        Receiver::start(move |mut connection| async move {
            while read_request(&mut connection).await.is_some() {
                if connection.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        })
        .await
    }

    pub(super) fn n_connections(&self) -> usize {
        self.n_connections.load(Ordering::SeqCst)
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// One request with its body; `None` once the connection is closed.
pub(crate) async fn read_request(connection: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            let length: usize = length.parse().unwrap();
            let mut body = bytes.split_off(at + 4);
            while body.len() < length {
                if connection.read_buf(&mut body).await.ok()? == 0 {
                    return None;
                }
            }
            return Some((head, body));
        }
        if connection.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// A directory of names that says what the test wants, a new thing each time it is asked.
#[derive(Default)]
pub(super) struct Names {
    answers: Mutex<Vec<Vec<IpAddr>>>,
    n_asked: AtomicUsize,
}

impl Names {
    pub(super) fn new(answers: &[&[&str]]) -> Arc<Names> {
        let answers =
            answers.iter().rev().map(|names| names.iter().map(|name| name.parse().unwrap()).collect());
        Arc::new(Names { answers: Mutex::new(answers.collect()), n_asked: AtomicUsize::new(0) })
    }

    pub(super) fn n_asked(&self) -> usize {
        self.n_asked.load(Ordering::SeqCst)
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, _: &'a str) -> Addresses<'a> {
        self.n_asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers.lock().unwrap().pop();
        Box::pin(async move { answer.ok_or_else(|| std::io::Error::other("no such name")) })
    }
}

/// A sender that calls loopback, and waits as long as a slow machine may need.
pub(super) fn options() -> SenderOptions {
    SenderOptions::new(Duration::from_secs(60), PrivateTargets::Allow)
}

/// The same with little patience, for receivers that are too slow.
pub(super) fn hasty() -> SenderOptions {
    SenderOptions::new(Duration::from_millis(400), PrivateTargets::Allow)
}

pub(super) fn sender(options: SenderOptions) -> Sender {
    Sender::new(options, Arc::new(SystemClock))
}

pub(super) fn delivery_request(url: &str, body: impl Into<Bytes>) -> DeliveryRequest {
    DeliveryRequest {
        target: Target::parse(url, PrivateTargets::Allow).unwrap(),
        contents: Contents {
            id: "01890a5d-ac96-774b-bcce-b302099a8057".into(),
            event: "job_failed",
            content_type: "application/problem+json",
            body: body.into(),
            envelope: Vec::new(),
        },
        attempt: 1,
        secrets: Vec::new(),
        traceparent: None,
    }
}

/// Sends one letter.
pub(super) async fn send(sender: &Sender, url: &str) -> SendVerdict {
    let delivery_request = delivery_request(url, r#"{"status":500}"#);
    let request = delivery_request.request(SystemClock.now(), Some(&Signer::from_seed(&[7; 32]).unwrap()));
    sender.send(&delivery_request.target, request).await
}
