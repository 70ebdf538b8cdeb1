//! `forgerun-client` against this server. Against others it is tested in its own crate.

mod failures;
mod journeys;
mod readme;
mod tls;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use forgerun_client::{Client, Clock, SystemClock};

use crate::api::server::Server;

/// A clock whose waits are a hundredth of what is asked for: the server's jobs take real time.
struct Brisk;

impl Clock for Brisk {
    fn now(&self) -> SystemTime {
        SystemClock.now()
    }

    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        SystemClock.sleep(span / 100)
    }

    fn random(&self) -> u128 {
        SystemClock.random()
    }
}

/// A server with quick work, and a client of it.
async fn pair(settings: &[(&str, &str)]) -> (Server, Client) {
    let mut all = vec![("sim.time_scale", "0.01")];
    all.extend_from_slice(settings);
    let server = Server::with(&all).await;
    let owner = server.client().await;
    let client = Client::builder(format!("http://{}", server.address)).key(owner.key).clock(Arc::new(Brisk));
    let client = client.build().unwrap();
    (server, client)
}
