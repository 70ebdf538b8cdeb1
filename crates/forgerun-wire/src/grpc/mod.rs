//! Open Job Spec over gRPC. The messages say the same as the bodies of `/ojs/v1`, and mean the same: a request is written as the body
//! that it would be there, and read as such a body is; an answer is made of the same views.
//!
//! | file | what it has |
//! |---|---|
//! | `request.rs` | from a message to a body of `/ojs/v1` |
//! | `job.rs`, `event.rs` | from a job, or what happened to it, to a message |
//! | `error.rs` | the status of a refusal, and its details; how a client reads them |
//! | `json.rs`, `moment.rs` | values and times, both ways |
//!
//! The code in `generated/` is what the files in `proto/` give; a test holds one against the other.

pub mod error;
pub mod event;
pub mod job;
pub mod json;
pub mod moment;
pub mod request;
pub mod workflow;

/// The package `ojs.v1`: messages, client and server.
#[allow(unreachable_pub, clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
pub mod v1 {
    include!("../../generated/ojs.v1.rs");
}

/// The package `forgerun.v1`.
#[allow(unreachable_pub, clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
pub mod forgerun_v1 {
    include!("../../generated/forgerun.v1.rs");
}

/// The package `grpc.health.v1`.
#[allow(unreachable_pub, clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
pub mod health {
    include!("../../generated/grpc.health.v1.rs");
}

/// What the services look like, for clients that ask: a `google.protobuf.FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!("../../generated/descriptors.bin");

/// Where `Job.meta` carries what the steps left that a step of a workflow waited for.
pub const PARENT_RESULTS_MEMBER: &str = "forgerun.parent_results";

/// The member of `meta` that has the names of these steps, in the same order.
pub const PARENT_STEPS_MEMBER: &str = "forgerun.parent_steps";

/// Where a job that was just handed out has its lease token: a member of `meta`.
pub const LEASE_TOKEN_MEMBER: &str = "forgerun.lease_token";

/// The member of `meta` that says that the arguments are a list around a payload that was none.
pub const ARGS_WRAPPED_MEMBER: &str = "forgerun.args_wrapped";

/// The metadata in which a worker gives the token back.
pub const LEASE_TOKEN: &str = "x-forgerun-lease-token";

/// The event that says that a stream is alive.
pub const KEEPALIVE: &str = "stream.keepalive";
