//! An S3 server for tests that is not ours (s3s-fs), in the test's own process, on a port of its own, with its data in a temporary folder.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::objects::{S3, S3Options};

const BUCKET: &str = "results";
const KEY_ID: &str = "AKFORGERUNTESTS";
const KEY_SECRET: &str = "a-secret-that-everybody-may-know";

/// A server with one bucket.
pub struct S3Server {
    /// Its own threads, so that it answers whatever the test waits for. `None` only while it is dropped.
    runtime: Option<Runtime>,
    address: SocketAddr,
    is_away: watch::Sender<bool>,
    folder: TempDir,
}

impl S3Server {
    /// Starts a server.
    pub fn start() -> S3Server {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        std::fs::create_dir(folder.path().join(BUCKET)).expect("a folder can be made in it");
        let files = FileSystem::new(folder.path()).expect("the folder is there");
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(SimpleAuth::from_single(KEY_ID, KEY_SECRET));
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("some port is free");
        let address = listener.local_addr().expect("it is bound");
        listener.set_nonblocking(true).expect("a socket can do that");
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime can be built");
        let (is_away, away) = watch::channel(false);
        runtime.spawn(serve(listener, service.build(), away));
        S3Server { runtime: Some(runtime), address, is_away, folder }
    }

    /// The server is away: connections break, and new ones do at once. It keeps its port, so that nobody else can take it.
    pub fn go_away(&self) {
        self.is_away.send_replace(true);
    }

    /// It is back, with the same data.
    pub fn come_back(&self) {
        self.is_away.send_replace(false);
    }

    /// What a store must know of it.
    pub fn options(&self) -> S3Options {
        S3Options {
            bucket: BUCKET.into(),
            prefix: "forge/run".into(),
            endpoint: Some(self.endpoint()),
            region: Some("us-east-1".into()),
            key: Some((KEY_ID.into(), KEY_SECRET.into())),
        }
    }

    /// The objects, as a store uses them.
    pub fn objects(&self) -> Arc<S3> {
        Arc::new(S3::new(self.options()).expect("the options are right"))
    }

    /// Its address as a URL.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every file that holds an object, or a part of one that is not complete.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        gather(self.folder.path(), &mut found);
        found.sort();
        found
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(
    listener: std::net::TcpListener,
    service: S3Service,
    away: watch::Receiver<bool>,
) -> Infallible {
    let listener = TcpListener::from_std(listener).expect("it does not block");
    loop {
        let Ok((connection, _)) = listener.accept().await else { continue };
        let connection = http1::Builder::new().serve_connection(TokioIo::new(connection), service.clone());
        let mut away = away.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = away.wait_for(|is_away| *is_away) => {}
                // A connection that breaks is the client's business.
                _ = connection => {}
            }
        });
    }
}

/// The data are here, with what the server notes about them in files of its own, which end in `.json`.
fn gather(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        match path.is_dir() {
            true => gather(&path, found),
            false if path.extension().is_some_and(|end| end == "json") => {}
            false => found.push(path),
        }
    }
}
