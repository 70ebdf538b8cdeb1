//! `ojs.v1.OJSService` over gRPC: with clients of others (`others.rs`) for every call and status,
//! and with a client of ours where the test must see or move what is inside.

mod channel;
mod entry;
mod hostile;
mod listener;
mod others;
mod streams;
mod taking;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;

use forgerun_server::Bounds;
use forgerun_server::connections::{self, ConnectionTerms, TlsFiles, TlsIdentity};
use forgerun_server::dialects::grpc::GrpcService;
use forgerun_store::Store;
use forgerun_store::memory::Memory;
use forgerun_wire::grpc::v1::ojs_service_client::OjsServiceClient;
use forgerun_wire::grpc::{LEASE_TOKEN, LEASE_TOKEN_MEMBER, v1};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::metadata::AsciiMetadataValue;
use tonic::{Request, Status};

use self::channel::Channel;
use crate::api::server::{Client, Server};

/// A server that listens for both protocols, and a client of it.
struct World {
    server: Server,
    client: Client,
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl World {
    async fn start() -> World {
        World::with(&[]).await
    }

    async fn with(settings: &[(&str, &str)]) -> World {
        World::on(Arc::new(Memory::new()), settings, Bounds::default()).await
    }

    async fn on(store: Arc<dyn Store>, settings: &[(&str, &str)], bounds: Bounds) -> World {
        let settings = [settings, &[("grpc.addr", "127.0.0.1:0")]].concat();
        let server = Server::on(store, &settings, bounds).await;
        World::listening(server, None).await
    }

    async fn listening(server: Server, tls: Option<TlsIdentity>) -> World {
        let client = server.client().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = GrpcService::new(server.app.clone());
        let terms = ConnectionTerms::new(&server.app.config.limits);
        let app = server.app.clone();
        let stopping = async move { app.stopping().await };
        let serving = tokio::spawn(connections::serve_grpc(listener, service, terms, tls, stopping));
        World { server, client, address, serving }
    }

    async fn ojs(&self) -> OjsServiceClient<Channel> {
        OjsServiceClient::new(Channel::connect(self.address).await)
    }

    /// A message with the key of the client.
    fn request<T>(&self, message: T) -> Request<T> {
        with_key(&self.client, message)
    }

    async fn push(&self, queue: &str) -> v1::Job {
        let options = Some(v1::EnqueueOptions { queue: queue.into(), ..Default::default() });
        let request = v1::EnqueueRequest { r#type: "test.echo".into(), args: vec![], options };
        let answer = self.ojs().await.enqueue(self.request(request)).await.unwrap();
        answer.into_inner().job.unwrap()
    }

    async fn job(&self, id: &str) -> v1::Job {
        let request = self.request(v1::GetJobRequest { job_id: id.into() });
        self.ojs().await.get_job(request).await.unwrap().into_inner().job.unwrap()
    }

    async fn ack(&self, job: &v1::Job) -> Result<(), Status> {
        let mut request = self.request(v1::AckRequest { job_id: job.id.clone(), result: None });
        request.metadata_mut().insert(LEASE_TOKEN, token(job).parse().unwrap());
        self.ojs().await.ack(request).await.map(drop)
    }
}

fn with_key<T>(client: &Client, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let bearer: AsciiMetadataValue = format!("Bearer {}", client.key).parse().unwrap();
    request.metadata_mut().insert("authorization", bearer);
    request
}

/// The proof that came with a job.
fn token(job: &v1::Job) -> String {
    let meta = job.meta.as_ref().expect("every job has metadata");
    match &meta.fields[LEASE_TOKEN_MEMBER].kind {
        Some(prost_types::value::Kind::StringValue(token)) => token.clone(),
        other => panic!("{other:?}"),
    }
}
