//! A bounded pool of connections to the server. A request waits for a free one, and that wait is
//! part of its latency.

use std::cell::RefCell;

use bytes::Bytes;
use forgerun_client::raw::{Connector, Stream};
use http::{HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::http::Answer;
use crate::limits::{ANSWER_BYTES_MAX, ANSWER_TIMEOUT};

#[derive(Debug)]
pub(crate) struct Broken;

pub(crate) struct Pool {
    connector: Connector,
    uri: Uri,
    pub(crate) host: HeaderValue,
    idle: RefCell<Vec<SendRequest<Full<Bytes>>>>,
    permits: Semaphore,
}

impl Pool {
    pub(crate) fn new(connector: Connector, uri: Uri, n_connections: usize) -> Pool {
        let host = uri.authority().map_or("", |authority| authority.as_str());
        Pool {
            connector,
            host: HeaderValue::from_str(host).unwrap_or(HeaderValue::from_static("localhost")),
            uri,
            idle: RefCell::default(),
            permits: Semaphore::new(n_connections),
        }
    }

    /// A connection outside of the pool.
    pub(crate) async fn stream(&self) -> Result<Stream, Broken> {
        self.connector.open(&self.uri).await.map_err(|_| Broken)
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Broken> {
        let (requests, connection) = http1::handshake(self.stream().await?).await.map_err(|_| Broken)?;
        // Connection errors are reported to the request.
        tokio::task::spawn_local(connection);
        Ok(requests)
    }

    /// Sends, and reads the whole answer.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Answer, Broken> {
        let _permit = self.permits.acquire().await.expect("the semaphore is never closed");
        timeout(ANSWER_TIMEOUT, self.exchange(request)).await.unwrap_or(Err(Broken))
    }

    async fn exchange(&self, mut request: Request<Full<Bytes>>) -> Result<Answer, Broken> {
        loop {
            let idle = self.idle.borrow_mut().pop();
            let is_new = idle.is_none();
            let mut requests = match idle {
                Some(requests) => requests,
                None => self.connect().await?,
            };
            if requests.ready().await.is_err() {
                // The server closed it meanwhile; nothing was sent.
                if is_new {
                    return Err(Broken);
                } else {
                    continue;
                };
            }
            match requests.try_send_request(request).await {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|_| Broken)?;
                    self.idle.borrow_mut().push(requests);
                    return Ok(Answer {
                        status: head.status.as_u16(),
                        headers: head.headers,
                        body: body.to_bytes(),
                    });
                }
                Err(mut error) => match error.take_message() {
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(Broken),
                },
            }
        }
    }
}
