//! The operator's API, `/admin/v1`.

mod audit;
mod deliveries;
mod events;
mod failures;
mod jobs;
mod overview;
mod queues;
mod redrives;
mod schedules;
mod workers;

use serde_json::Value;

use super::http::{Answer, Call};
use super::server::Server;

pub(super) const TOKEN: &str = "the-operator-and-nobody-else";
const UNKNOWN: &str = "RFA_AUTH_INVALID_CREDENTIALS";

/// A server with an operator.
pub(super) async fn server() -> Server {
    Server::with(&[("auth.admin_token", TOKEN)]).await
}

/// A request of the operator.
pub(super) fn operator(server: &Server, method: &str, path: &str) -> Call {
    server.call(method, path).header("authorization", &format!("Bearer {TOKEN}"))
}

pub(super) async fn get(server: &Server, path: &str) -> Value {
    operator(server, "GET", path).send().await.expect(200)
}

pub(super) async fn post(server: &Server, path: &str, body: Value) -> Answer {
    operator(server, "POST", path).json(body).send().await
}

#[tokio::test]
async fn only_the_operators_token_opens_the_operators_api() {
    let server = server().await;
    server.clock.stop();
    let client = server.client().await;
    for path in ["/admin/v1/failures", "/admin/v1/queues", "/admin/v1/workers"] {
        get(&server, path).await;
        server.call("GET", path).send().await.refused(401, UNKNOWN);
        client.get(path).await.refused(403, "RFA_AUTH_FORBIDDEN");
    }
    let wrong = server.call("GET", "/admin/v1/queues").header("authorization", "Bearer guess");
    wrong.send().await.refused(401, UNKNOWN);
}

#[tokio::test]
async fn without_a_token_there_is_no_operator_except_on_an_open_server() {
    let keyed = Server::start().await;
    let refused = keyed.call("GET", "/admin/v1/queues").send().await.refused(401, UNKNOWN);
    assert!(refused["detail"].as_str().unwrap().contains("auth.admin_token"), "{refused}");

    let open = Server::with(&[("auth.mode", "open")]).await;
    open.call("GET", "/admin/v1/queues").send().await.expect(200);
    let forwarded = open.call("GET", "/admin/v1/queues").header("x-forwarded-for", "203.0.113.9");
    let refused = forwarded.send().await.refused(401, UNKNOWN);
    assert!(refused["detail"].as_str().unwrap().contains("proxy"), "{refused}");

    let guarded = Server::with(&[("auth.mode", "open"), ("auth.admin_token", TOKEN)]).await;
    guarded.call("GET", "/admin/v1/queues").send().await.refused(401, UNKNOWN);
    get(&guarded, "/admin/v1/queues").await;
}

#[tokio::test]
async fn what_is_not_there_and_what_is_not_allowed_is_a_problem() {
    let server = server().await;
    operator(&server, "GET", "/admin/v1/nothing").send().await.refused(404, "RFA_REQUEST_ROUTE_NOT_FOUND");
    let answer = operator(&server, "DELETE", "/admin/v1/queues").send().await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")));
    for limit in ["0", "201", "many"] {
        let path = format!("/admin/v1/queues?limit={limit}");
        operator(&server, "GET", &path).send().await.refused(400, "RFA_REQUEST_MALFORMED");
    }
}
