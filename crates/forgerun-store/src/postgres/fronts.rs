//! The fronts of shelves that were just read: many poll jobs of one queue, and each wants to know its place.
//!
//! A commit of this node forgets them all, so that here a place is exact. What other nodes have taken or added meanwhile is missed for
//! at most [`AGE_MAX`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forgerun_core::job::Shelf;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::front::ShelfFront;

/// How long a front is told after it was read.
const AGE_MAX: Duration = Duration::from_millis(100);

/// Shelves whose front is kept, at some kilobytes each. When there are more, it starts over.
const FRONTS_MAX: usize = 256;

/// Fronts that were just read, or are being read.
#[derive(Default)]
pub(super) struct FrontCache(Mutex<HashMap<Shelf, RecentFront>>);

struct RecentFront {
    asked_at: Instant,
    depth: usize,
    /// Filled by the first who asks; the others wait for it.
    front: Arc<OnceCell<ShelfFront>>,
}

impl FrontCache {
    /// The front of a shelf, so deep, to be filled where nobody has yet.
    #[expect(clippy::disallowed_methods, reason = "how long a copy is kept decides no rule")]
    pub(super) fn of(&self, shelf: &Shelf, depth: usize) -> Arc<OnceCell<ShelfFront>> {
        let now = Instant::now();
        let mut fronts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = fronts.get(shelf).filter(|recent| recent.depth == depth);
        if let Some(recent) = recent.filter(|recent| now.duration_since(recent.asked_at) < AGE_MAX) {
            return recent.front.clone();
        }
        if fronts.len() >= FRONTS_MAX {
            fronts.clear();
        }
        let front = Arc::new(OnceCell::new());
        fronts.insert(shelf.clone(), RecentFront { asked_at: now, depth, front: front.clone() });
        front
    }

    /// Something was committed here: whoever asks from now on reads anew.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
