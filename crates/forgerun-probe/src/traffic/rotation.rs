//! A new client that rotates its key while its job runs.

use std::rc::Rc;
use std::time::Instant;

use http::HeaderValue;
use serde_json::{Value, json};

use super::call::{Call, Key};
use super::follow::follow;
use super::journey::{accepted, conclude};
use super::plan::{Plan, Way};
use super::tally::Class;
use super::world::World;
use crate::clock::now;
use crate::http::Answer;

/// Creates a client, submits, rotates its key, and follows the job with the new one.
pub(super) async fn play(world: &Rc<World>, plan: &Plan, kind: &str, intended: Instant) {
    let Some((client, first)) = new_client(world).await else {
        return;
    };
    world.tally.borrow_mut().jobs.submitted += 1;
    let body = json!({"type": "EXECUTE", "work_kind": kind});
    let call = Call::post("/v1/jobs".to_owned(), &first, body.to_string()).class(Class::Submit);
    let Some(answer) = world.send_patiently(&call, intended).await else {
        return;
    };
    let Some(mut job) = accepted(world, &call, &answer, &first, intended) else {
        return;
    };
    let Some(second) = new_key(world, &client, &first, true).await else {
        return;
    };
    if let Some(job) = world.acknowledged.borrow_mut().get_mut(&job.id) {
        job.key = second.clone();
    }
    // The old key is invalid from now on.
    let old = Call::get(format!("/v1/jobs/{}", job.id), &first);
    if let Some(answer) = world.send_patiently(&old, now()).await
        && !matches!(answer.status, 401 | 403 | 429 | 500..=599)
    {
        world.violate(
            "FR-AUT-11",
            format!("a key that was replaced is answered {}", answer.status),
            &old,
            Some(&answer),
        );
    }
    foreign(world, plan, &job.id).await;
    job.key = second;
    if let Some((end, _)) = follow(&job, plan, Way::Poll, &answer).await {
        world.ended(&job.id, end, Some(now() - intended));
        conclude(&job, end, None, true).await;
    }
}

/// Another client must not see the job.
async fn foreign(world: &World, plan: &Plan, id: &str) {
    let other = Call::get(format!("/v1/jobs/{id}"), &world.clients[plan.client].key);
    if let Some(answer) = world.send_patiently(&other, now()).await
        && answer.status < 400
    {
        world.violate("FR-AUT-13", "a client sees the job of another", &other, Some(&answer));
    }
}

/// Creates a client with a key.
pub(super) async fn new_client(world: &World) -> Option<(String, Key)> {
    let call = Call::post("/v1/clients".to_owned(), &world.registrar, "");
    let answer = world.send(&call, now()).await.ok()?;
    let id = text(&answer, "client_id")?;
    let key = new_key(world, &id, &world.registrar, false).await?;
    Some((id, key))
}

async fn new_key(world: &World, client: &str, caller: &Key, rotate: bool) -> Option<Key> {
    let body = if rotate { json!({"rotate": true}).to_string() } else { String::new() };
    let call = Call::post(format!("/v1/clients/{client}/keys"), caller, body);
    let answer = world.send(&call, now()).await.ok()?;
    if answer.status != 201 && !matches!(answer.status, 429 | 500..=599) {
        world.violate("FR-AUT-02", format!("a new key is answered {}", answer.status), &call, Some(&answer));
    }
    let key = text(&answer, "api_key")?;
    let mut value = HeaderValue::try_from(format!("Bearer {key}")).ok()?;
    value.set_sensitive(true);
    Some(Some(Rc::new(value)))
}

fn text(answer: &Answer, name: &str) -> Option<String> {
    answer.object().get(name).and_then(Value::as_str).map(str::to_owned)
}
