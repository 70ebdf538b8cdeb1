//! A wire between two programs that can be cut, slow, or losing: it carries the bytes of TCP
//! connections from its own address to another.
//!
//! What TCP makes of bad networks is what is played here: while a wire is cut nothing arrives, and
//! connections stay; what was under way arrives when it is whole again. A lost packet is one that
//! comes later, with all behind it, because it is sent a second time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use forgerun_core::time::Time;
use forgerun_engine::{Clock, SystemClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

/// How a wire is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Condition {
    /// Nothing gets through.
    pub(super) is_cut: bool,
    /// How long everything takes, one way.
    pub(super) delay: Duration,
    /// Of a hundred pieces so many are lost.
    pub(super) lost_percent: u32,
}

/// When a packet that was lost is sent again.
const SENT_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Pieces that are under way in one direction.
const UNDER_WAY_MAX: usize = 1024;

/// A wire. Dropped, it hangs up.
pub(super) struct Wire {
    /// Where it begins.
    pub(super) address: SocketAddr,
    condition: watch::Sender<Condition>,
}

impl Wire {
    /// A wire to this address that begins on loopback.
    pub(super) fn to(target: SocketAddr, runtime: &Handle) -> Wire {
        Wire::at(Ipv4Addr::LOCALHOST.into(), target, runtime)
    }

    /// The same, and it begins on this address.
    pub(super) fn at(begin: IpAddr, target: SocketAddr, runtime: &Handle) -> Wire {
        let listener = runtime.block_on(TcpListener::bind((begin, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let (condition, known) = watch::channel(Condition::default());
        runtime.spawn(async move {
            loop {
                let near = tokio::select! {
                    () = dropped(known.clone()) => return,
                    accepted = listener.accept() => accepted.unwrap().0,
                };
                let condition = known.clone();
                tokio::spawn(async move {
                    // Whoever cannot be reached hangs up, as the other end would see it.
                    if let Ok(far) = TcpStream::connect(target).await {
                        carry(near, far, condition).await;
                    }
                });
            }
        });
        Wire { address, condition }
    }

    pub(super) fn set(&self, condition: Condition) {
        self.condition.send_replace(condition);
    }
}

/// Waits for the end of the wire.
async fn dropped(mut condition: watch::Receiver<Condition>) {
    while condition.changed().await.is_ok() {}
}

/// Carries the bytes of a connection, both ways.
async fn carry(near: TcpStream, far: TcpStream, condition: watch::Receiver<Condition>) {
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    let one_way = |from, to| {
        let (sent, arriving) = mpsc::channel(UNDER_WAY_MAX);
        let sending = send(from, sent, condition.clone());
        let arriving = arrive(arriving, to, condition.clone());
        async { tokio::join!(sending, arriving) }
    };
    tokio::select! {
        _ = async { tokio::join!(one_way(near_in, far_out), one_way(far_in, near_out)) } => {}
        () = dropped(condition.clone()) => {}
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
        let Condition { delay, lost_percent, .. } = *condition.borrow();
        let is_lost = SystemClock.random() % 100 < lost_percent.into();
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
