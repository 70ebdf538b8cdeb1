//! Events of jobs for clients: pages of them, and streams (SSE).

pub(crate) mod journal_page;
pub(crate) mod page;
pub(crate) mod sse;
