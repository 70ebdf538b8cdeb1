//! Large results: sent before the ack, fenced, fetched everywhere.

use super::*;

fn put(world: &World, id: &str, token: &str) -> Call {
    world.client.call("PUT", &format!("/ojs/v1/jobs/{id}/result")).header("lease-token", token)
}

#[tokio::test]
async fn a_result_that_was_sent_before_the_ack_is_kept_and_served_on_every_road() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    let token = world.fetch().await["lease_token"].as_str().unwrap().to_owned();
    let large: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
    put(&world, &id, &token).header("content-type", "text/plain").body("first try").send().await.expect(200);
    let send = put(&world, &id, &token)
        .header("content-type", "image/png")
        .header("content-disposition", "attachment; filename=\"plot.png\"")
        .body(large.clone());
    let sent = send.send().await.expect(200);
    assert_eq!((&sent["size"], &sent["media_type"]), (&json!(300_000), &json!("image/png")));
    let done = world.post("workers/ack", json!({"job_id": id, "lease_token": token})).await.expect(200);
    assert!(done["job"]["result_url"].as_str().unwrap().ends_with("/result"), "{done}");
    for path in [
        format!("/ojs/v1/jobs/{id}/result"),
        format!("/api/v1/jobs/{id}/result"),
        format!("/v1/jobs/{id}/result"),
    ] {
        let answer = world.client.get(&path).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("image/png")), "{path}");
        assert!(answer.header("content-disposition").unwrap().contains("plot.png"));
        assert!(answer.body == large, "{path}");
    }
}

#[tokio::test]
async fn what_a_browser_would_have_to_guess_is_refused_and_nothing_served_can_run() {
    let world = World::start().await;
    let id = world.push(json!({})).await;
    let token = world.fetch().await["lease_token"].as_str().unwrap().to_owned();
    for guessed in ["text/html +json", "text/html, a/json", "html"] {
        let refused = put(&world, &id, &token).header("content-type", guessed).body("<script>").send().await;
        assert_eq!(refused.status, 400, "{guessed}");
    }
    put(&world, &id, &token).header("content-type", "text/html").body("<script>").send().await.expect(200);
    world.post("workers/ack", json!({"job_id": id, "lease_token": token})).await.expect(200);
    for dialect in ["ojs/v1", "api/v1", "v1"] {
        let answer = world.client.get(&format!("/{dialect}/jobs/{id}/result")).await;
        assert!(answer.header("content-disposition").unwrap().starts_with("attachment"), "{dialect}");
        assert_eq!(answer.header("content-security-policy"), Some("sandbox"), "{dialect}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{dialect}");
    }
}

#[tokio::test]
async fn a_result_with_the_ack_wins_and_one_of_a_failed_attempt_is_gone() {
    let world = World::start().await;
    let retry = json!({"retry": {"initial_interval": "PT0.01S", "jitter": false}});
    let (one, two) = (world.push(json!({"priority": 1})).await, world.push(retry).await);
    let token = world.fetch().await["lease_token"].as_str().unwrap().to_owned();
    put(&world, &one, &token).body("uploaded").send().await.expect(200);
    let ack = json!({"job_id": one, "lease_token": token, "result": {"with": "ack"}});
    world.post("workers/ack", ack).await.expect(200);
    assert_eq!(world.job(&one).await["result"], json!({"with": "ack"}));
    let token = world.fetch().await["lease_token"].as_str().unwrap().to_owned();
    put(&world, &two, &token).body("of an attempt that failed").send().await.expect(200);
    world.nack(&two, json!({"code": "x", "message": "m"})).await.expect(200);
    world.fetch().await;
    world.ack(&two).await.expect(200);
    let job = world.job(&two).await;
    assert!(job.get("result").is_none() && job.get("result_url").is_none(), "{job}");
}

#[tokio::test]
async fn a_result_without_a_lease_or_too_large_is_refused() {
    let world = World::with(&[("limits.max_result_bytes", "1024")]).await;
    let id = world.push(json!({})).await;
    let token = world.fetch().await["lease_token"].as_str().unwrap().to_owned();
    let bare = world.client.call("PUT", &format!("/ojs/v1/jobs/{id}/result")).body("x").send().await;
    let body = refused(&bare, 400, "INVALID_PAYLOAD", "invalid_payload");
    assert_eq!(body["details"]["field"], "Lease-Token");
    let other = put(&world, &id, "0000000000000000.1").body("x").send().await;
    refused(&other, 409, "INVALID_STATE_TRANSITION", "conflict");
    let large = put(&world, &id, &token).body(vec![0; 1025]).send().await;
    let body = refused(&large, 413, "PAYLOAD_TOO_LARGE", "payload_too_large");
    assert_eq!(body["details"]["limit_bytes"], 1024);
    put(&world, &id, &token).body(vec![0; 1024]).send().await.expect(200);
    world.ack(&id).await.expect(200);
    refused(&put(&world, &id, &token).body("late").send().await, 409, "JOB_ALREADY_COMPLETED", "conflict");
    let nobody = put(&world, "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f", &token).body("x").send().await;
    refused(&nobody, 404, "NOT_FOUND", "not_found");
}

#[tokio::test]
async fn a_job_has_one_upload_at_a_time_and_one_that_breaks_off_frees_its_place() {
    use tokio::io::AsyncWriteExt;
    let world = World::start().await;
    let id = world.push(json!({})).await;
    let token = world.fetch().await["lease_token"].as_str().unwrap().to_owned();
    let uploads = &world.server.app.uploads;
    let mut half = tokio::net::TcpStream::connect(world.server.address).await.unwrap();
    let head = format!(
        "PUT /ojs/v1/jobs/{id}/result HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         lease-token: {token}\r\ncontent-length: 9000000\r\n\r\n",
        world.client.key
    );
    half.write_all(head.as_bytes()).await.unwrap();
    half.write_all(&vec![b'x'; 300_000]).await.unwrap();
    let n_uploads = async |n: usize| {
        while uploads.n_taken() != n {
            tokio::task::yield_now().await;
        }
    };
    let span = std::time::Duration::from_secs(20);
    tokio::time::timeout(span, n_uploads(1)).await.expect("it is taken in");
    assert_eq!(put(&world, &id, &token).body("second").send().await.status, 429);
    drop(half);
    tokio::time::timeout(span, n_uploads(0)).await.expect("its place is free when its bytes are deleted");
    put(&world, &id, &token).body("third").send().await.expect(200);
}

/// Files of results in a folder, and below it.
fn n_files(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let count = |path: std::path::PathBuf| match path.is_dir() {
        true => n_files(&path),
        false => usize::from(!path.file_name().unwrap().to_string_lossy().starts_with("jobs.db")),
    };
    entries.map(count).sum()
}

#[tokio::test]
async fn files_of_uploads_that_break_off_or_are_replaced_are_deleted_at_once() {
    use tokio::io::AsyncWriteExt;
    let folder = tempfile::tempdir().unwrap();
    let store = forgerun_store::sqlite::Sqlite::open(&folder.path().join("jobs.db")).unwrap();
    let server = Server::on(std::sync::Arc::new(store), &[], forgerun_server::Bounds::default()).await;
    let client = server.client().await;
    let world = World { server, client };
    let id = world.push(json!({})).await;
    let token = world.fetch().await["lease_token"].as_str().unwrap().to_owned();
    let files = async |n: usize| {
        while n_files(folder.path()) != n {
            tokio::task::yield_now().await;
        }
    };
    let span = std::time::Duration::from_secs(20);
    let mut half = tokio::net::TcpStream::connect(world.server.address).await.unwrap();
    let head = format!(
        "PUT /ojs/v1/jobs/{id}/result HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
         lease-token: {token}\r\ncontent-length: 9000000\r\n\r\n",
        world.client.key
    );
    half.write_all(head.as_bytes()).await.unwrap();
    half.write_all(&vec![b'x'; 3_000_000]).await.unwrap();
    tokio::time::timeout(span, files(1)).await.expect("it is written as it comes");
    drop(half);
    tokio::time::timeout(span, files(0)).await.expect("it broke off");
    while world.server.app.uploads.n_taken() > 0 {
        tokio::task::yield_now().await;
    }
    for text in ["first", "second"] {
        put(&world, &id, &token).body(text.repeat(600_000)).send().await.expect(200);
        assert_eq!(n_files(folder.path()), 1, "{text}");
    }
    world.ack(&id).await.expect(200);
    assert_eq!(n_files(folder.path()), 1, "the result stays");
    let result = world.client.get(&format!("/ojs/v1/jobs/{id}/result")).await;
    assert!(result.text().starts_with("second"));
}
