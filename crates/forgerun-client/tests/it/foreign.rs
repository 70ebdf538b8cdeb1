//! A server of the test's own making, and a clock that never makes anybody wait.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forgerun_client::{Builder, Client, Clock};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// What the server does with a request.
pub(crate) enum Reply {
    /// Sends this, as it is.
    Raw(Vec<u8>),
    /// Sends this and breaks the connection.
    ThenBreak(Vec<u8>),
}

impl Reply {
    pub(crate) fn json(status: u16, headers: &[(&str, &str)], body: Value) -> Reply {
        let mut all = vec![("content-type", "application/json")];
        all.extend_from_slice(headers);
        Reply::new(status, &all, body.to_string().as_bytes())
    }

    pub(crate) fn new(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        Reply::Raw(message(status, headers, body.len(), body))
    }

    /// Announces `size` bytes, sends these, and breaks off.
    pub(crate) fn cut(status: u16, headers: &[(&str, &str)], size: usize, body: &[u8]) -> Reply {
        Reply::ThenBreak(message(status, headers, size, body))
    }

    /// Breaks off without a word.
    pub(crate) fn nothing() -> Reply {
        Reply::ThenBreak(Vec::new())
    }
}

fn message(status: u16, headers: &[(&str, &str)], size: usize, body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} X\r\ncontent-length: {size}\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// A running server.
pub(crate) struct Foreign {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    connections_max: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Foreign {
    /// `answer` is told the request and how many came before it.
    pub(crate) async fn start(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Foreign {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let connections_max = Arc::new(AtomicUsize::new(0));
        let open = Arc::new(AtomicUsize::new(0));
        let answer = Arc::new(answer);
        let (seen, most) = (requests.clone(), connections_max.clone());
        let serving = tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                let n_open = open.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(n_open, Ordering::SeqCst);
                let (answer, seen, open) = (answer.clone(), seen.clone(), open.clone());
                tokio::spawn(async move {
                    serve(connection, &*answer, &seen).await;
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Foreign { address, requests, connections_max, serving }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The most connections that were open at once.
    pub(crate) fn connections_max(&self) -> usize {
        self.connections_max.load(Ordering::SeqCst)
    }

    pub(crate) fn builder(&self) -> Builder {
        Client::builder(format!("http://{}", self.address))
    }

    pub(crate) fn client(&self, clock: &Arc<Hurried>) -> Client {
        self.builder().clock(clock.clone()).build().unwrap()
    }
}

async fn serve(
    mut connection: TcpStream,
    answer: &(dyn Fn(&Request, usize) -> Reply + Send + Sync),
    seen: &Mutex<Vec<Request>>,
) {
    let mut buffer = Vec::new();
    while let Some(request) = read(&mut connection, &mut buffer).await {
        let n_before = {
            let mut seen = seen.lock().unwrap();
            seen.push(request.clone());
            seen.len() - 1
        };
        match answer(&request, n_before) {
            Reply::Raw(bytes) => {
                if connection.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Reply::ThenBreak(bytes) => {
                let _ = connection.write_all(&bytes).await;
                return;
            }
        }
    }
}

async fn read(connection: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Request> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
            let mut lines = head.split("\r\n");
            let mut first = lines.next()?.split(' ').map(str::to_owned);
            let (method, path) = (first.next()?, first.next()?);
            let header = |line: &str| {
                let (name, value) = line.split_once(':').unwrap();
                (name.to_ascii_lowercase(), value.trim().to_owned())
            };
            let mut request =
                Request { method, path, headers: lines.map(header).collect(), body: Vec::new() };
            let length = request.header("content-length").map_or(0, |text| text.parse().unwrap());
            while buffer.len() < end + 4 + length {
                more(connection, buffer).await?;
            }
            request.body = buffer[end + 4..end + 4 + length].to_vec();
            buffer.drain(..end + 4 + length);
            return Some(request);
        }
        more(connection, buffer).await?;
    }
}

async fn more(connection: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    match connection.read_buf(buffer).await {
        Ok(n) if n > 0 => Some(()),
        Ok(_) | Err(_) => None,
    }
}

/// A clock that notes how long it was asked to wait, and lets that time pass at once.
pub(crate) struct Hurried {
    waits: Mutex<Vec<Duration>>,
    passed_ms: AtomicU64,
    drawn: AtomicU64,
}

impl Hurried {
    pub(crate) fn new() -> Arc<Hurried> {
        Arc::new(Hurried { waits: Mutex::default(), passed_ms: AtomicU64::new(0), drawn: AtomicU64::new(0) })
    }

    /// In whole seconds.
    pub(crate) fn waits_s(&self) -> Vec<u64> {
        self.waits.lock().unwrap().iter().map(Duration::as_secs).collect()
    }

    pub(crate) fn waits_ms(&self) -> Vec<u128> {
        self.waits.lock().unwrap().iter().map(Duration::as_millis).collect()
    }
}

impl Clock for Hurried {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(1_800_000_000_000 + self.passed_ms.load(Ordering::SeqCst))
    }

    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.waits.lock().unwrap().push(span);
        self.passed_ms.fetch_add(span.as_millis() as u64, Ordering::SeqCst);
        Box::pin(tokio::task::yield_now())
    }

    /// Small numbers: no jitter, and no key twice.
    fn random(&self) -> u128 {
        self.drawn.fetch_add(1, Ordering::SeqCst).into()
    }
}
