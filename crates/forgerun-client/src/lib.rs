#![doc = include_str!("../README.md")]
//!
//! # Map
//!
//! | you want to | look at |
//! |---|---|
//! | make a client | [`Client::builder`] |
//! | submit, look, wait, cancel on ForgeRun's `/v1` | [`Forge`] |
//! | do the same with any server of the async-operations pattern | [`Operations`] |
//! | submit on Open Job Spec's `/ojs/v1`, look at queues | [`Ojs`] |
//! | do the work of jobs | [`Worker`], [`worker`] |
//! | follow events | [`EventStream`] |
//! | fetch a result | [`Download`] |
//! | decide by an error | [`Error`], [`ApiError`], [`Category`] |
//! | read an error that came by gRPC or AMQP | [`codes`] |
//! | speak HTTP yourself over the client's connections | [`raw`] |
//! | say how often a request is repeated | [`RetryPolicy`], [`Schedule`] |

#![warn(missing_docs)]

pub mod admin;
mod client;
mod clock;
pub mod codes;
mod download;
mod error;
pub mod forge;
#[cfg(feature = "grpc")]
mod grpc;
pub mod limits;
pub mod ojs;
pub mod operations;
mod path;
pub mod raw;
mod reference;
mod retry;
mod stream;
mod transport;
#[cfg(test)]
mod vectors;
mod wait;
pub mod worker;

pub use admin::Admin;
pub use client::{Builder, Client};
pub use clock::{Clock, SystemClock};
pub use codes::Category;
pub use download::{Download, Head};
pub use error::{ApiError, Error, Unreachable};
pub use forge::Forge;
pub use forgerun_problem::advice::Policy as ResubmissionPolicy;
pub use forgerun_problem::polling::Schedule;
pub use ojs::Ojs;
pub use operations::Operations;
pub use retry::RetryPolicy;
pub use stream::{Event, EventStream};
pub use worker::Worker;
