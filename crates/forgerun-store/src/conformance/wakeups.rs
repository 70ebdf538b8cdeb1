//! News between nodes. They are hints: a node that hears nothing is only slower.

use forgerun_core::job::{Lane, Shelf};

use super::Fixture;
use super::harness::{accepted, ask, claimed, done};
use super::make::{START, at, job, shelf, submit, succeed, take};
use crate::Wakeup;

/// How often the other node listens before it is called deaf.
const LISTENS_MAX: usize = 50_000;

/// Waits until the second node was told `news`, or that it may have missed some. It asks for work elsewhere all the
/// time, before and after, as an idle node does: a store may notice the others only then.
async fn hears(fixture: &dyn Fixture, news: Wakeup, act: impl AsyncFnOnce()) {
    let listener = fixture.second();
    let mut wakeups = listener.wakeups();
    let look_elsewhere =
        async || assert_eq!(claimed(ask(&listener, at(1), take(&["elsewhere"], 1)).await), []);
    look_elsewhere().await;
    act().await;
    for _ in 0..LISTENS_MAX {
        while let Ok(heard) = wakeups.try_recv() {
            if heard == news || heard == Wakeup::Everything {
                return;
            }
        }
        look_elsewhere().await;
    }
    panic!("the other node never heard {news:?}");
}

/// Work that one node was handed wakes the workers of another.
pub async fn the_other_node_hears_of_claimable_work(fixture: &dyn Fixture) {
    let store = fixture.store();
    let queue = "it's \"q\" 🦀";
    let here: Shelf = shelf(Lane::External, queue);
    hears(fixture, Wakeup::Shelf(here.clone()), async || {
        accepted(ask(&store, START, submit(job(1, queue))).await);
    })
    .await;
}

/// Whatever happens on one node, those who follow the journal on another are told to look.
pub async fn the_other_node_hears_that_the_journal_has_grown(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit(job(1, "q"))).await);
    let taken = claimed(ask(&store, at(1), take(&["q"], 1)).await).remove(0);
    hears(fixture, Wakeup::Journal, async || drop(done(ask(&store, at(2), succeed(&taken)).await))).await;
}
