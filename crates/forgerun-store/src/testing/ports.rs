//! Ports for servers that cannot find one by themselves: PostgreSQL, brokers, what the pages of the documentation start.
//!
//! The system hands out ports from 32768 on to whoever asks for any, so that one of these could be taken between the choice and
//! the start of the server. Ports below are handed out to nobody; within this process each is given away once.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 15_000;
const N_PORTS: u16 = 17_000;

/// Ports that nobody uses, all different.
pub fn free_ports<const N: usize>() -> [u16; N] {
    [(); N].map(|()| free_port())
}

/// A port that nobody uses.
pub fn free_port() -> u16 {
    static N_DRAWN: AtomicU16 = AtomicU16::new(0);
    // Processes that test at the same time begin at different places.
    let start = (std::process::id() % 170) as u16 * 100;
    let draw = || FIRST + (start + N_DRAWN.fetch_add(1, Ordering::Relaxed)) % N_PORTS;
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    (0..N_PORTS).map(|_| draw()).find(is_free).expect("some port is free")
}
