//! Connections without a client on top: TCP, with TLS where the address says https. For programs that send what no client would,
//! and take any answer as it is.

pub use crate::transport::{Connector, Stream};
