//! The views of the operator against their schemas.

use forgerun_core::catalog::Kind;
use forgerun_core::client::Client;
use forgerun_core::id::ClientId;
use forgerun_core::job::Name;
use forgerun_core::queue::Owner;
use forgerun_core::redrive::RedriveTerms;
use forgerun_core::rows::Activity;
use forgerun_core::time::Time;
use forgerun_core::worker::{Worker, WorkerId};

use super::check;
use crate::admin::{
    AdminClient, AdminClientDetail, AdminJob, AdminJobDetail, AdminKey, AdminResult, NodeView, Overview,
    OverviewMinute, OverviewProblem, OverviewQueue, OverviewRates, RedrivePreview, RedriveStarted,
    RedriveUseless,
};
use crate::admin::{
    AdminPage, AdminQueue, AdminWorker, FailureGroupView, QueueFigures, QueueLimits, REDRIVE_MEMBERS,
};
use crate::example::ExampleJob;
use crate::outcome::Outcomes;

#[test]
fn every_view_of_the_operator_has_exactly_the_documented_members() {
    let bare = AdminQueue::new("default");
    let mut full = AdminQueue { oldest_waiting_s: Some(1), ..bare.clone() };
    full.set_paused_at(Some(Time::from_millis(1)));
    check("AdminQueue", &full, &bare);
    let limits = QueueLimits { max_waiting: Some(1), max_active: Some(2), rate_per_s: Some(0.5) };
    check("QueueLimits", &limits, &QueueLimits::default());
    check("QueueFigures", &QueueFigures::default(), &QueueFigures::default());
    let page = AdminPage { items: vec![full], next_cursor: Some("default".into()) };
    check("AdminQueues", &page, &AdminPage::<AdminQueue> { items: vec![], next_cursor: None });

    let owner = Owner::client(ClientId::v4(7));
    let worker = Worker::new(WorkerId { owner, name: Name::new("w").unwrap() }, Time::ZERO);
    let worker = AdminWorker::new(&worker, Time::from_millis(5000));
    assert_eq!(worker.silent_s, 5);
    check("AdminWorker", &worker, &worker);
    let page = AdminPage { items: vec![worker], next_cursor: None };
    check("AdminWorkers", &page, &page);
}

#[test]
fn every_view_of_failures_has_exactly_the_documented_members() {
    let group = FailureGroupView {
        group: "9f86d081884c7d65".into(),
        problem_type: "/problems/job-failed".into(),
        code: "HANDLER_ERROR".into(),
        title: "Handler Error".into(),
        operation: String::new(),
        message: "it went wrong".into(),
        count: 1,
        first_seen: super::NOON.into(),
        last_seen: super::NOON.into(),
        trend: vec![0; 24],
        clients: vec![],
        queues: vec!["mail".into()],
        examples: vec![],
    };
    check("FailureGroup", &group, &group);
    let page = AdminPage { items: vec![group], next_cursor: None };
    check("FailureGroups", &page, &page);
}

#[test]
fn every_view_of_redrives_has_exactly_the_documented_members() {
    let preview =
        RedrivePreview::new(3, 2, &RedriveTerms { per_1000_s: Some(7), ..RedriveTerms::default() }, &[]);
    check("RedrivePreview", &preview, &RedriveUseless { matched: 0 });
    let started = RedriveStarted { job_id: super::ID.into(), matched: 1, will_redrive: 1 };
    check("RedriveStarted", &started, &started);
    let document = super::document("");
    let properties = &document["components"]["schemas"]["RedriveRequest"]["properties"];
    assert_eq!(super::names(properties), REDRIVE_MEMBERS.iter().map(|name| (*name).to_owned()).collect());
}

#[test]
fn every_view_of_jobs_clients_and_the_overview_has_exactly_the_documented_members() {
    let example =
        ExampleJob::begin(Outcomes::default(), |_| {}).begins().claimed(true).fails(Kind::HandlerError);
    let job = example.job();
    let view = AdminJob::new(job);
    check("AdminJob", &view, &view);
    let detail = AdminJobDetail::new(job, None);
    check("AdminJobDetail", &detail, &detail);
    let result = AdminResult { media_type: "text/plain".into(), size: 1, expires_at: None };
    check("AdminResult", &result, &result);
    let client = Client::new(ClientId::v4(1), Time::ZERO);
    let client = AdminClient::new(&client, None, &[], Time::ZERO);
    check("AdminClient", &client, &client);
    let key = AdminKey {
        key_id: super::ID.into(),
        key_prefix: "frk_".into(),
        good: true,
        created_at: super::NOON.into(),
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
    };
    check("AdminKey", &key, &key);
    let client = AdminClientDetail { client, keys: vec![key] };
    check("AdminClientDetail", &client, &client);
    let figures = QueueFigures::default();
    let rates = OverviewRates { last_minute: figures, last_hour: figures };
    check("OverviewRates", &rates, &rates);
    let node = NodeView { id: "n".into(), version: "0.1.0".into(), started_at: super::NOON.into() };
    check("Node", &node, &node);
    let queue = OverviewQueue::from(AdminQueue::new("q"));
    check("OverviewQueue", &queue, &queue);
    let minute = OverviewMinute::new(Time::ZERO, &Activity::default());
    check("OverviewMinute", &minute, &minute);
    let problem = OverviewProblem {
        kind: "queue_unattended".into(),
        what: "2 jobs wait in queue mail, and no worker asks for it".into(),
        since: Some(super::NOON.into()),
        link: "/dashboard/queues".into(),
    };
    check("OverviewProblem", &problem, &OverviewProblem { since: None, ..problem.clone() });
    let overview = Overview {
        jobs: [("QUEUED".to_owned(), 1)].into(),
        queues: vec![queue],
        rates,
        minutes: vec![minute],
        workers: vec![],
        sinks: vec![],
        nodes: vec![node],
        problems: vec![problem],
    };
    check("Overview", &overview, &overview);
}
