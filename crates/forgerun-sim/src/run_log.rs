//! The log of a run, and its first violation.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use forgerun_core::time::Time;
use forgerun_engine::Clock;

use crate::world::World;

/// Lines kept of a log: the end is what matters.
const LINES_MAX: usize = 2000;

#[derive(Clone)]
pub(crate) struct RunLog {
    world: Arc<World>,
    inner: Arc<Mutex<LogState>>,
}

#[derive(Default)]
struct LogState {
    lines: VecDeque<(Time, String)>,
    broken: Option<String>,
}

impl RunLog {
    pub(crate) fn new(world: Arc<World>) -> RunLog {
        RunLog { world, inner: Arc::default() }
    }

    fn inner(&self) -> MutexGuard<'_, LogState> {
        self.inner.lock().expect("no code panics while logging")
    }

    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        let mut inner = self.inner();
        if inner.lines.len() >= LINES_MAX {
            inner.lines.pop_front();
        }
        let now = self.world.now();
        inner.lines.push_back((now, line()));
    }

    /// Records a violation. Only the first one counts: later ones may be consequences.
    pub(crate) fn broken(&self, what: String) {
        self.note(|| format!("BROKEN: {what}"));
        self.inner().broken.get_or_insert(what);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.inner().broken.is_some()
    }

    /// The violation, and the log up to it.
    pub(crate) fn end(&self) -> Option<(String, Vec<String>)> {
        let mut inner = self.inner();
        let broken = inner.broken.take()?;
        Some((broken, inner.lines.iter().map(|(at, line)| format!("{at:?}  {line}")).collect()))
    }
}
