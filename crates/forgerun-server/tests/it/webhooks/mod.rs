//! What goes out to receivers, over real sockets.

mod commands;
mod faults;
mod kinds;
mod published;
pub(crate) mod receiver;
mod registered;
mod samples;
mod story;
mod subscribed;
pub(crate) mod tls;
