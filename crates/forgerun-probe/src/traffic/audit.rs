//! The final audit: fetches every acknowledged job once more. None may be lost, and none may have
//! another end than the one seen.

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::future::join_all;

use super::call::Call;
use super::follow::follow_quietly;
use super::state::State;
use super::world::{Acknowledged, World};
use crate::clock::now;
use crate::limits::AUDITORS;

/// Fetches all jobs, and waits for open ones.
pub(super) async fn audit(world: &Rc<World>) {
    let jobs: Vec<(String, Acknowledged)> = world.acknowledged.borrow().clone().into_iter().collect();
    let jobs = Rc::new(RefCell::new(jobs));
    join_all((0..AUDITORS).map(|_| auditor(world, jobs.clone()))).await;
}

async fn auditor(world: &Rc<World>, jobs: Rc<RefCell<Vec<(String, Acknowledged)>>>) {
    loop {
        let Some((id, job)) = jobs.borrow_mut().pop() else {
            return;
        };
        look(world, &id, &job).await;
    }
}

async fn look(world: &Rc<World>, id: &str, job: &Acknowledged) {
    let call = Call::get(format!("/v1/jobs/{id}"), &job.key);
    let Some(answer) = world.send_patiently(&call, now()).await else {
        world.tally.borrow_mut().jobs.unfinished += 1;
        return;
    };
    if matches!(answer.status, 404 | 410) {
        world.tally.borrow_mut().jobs.lost += 1;
        return world.violate("FR-STO-06", "a job that was acknowledged is lost", &call, Some(&answer));
    }
    let state = answer.object().get("state").and_then(|state| State::parse(state.as_str()?));
    match (job.end, state) {
        (Some(end), Some(state)) if end != state => {
            let what = format!("{end} was seen as the end, and in the end it is {state}");
            world.violate("FR-STM-19", what, &call, Some(&answer));
        }
        (None, Some(state)) => match follow_quietly(world, id, &job.key, state).await {
            Some(end) => world.ended(id, end, None),
            None => world.tally.borrow_mut().jobs.unfinished += 1,
        },
        // Its client lost its key when the server was killed, or the server is overloaded.
        (None, None) => world.tally.borrow_mut().jobs.unfinished += 1,
        (Some(_), _) => {}
    }
}
