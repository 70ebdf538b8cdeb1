//! A webhook receiver in this process. Notes when each event arrived first.

use std::cell::RefCell;
use std::collections::HashSet;
use std::convert::Infallible;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::spawn_local;

use super::history::Event;
use super::world::World;
use crate::limits::ANSWER_BYTES_MAX;

/// Events that have arrived.
#[derive(Default)]
pub(super) struct Arrivals(RefCell<HashSet<String>>);

impl Arrivals {
    pub(super) fn has(&self, event: &str) -> bool {
        self.0.borrow().contains(event)
    }
}

/// Listens on a free local port, and returns the URL for the webhook.
pub(super) async fn listen(world: Rc<World>) -> io::Result<(String, Rc<Arrivals>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/events", listener.local_addr()?);
    let arrivals = Rc::new(Arrivals::default());
    let seen = arrivals.clone();
    spawn_local(async move {
        // Ends with the run.
        while let Ok((stream, _)) = listener.accept().await {
            let (world, seen) = (world.clone(), seen.clone());
            let service = service_fn(move |request| {
                let (world, seen) = (world.clone(), seen.clone());
                async move { Ok::<_, Infallible>(receive(&world, &seen, request).await) }
            });
            spawn_local(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok((url, arrivals))
}

async fn receive(world: &World, seen: &Arrivals, request: Request<Incoming>) -> Response<Empty<Bytes>> {
    let (head, body) = request.into_parts();
    let text = |name: &str| {
        head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let mut response = Response::new(Empty::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    if Limited::new(body, ANSWER_BYTES_MAX).collect().await.is_err() {
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return response;
    }
    let (job, id) = (text("ce-subject"), text("ce-id"));
    if seen.0.borrow_mut().insert(id.clone()) {
        world.n_deliveries.set(world.n_deliveries.get() + 1);
        world.history.add(Event::Delivery { job, id, at_ms: world.history.ms() });
    }
    response
}
