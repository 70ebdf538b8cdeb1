//! A wire between two programs that can be cut, slow, or losing: it carries the bytes of TCP connections from its own address to another.
//!
//! What TCP makes of bad networks is what is played here: while a wire is cut nothing arrives, and connections stay; what was under way arrives when it
//! is whole again. A lost packet is one that comes later, with all behind it, because it is sent a second time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use forge_core::time::Time;
use forge_engine::{Clock, SystemClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

/// How a wire is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Nothing gets through.
    pub(crate) is_cut: bool,
    /// How long everything takes, one way.
    pub(crate) delay: Duration,
    /// One packet in so many is lost; 0 for none.
    pub(crate) loses_one_in: u32,
}

/// When a packet that was lost is sent again.
const SENT_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Pieces that are under way in one direction.
const UNDER_WAY_MAX: usize = 1024;

/// A wire. It ends with the runtime that it was made on.
pub(crate) struct Wire {
    /// Where it begins.
    pub(crate) address: SocketAddr,
    condition: Arc<watch::Sender<Condition>>,
}

impl Wire {
    /// A wire to this address.
    pub(crate) fn to(target: SocketAddr, runtime: &Handle) -> Wire {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let condition = Arc::new(watch::Sender::new(Condition::default()));
        let known = condition.clone();
        runtime.spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let condition = known.subscribe();
                tokio::spawn(async move {
                    // Whoever cannot be reached hangs up, as the other end would see it.
                    if let Ok(far) = TcpStream::connect(target).await {
                        join(near, far, condition);
                    }
                });
            }
        });
        Wire { address, condition }
    }

    pub(crate) fn set(&self, condition: Condition) {
        self.condition.send_replace(condition);
    }
}

fn join(near: TcpStream, far: TcpStream, condition: watch::Receiver<Condition>) {
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    for (from, to) in [(near_in, far_out), (far_in, near_out)] {
        let (sent, arriving) = mpsc::channel(UNDER_WAY_MAX);
        tokio::spawn(send(from, sent, condition.clone()));
        tokio::spawn(arrive(arriving, to, condition.clone()));
    }
}

/// Reads, and says when each piece arrives at the earliest.
async fn send(
    mut from: OwnedReadHalf,
    sent: mpsc::Sender<(Time, Vec<u8>)>,
    condition: watch::Receiver<Condition>,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(n_bytes @ 1..) = from.read(&mut buffer).await {
        let Condition { delay, loses_one_in, .. } = *condition.borrow();
        let is_lost = loses_one_in > 0 && (SystemClock.random() as u32).is_multiple_of(loses_one_in);
        let late = if is_lost { SENT_AGAIN_AFTER } else { Duration::ZERO };
        if sent.send((SystemClock.now() + delay + late, buffer[..n_bytes].to_vec())).await.is_err() {
            return;
        }
    }
}

/// Writes each piece at its time, in order.
async fn arrive(
    mut arriving: mpsc::Receiver<(Time, Vec<u8>)>,
    mut to: OwnedWriteHalf,
    mut condition: watch::Receiver<Condition>,
) {
    while let Some((at, bytes)) = arriving.recv().await {
        SystemClock.sleep(at.since(SystemClock.now())).await;
        let is_whole = condition.wait_for(|condition| !condition.is_cut).await.is_ok();
        if !is_whole || to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
