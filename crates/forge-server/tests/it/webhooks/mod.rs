//! What goes out to receivers, over real sockets.

mod commands;
mod faults;
mod kinds;
mod published;
mod receiver;
mod registered;
mod samples;
mod story;
pub(crate) mod tls;
