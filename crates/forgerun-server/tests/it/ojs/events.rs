//! What happened, in OJS's names.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::*;

async fn told(world: &World, query: &str) -> Vec<String> {
    let page = world.get(&format!("events?{query}")).await.expect(200);
    let events = page["events"].as_array().unwrap();
    events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_page_tells_what_happened_oldest_first_and_only_what_is_asked_for() {
    let world = World::start().await;
    let id = world.push(json!({"queue": "default", "retry": {"initial_interval": "PT0.01S"}})).await;
    world.push(json!({"queue": "other"})).await;
    world.fetch().await;
    world.nack(&id, json!({"code": "x", "message": "m"})).await.expect(200);
    world.fetch().await;
    world.ack(&id).await.expect(200);
    let life = ["job.enqueued", "job.started", "job.failed", "job.retrying", "job.started", "job.completed"];
    assert_eq!(told(&world, "queues=default").await, life);
    assert_eq!(
        told(&world, "types=job.completed,job.failed&queues=default").await,
        ["job.failed", "job.completed"]
    );
    let page = world.get("events?types=job.completed").await.expect(200);
    let event = &page["events"][0];
    assert_eq!((&event["specversion"], &event["subject"]), (&json!("1.0"), &json!(id)));
    assert_eq!((&event["data"]["job_type"], &event["data"]["attempt"]), (&json!("test.echo"), &json!(2)));
    assert!(event["data"]["duration_ms"].is_u64() && event["id"].as_str().unwrap().starts_with("evt_"));
    assert_eq!(
        told(&world, &format!("queues=default&after={}", event["id"].as_str().unwrap())).await,
        [""; 0]
    );
    let first = world.get("events?limit=1").await.expect(200);
    assert_eq!(first["has_more"], true);
    let cursor = first["cursor"].as_str().unwrap();
    assert_eq!(told(&world, &format!("after={cursor}&queues=default")).await, life[1..]);
    let history = world.get(&format!("jobs/{id}/events")).await.expect(200);
    assert_eq!(history["events"].as_array().unwrap().len(), life.len());
    let other = world.server.client().await;
    assert_eq!(other.get("/ojs/v1/events").await.expect(200)["events"], json!([]));
    for bad in ["types=job.exploded", "after=junk", "limit=0"] {
        assert_eq!(world.get(&format!("events?{bad}")).await.status, 400, "{bad}");
    }
}

/// Reads a stream until it has had so many events: their names and ids.
async fn stream(world: &World, path: &str, n: usize) -> Vec<(String, String)> {
    let mut connection = TcpStream::connect(world.server.address).await.unwrap();
    let head = format!(
        "GET /ojs/v1/{path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\naccept: text/event-stream\r\n\r\n",
        world.client.key
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(connection).lines();
    let (mut found, mut name, mut id) = (Vec::new(), String::new(), String::new());
    while found.len() < n {
        let line = lines.next_line().await.unwrap().expect("the stream goes on");
        if let Some(text) = line.strip_prefix("event: ") {
            name = text.to_owned();
        } else if let Some(text) = line.strip_prefix("id: ") {
            id = text.to_owned();
        } else if line.is_empty() && !name.is_empty() {
            found.push((std::mem::take(&mut name), std::mem::take(&mut id)));
        }
    }
    found
}

#[tokio::test]
async fn a_stream_tells_a_job_or_a_queue_as_it_happens() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    let (channel, path) = (format!("events/stream?channel=job:{id}"), format!("jobs/{id}/events"));
    let streams = async { tokio::join!(stream(&world, &channel, 3), stream(&world, &path, 3)) };
    let work = async {
        world.fetch().await;
        world.ack(&id).await.expect(200)
    };
    let ((one, two), _) = tokio::join!(streams, work);
    let names: Vec<&str> = one.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["job.enqueued", "job.started", "job.completed"]);
    assert_eq!(one, two);
    assert!(one.iter().all(|(_, id)| id.starts_with("evt_")));
    for bad in ["events/stream?channel=job:nobody", "events/stream?channel=weather"] {
        assert!(world.get(bad).await.status >= 400, "{bad}");
    }
}

#[tokio::test]
async fn a_failure_is_two_events_and_only_the_second_has_an_id_to_come_back_to() {
    let world = World::start().await;
    let id = world.push(json!({"retry": {"max_attempts": 1}})).await;
    world.fetch().await;
    world.nack(&id, json!({"code": "x", "message": "m"})).await.expect(200);
    let told = stream(&world, &format!("jobs/{id}/events"), 4).await;
    let (failed, discarded) = (&told[2], &told[3]);
    assert_eq!(
        (failed.0.as_str(), failed.1.as_str(), discarded.0.as_str()),
        ("job.failed", "", "job.discarded")
    );
    assert!(discarded.1.ends_with(".2"));
}
