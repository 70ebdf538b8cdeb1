//! Two nodes on one PostgreSQL: what a caller spends at one is spent at the other, and what changes
//! at one is changed at the other. Their clocks stand still, so nothing is given back meanwhile,
//! and nobody asks the store again because time has passed.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::time::Time;
use forgerun_engine::{Clock, SystemClock};
use forgerun_server::Bounds;
use forgerun_server::tallies::TallyHandle;
use forgerun_store::postgres::{Options, Postgres};
use forgerun_store::testing::Cluster;
use serde_json::json;

use super::http::{Answer, Call};
use super::server::{Client, Server};
use super::sse::reader::Opening;

const LIMITED: &str = "RFA_REQUEST_RATE_LIMITED";
/// Between two looks: nodes tell each other a few times per second.
const LOOK: Duration = Duration::from_millis(100);
/// Looks until it is over. Far more than needed.
const N_LOOKS: usize = 600;

struct Node {
    server: Server,
    _tallies: TallyHandle,
}

async fn node(database: &str, n: u64, settings: &[(&str, &str)], moment: Time) -> Node {
    let store = Postgres::connect(database, Options::new(n)).await.unwrap();
    let server = Server::on(Arc::new(store), settings, Bounds::default()).await;
    server.clock.stop_at(moment);
    let tallies = TallyHandle::start(&server.app).await.expect("there are others to tell");
    Node { server, _tallies: tallies }
}

/// Two nodes and their database.
async fn two_nodes(settings: &[(&str, &str)]) -> (Node, Node, String) {
    let database = Cluster::shared().database().await;
    let moment = SystemClock.now();
    (node(&database, 1, settings, moment).await, node(&database, 2, settings, moment).await, database)
}

fn at(client: &Client, node: &Node) -> Client {
    Client { address: node.server.address, ..client.clone() }
}

/// Asks again and again, at most so often, until the answer is what is waited for.
async fn wait_for(n_max: usize, call: Call, is_it: impl Fn(&Answer) -> bool) -> Answer {
    for _ in 0..n_max {
        let answer = call.send().await;
        if is_it(&answer) {
            return answer;
        }
        SystemClock.sleep(LOOK).await;
    }
    panic!("waited in vain");
}

/// Asks until there is no more; how often that went well.
async fn exhaust(call: &Call) -> usize {
    for n in 0.. {
        let answer = call.send().await;
        if answer.status == 429 {
            return n;
        }
        assert!(answer.status < 500, "{answer:?}");
    }
    unreachable!()
}

/// What is spent at one node is spent at the other, which alone would give `n` more.
async fn holds_together(here: Call, there: Call, n: usize) {
    assert_eq!(exhaust(&here).await, n, "exactly the limit");
    wait_for(n - 1, there, |answer| answer.status == 429).await.refused(429, LIMITED);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_both_nodes_are_counted_together() {
    let (here, there, database) = two_nodes(&[("limits.rate_per_minute", "600")]).await;
    let client = here.server.client().await;
    let (here_call, there_call) =
        (client.call("GET", "/v1/jobs"), at(&client, &there).call("GET", "/v1/jobs"));
    for _ in 0..100 {
        here_call.send().await.expect(200);
    }
    let mut n_there = 0;
    let remaining =
        |answer: &Answer| answer.header("x-ratelimit-remaining").unwrap().parse::<usize>().unwrap();
    loop {
        let answer = there_call.send().await;
        n_there += 1;
        if remaining(&answer) == 600 - 100 - n_there {
            break;
        }
        assert!(n_there < 400, "waited in vain");
        SystemClock.sleep(LOOK).await;
    }
    assert_eq!(n_there + exhaust(&there_call).await, 500, "what the other node gave away is gone here");
    // The first node hears of it. What it gives until then is a debt of both.
    let refused = wait_for(400, here_call, |answer| answer.status == 429).await;
    refused.refused(429, LIMITED);
    assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"));
    // One that has just begun takes over what is known, before its first request.
    let third = node(&database, 3, &[("limits.rate_per_minute", "600")], there.server.clock.now()).await;
    at(&client, &third).get("/v1/jobs").await.refused(429, LIMITED);
    // Waiting as told helps.
    let told = wait_for(N_LOOKS, there_call.clone(), |answer| answer.header("retry-after").is_some()).await;
    let after: u64 = told.header("retry-after").unwrap().parse().unwrap();
    there.server.clock.advance(Duration::from_secs(after));
    there_call.send().await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_workers_are_counted_together() {
    let (here, there, _) = two_nodes(&[("limits.worker_rate_per_minute", "200")]).await;
    let client = here.server.client().await;
    let beat =
        |client: Client| client.call("POST", "/ojs/v1/workers/heartbeat").json(json!({"worker_id": "w"}));
    let (here, there) = (beat(client.clone()), beat(at(&client, &there)));
    assert_eq!(exhaust(&here).await, 200);
    wait_for(199, there, |answer| answer.status == 429).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn registrations_and_guesses_are_counted_together() {
    let settings = [("limits.rate_per_minute", "0"), ("auth.registration", "open")];
    let (here, there, _) = two_nodes(&settings).await;
    let client = here.server.client().await;
    let guess = |client: &Client| client.call("GET", "/v1/jobs/01890a5d-ac96-774b-bcce-b302099a8057");
    holds_together(guess(&client), guess(&at(&client, &there)), 120).await;
    let register = |node: &Node| node.server.call("POST", "/v1/clients");
    // One client is registered already.
    assert_eq!(exhaust(&register(&here)).await, 599);
    wait_for(599, register(&there), |answer| answer.status == 429).await.refused(429, LIMITED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_spent_once_and_stays_spent() {
    let settings = [("limits.quota", "300"), ("limits.rate_per_minute", "0")];
    let (here, there, database) = two_nodes(&settings).await;
    let client = here.server.client().await;
    let jobs = |node: &Node| at(&client, node).call("GET", "/v1/jobs");
    assert_eq!(exhaust(&jobs(&here)).await, 300);
    wait_for(299, jobs(&there), |answer| answer.status == 429).await.refused(429, LIMITED);
    drop((here, there));
    let third = node(&database, 3, &settings, SystemClock.now()).await;
    wait_for(299, jobs(&third), |answer| answer.status == 429).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_revoked_at_one_node_is_good_at_none() {
    let (here, there, _) = two_nodes(&[("limits.rate_per_minute", "0")]).await;
    let client = here.server.client().await;
    let client_there = at(&client, &there);
    client_there.get("/v1/jobs").await.expect(200);
    let mut stream = Opening::new(&client_there, "/v1/events").open().await.unwrap();
    let revoke = client.call("POST", &format!("{}/revoke", client.keys_path()));
    revoke.json(json!({"key_id": client.key_id})).send().await.expect(200);
    // By its own clock no time passes, so it would believe the key for ever.
    let refused =
        wait_for(N_LOOKS, client_there.call("GET", "/v1/jobs"), |answer| answer.status != 200).await;
    refused.refused(403, "RFA_AUTH_API_KEY_DISABLED");
    assert_eq!(stream.rest().await, [], "the stream is over");
}
