//! Connects to a receiver: the name is resolved once, every address is checked, and one of these
//! very addresses is called. There is no second look-up that could give another answer.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::ServerName;

use super::guard;
use super::send_error::SendError;
use super::target::{Peer, Target, is_local_name};
use crate::config::PrivateTargets;
use crate::http_client::{self, HttpConnection};
use crate::limits::{WEBHOOK_ADDRESSES_TRIED_MAX, WEBHOOK_CONNECT_TIMEOUT, WEBHOOK_LOOKUPS_MAX};

/// The addresses of a name.
pub type Addresses<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Resolves names.
pub trait Resolve: Send + Sync + 'static {
    /// All addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> Addresses<'a>;
}

/// The system's resolver.
#[derive(Clone, Debug)]
pub struct SystemResolver {
    /// A look-up occupies a thread until the name servers have answered or given up, even if its
    /// caller is gone.
    threads: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        SystemResolver { threads: Arc::new(Semaphore::new(WEBHOOK_LOOKUPS_MAX)) }
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Addresses<'a> {
        Box::pin(async move {
            let turn = self.threads.clone().acquire_owned().await.map_err(io::Error::other)?;
            let name = name.to_owned();
            let lookup = spawn_blocking(move || {
                let _turn = turn;
                let addresses = (name.as_str(), 0).to_socket_addrs()?;
                Ok(addresses.map(|address| address.ip()).collect())
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}

pub(crate) struct Dialler {
    resolver: Arc<dyn Resolve>,
    private: PrivateTargets,
    roots: Option<RootCertStore>,
    /// Loading the system's certificates takes a while, and many servers never need them.
    tls: OnceLock<TlsConnector>,
}

impl Dialler {
    pub(crate) fn new(
        resolver: Arc<dyn Resolve>,
        private: PrivateTargets,
        roots: Option<RootCertStore>,
    ) -> Dialler {
        Dialler { resolver, private, roots, tls: OnceLock::new() }
    }

    pub(crate) async fn dial(&self, target: &Target) -> Result<HttpConnection, SendError> {
        let connect = async {
            let stream = self.connect(target).await?;
            // Requests and answers are small; waiting for more to send would only delay them.
            let _ = stream.set_nodelay(true);
            if !target.is_https() {
                return HttpConnection::open(stream).await.map_err(|_| SendError::Closed);
            }
            let name = server_name(target).ok_or(SendError::Certificate)?;
            let stream = self.tls().connect(name, stream).await.map_err(tls_trouble)?;
            HttpConnection::open(stream).await.map_err(|_| SendError::Closed)
        };
        timeout(WEBHOOK_CONNECT_TIMEOUT, connect).await.map_err(|_| SendError::Unreachable)?
    }

    async fn connect(&self, target: &Target) -> Result<TcpStream, SendError> {
        let addresses = self.addresses(target).await?;
        let n_tried = addresses.len().min(WEBHOOK_ADDRESSES_TRIED_MAX);
        // One address that swallows packets must not use up the whole timeout.
        let share = WEBHOOK_CONNECT_TIMEOUT / n_tried.max(1) as u32;
        let mut error = SendError::NoSuchName;
        for address in addresses.into_iter().take(n_tried) {
            let address = SocketAddr::new(address, target.port());
            error = match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => SendError::Refused,
                Ok(Err(_)) | Err(_) => SendError::Unreachable,
            };
        }
        Err(error)
    }

    /// The addresses to call. One bad address refuses them all: a name that leads both into our
    /// network and out of it is a trap.
    async fn addresses(&self, target: &Target) -> Result<Vec<IpAddr>, SendError> {
        let (addresses, private) = match target.peer() {
            // A literal address is not resolved, so it is checked here as well.
            Peer::Address(address) => (vec![address], self.private),
            Peer::Name(name) => {
                let found = self.resolver.resolve(&name).await.map_err(|_| SendError::NoSuchName)?;
                (found, self.private_by(&name))
            }
        };
        for address in &addresses {
            guard::judge(*address, private).map_err(SendError::Forbidden)?;
        }
        Ok(addresses)
    }

    /// Whether this name may lead to a private address.
    fn private_by(&self, name: &str) -> PrivateTargets {
        match self.private {
            PrivateTargets::Local if !is_local_name(name) => PrivateTargets::Deny,
            configured => configured,
        }
    }

    fn tls(&self) -> &TlsConnector {
        self.tls.get_or_init(|| http_client::tls_connector(self.roots.clone()))
    }
}

fn server_name(target: &Target) -> Option<ServerName<'static>> {
    match target.peer() {
        Peer::Address(address) => Some(ServerName::from(address)),
        Peer::Name(name) => ServerName::try_from(name.trim_end_matches('.').to_owned()).ok(),
    }
}

fn tls_trouble(error: io::Error) -> SendError {
    if http_client::is_untrusted(&error) { SendError::Certificate } else { SendError::Insecure }
}
