//! Idle connections to receivers. Bounded in number and time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forgerun_core::time::Time;

use crate::http_client::HttpConnection;
use crate::limits::{WEBHOOK_IDLE, WEBHOOK_IDLE_MAX, WEBHOOK_IDLE_PER_RECEIVER_MAX};

#[derive(Default)]
pub(crate) struct ConnectionPool {
    idle: Mutex<IdleConnections>,
}

#[derive(Default)]
struct IdleConnections {
    /// By origin, the latest last.
    by_origin: HashMap<String, Vec<(HttpConnection, Time)>>,
    n_connections: usize,
}

impl ConnectionPool {
    /// A recent idle connection.
    pub(crate) fn take(&self, origin: &str, now: Time) -> Option<HttpConnection> {
        let mut idle = self.lock();
        let waiting = idle.by_origin.get_mut(origin)?;
        let mut n_gone = 0;
        let found = loop {
            let Some((connection, since)) = waiting.pop() else { break None };
            n_gone += 1;
            if now.since(since) < WEBHOOK_IDLE && connection.requests.is_ready() {
                break Some(connection);
            }
        };
        if waiting.is_empty() {
            idle.by_origin.remove(origin);
        }
        idle.n_connections -= n_gone;
        found
    }

    /// Keeps a connection for reuse, if there is room.
    pub(crate) fn put(&self, origin: String, connection: HttpConnection, now: Time) {
        let mut idle = self.lock();
        if idle.n_connections >= WEBHOOK_IDLE_MAX {
            idle.sweep(now);
        }
        if idle.n_connections >= WEBHOOK_IDLE_MAX {
            return;
        }
        let waiting = idle.by_origin.entry(origin).or_default();
        if waiting.len() < WEBHOOK_IDLE_PER_RECEIVER_MAX {
            waiting.push((connection, now));
            idle.n_connections += 1;
        }
    }

    pub(crate) fn clear(&self) {
        *self.lock() = IdleConnections::default();
    }

    fn lock(&self) -> MutexGuard<'_, IdleConnections> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdleConnections {
    fn sweep(&mut self, now: Time) {
        for waiting in self.by_origin.values_mut() {
            waiting.retain(|(connection, since)| {
                now.since(*since) < WEBHOOK_IDLE && !connection.requests.is_closed()
            });
        }
        self.by_origin.retain(|_, waiting| !waiting.is_empty());
        self.n_connections = self.by_origin.values().map(Vec::len).sum();
    }
}
