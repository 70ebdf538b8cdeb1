//! The dialects of the server. A dialect only translates: it has no rules and no state, and does
//! not use other dialects. gRPC is `/ojs/v1` in another protocol, so it calls that one's functions;
//! the dashboard shows `/admin/v1`, so it calls those; signals have pages in its frame.

pub mod admin;
pub mod dashboard;
pub mod forge;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod ojs;
pub mod operations;
pub mod signals;

use crate::http::routing::{Api, Callers};

/// Of two APIs that cover a path the first one answers.
pub static ALL: [&dyn Api; 6] = [
    &signals::Signals,
    &forge::Forge,
    &operations::Operations,
    &ojs::Ojs,
    &admin::Admin,
    &dashboard::Dashboard,
];

/// Method and path of every route that is for operators alone.
pub fn routes_of_operators() -> impl Iterator<Item = (&'static str, &'static str)> {
    let routes = ALL.iter().flat_map(|api| api.routes().iter().copied().flatten());
    let of_operators = routes.filter(|route| route.access.callers() == Callers::Operator);
    of_operators.map(|route| (route.verb.word(), route.path))
}
