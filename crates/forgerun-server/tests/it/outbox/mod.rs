//! `forgerun outbox`, from the application's transaction to the job.

mod kills;

use std::process::{Child, Command};

use forgerun_store::testing::{Cluster, connect};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_postgres::Client;

use crate::cli::{ask, command, dev};
use crate::process::{Server, forgerun, run};

/// An application with a database.
pub(crate) struct Application {
    pub(crate) runtime: Runtime,
    pub(crate) url: String,
    pub(crate) client: Client,
}

impl Application {
    fn new(cluster: &Cluster) -> Application {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let url = runtime.block_on(cluster.database());
        run(&mut outbox(&url, &["install"])).expect(0);
        let client = runtime.block_on(connect(&url));
        Application { runtime, url, client }
    }

    fn submit(&self, job_type: &str, args: &str) -> String {
        let text = format!("SELECT forgerun.submit('{job_type}', '{args}', '{{\"queue\": \"q\"}}')::text");
        self.runtime.block_on(self.client.query_one(&text, &[])).unwrap().get(0)
    }

    fn status(&self) -> Value {
        run(&mut outbox(&self.url, &["status", "--json"])).json(0)
    }

    /// Asks until the status is like this.
    fn wait_for(&self, what: impl Fn(&Value) -> bool) -> Value {
        let mut status = Value::Null;
        for _ in 0..600 {
            status = self.status();
            if what(&status) {
                return status;
            }
            crate::rabbitmq::pause(std::time::Duration::from_millis(50));
        }
        panic!("the outbox stays like this: {status}");
    }
}

fn outbox(source: &str, arguments: &[&str]) -> Command {
    let mut command = forgerun(&["outbox"]);
    command.args(arguments).args(["--source", source]);
    command
}

/// A forwarder; killed when it is dropped.
struct ForwarderProcess(Child);

impl ForwarderProcess {
    fn start(source: &str, url: &str, key: &str) -> ForwarderProcess {
        let mut command = outbox(source, &["run", "--url", url]);
        command.env("FORGERUN_API_KEY", key).stderr(std::process::Stdio::null());
        ForwarderProcess(command.spawn().unwrap())
    }
}

impl Drop for ForwarderProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

#[test]
fn what_an_application_commits_becomes_a_job_with_the_id_it_was_given() {
    let application = Application::new(Cluster::shared());
    let first = application.submit("a.first", "[1, {\"x\": 1.50}]");
    let refused = application.submit("NOT A TYPE", "[]");
    let last = application.submit("a.last", "{\"y\": 2}");
    assert_eq!(application.status()["waiting"], 3, "nobody forwards yet");

    let server = dev();
    let _forwarder = ForwarderProcess::start(&application.url, &url(&server), "");
    let status = application.wait_for(|status| status["waiting"] == 0);
    assert_eq!((&status["sent"], &status["refused"]), (&json!(2), &json!(1)), "{status}");
    assert_eq!(status["refusals"][0]["job_id"], refused);
    assert_eq!(status["refusals"][0]["problem"]["status"], 400, "{status}");
    let text = run(&mut outbox(&application.url, &["status"])).expect(0).to_owned();
    assert!(text.contains("waiting    0") && text.contains(&refused), "{text}");

    let job = |id: &str| ask(&server, &["get", id, "--json"]).json(0);
    assert_eq!((&job(&first)["queue"], &job(&last)["queue"]), (&json!("q"), &json!("q")));
    let claimed = server_claims(&server);
    assert_eq!(claimed[0]["id"], first, "in the order of the calls: {claimed}");
    assert_eq!(claimed[0]["args"].to_string(), r#"[1,{"x":1.5}]"#);
    assert_eq!((&claimed[1]["id"], &claimed[1]["args"]), (&json!(last), &json!([{"y": 2}])));
}

/// Jobs of the queue, as a worker gets them.
fn server_claims(server: &Server) -> Value {
    let mut connection = crate::crash::Connection::open(server.address, "").unwrap();
    let body = json!({"worker_id": "w", "queues": ["q"], "count": 10}).to_string();
    let (status, answer) = connection.ask("POST", "/ojs/v1/workers/fetch", &body).unwrap();
    assert_eq!(status, 200, "{answer}");
    answer["jobs"].clone()
}

#[test]
fn rows_wait_while_the_server_is_away_or_refuses_the_key() {
    let application = Application::new(Cluster::shared());
    let id = application.submit("a.b", "[]");
    let away = ForwarderProcess::start(&application.url, "http://127.0.0.1:1", "");
    let status = application.wait_for(|status| !status["error"].is_null());
    assert_eq!((&status["waiting"], &status["refused"]), (&json!(1), &json!(0)), "{status}");
    drop(away);

    let mut serve = forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", "memory:"]);
    let server = Server::start(serve.env("FORGERUN_LOG__LEVEL", "error"));
    let wrong = ForwarderProcess::start(&application.url, &url(&server), "not-a-key");
    let status =
        application.wait_for(|status| status["error"].as_str().is_some_and(|text| text.contains("UNAUTH")));
    assert_eq!((&status["waiting"], &status["refused"]), (&json!(1), &json!(0)), "{status}");
    drop(wrong);

    let key = crate::crash::first_key(server.address);
    let forwarders = [(), ()].map(|()| ForwarderProcess::start(&application.url, &url(&server), &key));
    application.wait_for(|status| status["waiting"] == 0 && status["sent"] == 1);
    let found = run(command(&server, &["get", &id, "--json"]).env("FORGERUN_API_KEY", &key)).json(0);
    assert_eq!(found["job_id"], id, "{found}");
    drop(forwarders);
}

#[test]
fn commands_say_what_is_missing() {
    assert!(run(&mut forgerun(&["outbox", "sql"])).expect(0).contains("FUNCTION forgerun.submit(type text"));
    let ended = run(&mut forgerun(&["outbox", "status"]));
    assert!(ended.stderr.contains("--source"), "{}", ended.stderr);
    assert_eq!(ended.code, Some(2));
    let ended = run(&mut outbox("postgres://nobody@127.0.0.1:1/none", &["install"]));
    assert_eq!(ended.code, Some(6), "{}", ended.stderr);
    let runtime = Runtime::new().unwrap();
    let bare = runtime.block_on(Cluster::shared().database());
    let ended = run(&mut outbox(&bare, &["status"]));
    assert!(ended.code == Some(1) && ended.stderr.contains("outbox install"), "{}", ended.stderr);
}
