//! Rows that cannot be read: what is about them is dealt with once, and delays nobody.

use std::sync::Arc;

use forgerun_core::set_aside::RowId;
use forgerun_store::memory::Memory;
use serde_json::json;

use super::{World, id, messages, plain, shared_vhost};

#[tokio::test]
async fn messages_about_a_job_that_cannot_be_read_hold_up_no_other() {
    let store = Arc::new(Memory::new());
    let world = World::on(store.clone(), shared_vhost().await, &[]).await;
    world.publish(json!([plain(1)])).await;
    world.wait_for_metric(&messages("taken"), 1).await;
    store.damage(RowId::Job(id(1).parse().unwrap()));
    let headers = json!({"x-ojs-job-id": id(1), "x-ojs-attempt": 2, "x-forgerun-event-id": id(9)});
    let returning = json!({"body": {}, "message_id": id(1), "headers": headers});
    let cancel = json!({"body": {"job_id": id(1)}, "type": "ojs.control.cancel", "exchange": "",
        "key": "ojs.queue.control.emails"});
    world.publish(json!([returning, plain(1), cancel, plain(2)])).await;
    world.wait_for_metric(&messages("taken"), 2).await;
    world.wait_for_metric(&messages("joined"), 1).await;
    let dead = world.take("ojs.queue.dlx.emails", 2).await;
    assert!(dead.iter().all(|message| message["headers"]["x-ojs-error-code"].is_string()), "{dead:?}");
}
