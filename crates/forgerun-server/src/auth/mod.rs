//! Who asks, and what belongs to them: API keys, operator sessions, ownership.

mod api_key_cache;
pub(crate) mod api_keys;
pub(crate) mod caller;
mod job_tokens;
pub(crate) mod oidc;
pub(crate) mod operator;
pub(crate) mod ownership;
pub(crate) mod sessions;

pub use api_key_cache::ApiKeyCache;
pub use caller::{Caller, Who};
pub(crate) use job_tokens::{JobTokens, TOKEN_PARAMETER};
pub use operator::{Operator, OperatorRole};
pub use sessions::Sessions;
