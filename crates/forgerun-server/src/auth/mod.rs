//! Who asks, and what belongs to them: API keys, operator sessions, ownership.

mod api_key_cache;
pub(crate) mod api_keys;
pub(crate) mod caller;
pub(crate) mod ownership;
pub(crate) mod sessions;

pub use api_key_cache::ApiKeyCache;
pub use caller::{Caller, Who};
pub use sessions::Sessions;
