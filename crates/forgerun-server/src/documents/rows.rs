//! The routes of the OpenAPI document: those of all dialects, those of the configuration, and the
//! pages.

use forgerun_core::catalog::Kind;
use forgerun_core::job::Dialect;
use forgerun_core::scope::KeyScopes;
use forgerun_problem::MEDIA_TYPE_JSON;
use forgerun_wire::problem::RefusedRequest;
use serde_json::Value;

use crate::auth::OperatorRole;
use crate::config::Config;
use crate::http::routing::{Answers, Api, Callers, RateCount, Route, Verb, operation::Operation};
use crate::{dialects, pages};

/// Where one client of Open Job Spec asks by mistake. Served, and left out of the document.
const DOUBLED: &str = "/ojs/v1/ojs/v1/";

/// A route of the document.
pub(super) struct Row {
    /// `None` for a page.
    pub(super) api: Option<&'static dyn Api>,
    pub(super) path: String,
    pub(super) verb: Verb,
    pub(super) id: String,
    pub(super) summary: String,
    pub(super) callers: Callers,
    pub(super) scopes: KeyScopes,
    /// What an operator needs, on routes for operators alone.
    pub(super) role: Option<OperatorRole>,
    pub(super) rate: RateCount,
    pub(super) answers: Answers,
    pub(super) media_types: &'static [&'static str],
    pub(super) operation: Operation,
}

/// All of them, in the order of the document.
pub(super) fn all(config: &Config) -> Vec<Row> {
    let apis = dialects::ALL.iter().copied().filter(|api| api.is_in_openapi());
    let mut rows: Vec<Row> = apis.flat_map(|api| of_api(api, config)).collect();
    rows.extend(pages::operations().into_iter().map(|(path, operation)| Row {
        api: None,
        path: path.to_owned(),
        verb: Verb::Get,
        id: operation.id.to_owned(),
        summary: operation.summary.to_owned(),
        callers: Callers::Anyone,
        scopes: KeyScopes::NONE,
        role: None,
        rate: RateCount::Uncounted,
        answers: Answers::Any,
        media_types: &["application/json"],
        operation,
    }));
    rows
}

fn of_api(api: &'static dyn Api, config: &Config) -> Vec<Row> {
    let listed = api.routes().iter().copied().flatten().filter(|route| !route.path.starts_with(DOUBLED));
    let fixed = listed.map(|route| row(api, route, route.path.to_owned(), config));
    let configured =
        api.configured(config).into_iter().map(|(path, route)| of_configured(api, route, path, config));
    fixed.chain(configured).collect()
}

fn row(api: &'static dyn Api, route: &Route, path: String, config: &Config) -> Row {
    Row {
        api: Some(api),
        path,
        verb: route.verb,
        id: route.operation.id.to_owned(),
        summary: route.operation.summary.to_owned(),
        callers: route.access.callers(),
        scopes: route.scopes,
        role: route.role.map(|_| route.role_needed(&config.auth)),
        rate: route.rate,
        answers: route.answers,
        media_types: api.media_types(),
        operation: route.operation,
    }
}

/// An operation of the configuration has a name, and perhaps a duration.
fn of_configured(api: &'static dyn Api, route: &Route, path: String, config: &Config) -> Row {
    let name = path.trim_start_matches(api.prefix()).trim_start_matches('/').to_owned();
    let words: String = name.split(['/', '-']).rev().map(capital).collect();
    let expected = config.operations.iter().find(|(known, _)| **known == *name);
    let usual = match expected.and_then(|(_, operation)| operation.expected) {
        Some(expected) => format!(" Usually takes {} seconds.", expected.as_secs()),
        None => String::new(),
    };
    let row = row(api, route, path, config);
    Row {
        id: format!("{}{words}", row.id),
        summary: format!("{}{usual}", row.summary.replace("{}", &name)),
        ..row
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// The names of the parameters of a path.
pub(super) fn path_parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// What a parameter of a path is.
pub(super) fn about(name: &str, path: &str) -> &'static str {
    match name {
        "client_id" => "The client.",
        "code" => "The error code.",
        "delivery_id" => "The delivery.",
        "group" => "The group.",
        "jobId" => "The execution, as its submission or a retry named it.",
        "job_id" => "The job.",
        "key" => "The key of the limit.",
        "key_id" => "The key.",
        "name" if path.contains("/queues/") => "The name of the queue.",
        "name" if path.contains("/schemas/") => "The type of jobs.",
        "name" if path.contains("/pools/") => "The name of the pool.",
        "name" if path.contains("/signals/") => "The name of the signal.",
        "name" => "The name of the schedule.",
        "queue" if path.starts_with("/ojs") => "The name of the queue.",
        "queue" => "The name that all meant queues have.",
        "slug" => "The last part of the `type`.",
        "step" => "The name of the step.",
        "tenant" => "The tenant.",
        "version" => "The version of the schema.",
        "webhook_id" => "The webhook.",
        "worker_id" => "What the worker calls itself.",
        "workflow_id" => "The workflow: the id of its own job.",
        "token" => "The token of the wait, from the view of its workflow.",
        _ => "",
    }
}

impl Row {
    pub(super) fn is_of_ojs(&self) -> bool {
        self.api.is_some_and(|api| api.dialect() == Dialect::Ojs)
    }

    fn dialect(&self) -> Dialect {
        self.api.map_or(Dialect::Forge, Api::dialect)
    }

    /// Whether answers say how much is left of a limit.
    pub(super) fn is_counted(&self) -> bool {
        self.rate != RateCount::Uncounted
            && !matches!(self.callers, Callers::Anyone | Callers::AnyoneOrOperator | Callers::Operator)
    }

    /// The word for its dialect in names of components.
    pub(super) fn dialect_name(&self) -> &'static str {
        match self.dialect() {
            Dialect::Forge => "v1",
            Dialect::Operations => "api",
            Dialect::Ojs => "ojs",
        }
    }

    /// The schema of its refusals.
    pub(super) fn problem_schema(&self) -> &'static str {
        match self.dialect() {
            Dialect::Forge => "Problem",
            Dialect::Operations => "OperationProblem",
            Dialect::Ojs => "OjsError",
        }
    }

    /// The media types of its refusals, XML aside.
    pub(super) fn refusal_types(&self) -> Vec<&'static str> {
        let own: &[&str] = if self.is_of_ojs() { self.media_types } else { &[] };
        own.iter().copied().chain([MEDIA_TYPE_JSON]).collect()
    }

    /// Whether browsers get its refusals as pages.
    pub(super) fn answers_browsers(&self) -> bool {
        self.api.is_some_and(Api::answers_browsers)
    }

    /// The status of a refusal of this kind.
    pub(super) fn refusal_status(&self, config: &Config, kind: Kind) -> u16 {
        match self.api {
            Some(api) => api.refusal_status(config, kind),
            None => forgerun_wire::status::http(kind, Dialect::Forge),
        }
    }

    /// A refusal as its caller gets it.
    pub(super) fn refusal_example(&self, config: &Config, base: &str, refused: &RefusedRequest) -> Value {
        const INSTANCE: &str = "urn:uuid:01890a5d-ac96-774b-bcce-b302099a8057";
        let problem = || {
            let problem = refused.problem(self.dialect(), base, INSTANCE);
            serde_json::from_str(&problem.to_json()).expect("a problem is JSON")
        };
        self.api.and_then(|api| api.refusal_example(config, base, refused, INSTANCE)).unwrap_or_else(problem)
    }
}
