//! Dead letters: listed by queue, tried again with a request that has no body, deleted.

use super::reading::*;
use super::*;

async fn dead(world: &World) -> String {
    let retry = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
    let id = world.push(json!({"retry": retry})).await;
    world.fetch().await;
    world.nack(&id, json!({"code": "handler_error", "message": "boom"})).await.expect(200);
    id
}

#[tokio::test]
async fn every_sdk_finds_dead_letters_and_deals_with_them() {
    let world = World::start().await;
    for sdk in ALL {
        let ids = [dead(&world).await, dead(&world).await];
        let path = match sdk {
            Sdk::JavaScript => "dead-letter",
            Sdk::Python => "dead-letter?limit=50&offset=0&queue=default",
            Sdk::Rust => "dead-letter?queue=default&limit=50&offset=0",
            Sdk::Go => "dead-letter?limit=50&offset=0&queue=default",
        };
        let list = sdk.get(&world, path).await.expect(200);
        let jobs: Vec<Job> = read(&list["jobs"]);
        let found: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
        assert_eq!(found, ids, "{sdk:?}");
        assert!(jobs.iter().all(|job| job.state == JobState::Discarded && job.error.is_some()));
        assert!(jobs.iter().all(|job| job.completed_at.is_some() && job.errors.len() == 1));
        let page: Pagination = read(&list["pagination"]);
        assert_eq!((page.total, page.limit, page.offset, page.has_more), (2, 50, 0, false));
        let again =
            sdk.send(&world, "POST", &format!("dead-letter/{}/retry", ids[0]), None).await.expect(200);
        let job: Job = if sdk == Sdk::Rust { read(&again) } else { read(&part(&again, "job")) };
        assert_eq!((job.state, job.attempt, job.errors.len()), (JobState::Available, 0, 1));
        sdk.delete(&world, &format!("dead-letter/{}", ids[1])).await.expect(200);
        let missing = sdk.delete(&world, &format!("dead-letter/{}", ids[1])).await.expect(404);
        assert_eq!(read::<ServerError>(&missing["error"]).code, "not_found");
        sdk.delete(&world, &format!("jobs/{}", ids[0])).await.expect(200);
    }
}
