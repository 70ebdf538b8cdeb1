//! What all lists of the operator have in common.

use serde::{Deserialize, Serialize};

/// A page of a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AdminPage<T> {
    /// What is listed.
    pub items: Vec<T>,
    /// Where to go on; null at the end. A page may be short, or empty, while there is more.
    pub next_cursor: Option<String>,
}
