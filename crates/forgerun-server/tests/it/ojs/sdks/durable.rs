//! Durable execution: what one attempt recorded, the next one replays.

use super::*;

impl Sdk {
    /// Where this SDK keeps checkpoints; two versions put the prefix in front twice.
    fn checkpoint_paths(self, id: &str) -> Vec<String> {
        let once = format!("checkpoints/{id}");
        match self {
            Sdk::Python | Sdk::JavaScript => vec![once.clone(), format!("ojs/v1/{once}")],
            Sdk::Rust | Sdk::Go => vec![once],
        }
    }
}

#[tokio::test]
async fn what_an_attempt_recorded_is_replayed_by_the_next() {
    let world = World::start().await;
    for sdk in [Sdk::Python, Sdk::JavaScript, Sdk::Go] {
        let retry = json!({"max_attempts": 2, "initial_interval": "PT1S"});
        let id = world.push(json!({"retry": retry})).await;
        world.fetch().await;
        for path in sdk.checkpoint_paths(&id) {
            let resume = format!("{path}/resume");
            let fresh = sdk.get(&world, &resume).await.expect(200);
            assert_eq!((&fresh["has_checkpoint"], fresh.get("checkpoint")), (&json!(false), None));
            let log = json!([{"seq": 0, "type": "call", "key": "price", "result": {"eur": 3}}]).to_string();
            let body = json!({"state": {"fetched": true}, "step_index": 1,
                              "metadata": {"_replay_log": log, "attempt": "1"}});
            let method = if sdk == Sdk::Go { "PUT" } else { "POST" };
            sdk.send(&world, method, &path, Some(body)).await.expect(200);
            let known = sdk.get(&world, &resume).await.expect(200);
            let checkpoint = part(&known, "checkpoint");
            assert_eq!((&known["has_checkpoint"], &checkpoint["step_index"]), (&json!(true), &json!(1)));
            assert_eq!(checkpoint["metadata"], json!({"_replay_log": log, "attempt": "1"}));
            assert_eq!(checkpoint["state"], json!({"fetched": true}));
            sdk.delete(&world, &path).await.expect(200);
            assert_eq!(sdk.get(&world, &resume).await.expect(200)["has_checkpoint"], false);
        }
        world.ack(&id).await.expect(200);
    }
}

#[tokio::test]
async fn nothing_is_a_state_and_what_is_said_about_one_has_its_bound_too() {
    let world = World::start().await;
    let path = format!("checkpoints/{}", world.push(json!({})).await);
    let empty = json!({"state": null, "step_index": 7});
    let saved = Sdk::Go.send(&world, "PUT", &path, Some(empty)).await.expect(200);
    assert_eq!((&saved["state"], &saved["step_index"]), (&Value::Null, &json!(7)));
    let large = json!({"state": 1, "metadata": {"_replay_log": "x".repeat(257 * 1024)}});
    let answer = Sdk::Go.send(&world, "PUT", &path, Some(large)).await.expect(413);
    assert_eq!(answer["code"], "PAYLOAD_TOO_LARGE");
}
