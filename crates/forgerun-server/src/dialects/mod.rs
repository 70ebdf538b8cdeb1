//! The languages the server speaks. A dialect is a translator: it owns no rule and no state, and
//! knows no other dialect. gRPC says the same as `/ojs/v1` in another protocol, so it asks that
//! one's functions; the dashboard shows what `/admin/v1` says, so it asks those.

pub mod admin;
pub mod dashboard;
pub mod forge;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod ojs;
pub mod operations;

use crate::edge::routing::Api;

pub static ALL: [&dyn Api; 5] =
    [&forge::Forge, &operations::Operations, &ojs::Ojs, &admin::Admin, &dashboard::Dashboard];
