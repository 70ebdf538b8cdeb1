//! The languages the server speaks. A dialect is a translator: it owns no rule and no state, and knows no other dialect.

pub mod forge;
pub mod ojs;
pub mod operations;

use crate::edge::routing::Api;

/// All of them.
pub static ALL: [&dyn Api; 3] = [&forge::Forge, &operations::Operations, &ojs::Ojs];
