//! What goes out to receivers, over real sockets.

mod commands;
mod faults;
mod receiver;
mod samples;
mod tls;
