//! The routes of `/api/v1`, and what each allows. Ids are parsed here, once; one that is no id is an id of nothing, which the
//! handlers answer when it is their turn.

use axum::http::Method;
use forge_core::id::{ExecutionId, JobId};

use crate::config::{Operation, Operations};

/// Where a request goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Route<'a> {
    Jobs,
    Batch,
    Job(Option<ExecutionId>),
    Cancel(Option<ExecutionId>),
    Events(Option<ExecutionId>),
    Items(Option<ExecutionId>),
    Result(Option<ExecutionId>),
    Report(Option<ExecutionId>),
    Download(Option<ExecutionId>),
    Results(Option<ExecutionId>),
    Operation(Declared<'a>),
}

/// An operation of the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Declared<'a> {
    /// As it is declared: `reports/generate`.
    pub(super) name: &'a str,
    pub(super) operation: &'a Operation,
}

impl<'a> Route<'a> {
    /// The route of the path below `/api/v1`. A slash at the end makes it another path, which does not exist; a declared
    /// operation goes before what would otherwise be an id.
    pub(super) fn find(rest: &'a str, operations: &'a Operations) -> Option<Route<'a>> {
        let name = rest.strip_prefix('/')?;
        if let Some(operation) = operations.get(name) {
            return Some(Route::Operation(Declared { name, operation }));
        }
        let mut segments = name.split('/');
        let path = (segments.next()?, segments.next(), segments.next(), segments.next());
        match path {
            ("jobs", None, ..) => Some(Route::Jobs),
            ("jobs", Some("batch"), None, _) => Some(Route::Batch),
            ("jobs", Some(id), None, _) if !id.is_empty() => Some(Route::Job(id.parse().ok())),
            ("jobs", Some(id), Some("cancel"), None) => Some(Route::Cancel(id.parse().ok())),
            ("jobs", Some(id), Some("events"), None) => Some(Route::Events(id.parse().ok())),
            ("jobs", Some(id), Some("items"), None) => Some(Route::Items(id.parse().ok())),
            ("jobs", Some(id), Some("result"), None) => Some(Route::Result(id.parse().ok())),
            ("reports", Some(id), None, _) if !id.is_empty() => Some(Route::Report(id.parse().ok())),
            ("reports", Some(id), Some("download"), None) => Some(Route::Download(id.parse().ok())),
            ("results", Some(id), None, _) if !id.is_empty() => Some(Route::Results(id.parse().ok())),
            _ => None,
        }
    }

    /// The methods of the route, as `Allow` lists them.
    pub(super) const fn methods(self) -> &'static str {
        match self {
            Route::Job(_) => "GET, HEAD, DELETE",
            Route::Events(_)
            | Route::Items(_)
            | Route::Result(_)
            | Route::Report(_)
            | Route::Download(_)
            | Route::Results(_) => "GET, HEAD",
            Route::Jobs | Route::Batch | Route::Cancel(_) | Route::Operation(_) => "POST",
        }
    }

    /// Whether the method is one of them.
    pub(super) fn allows(self, method: &Method) -> bool {
        self.methods().split(", ").any(|allowed| allowed == method.as_str())
    }

    /// The pattern of the route, for logs and metrics.
    pub(super) const fn pattern(self) -> &'static str {
        match self {
            Route::Jobs => "/api/v1/jobs",
            Route::Batch => "/api/v1/jobs/batch",
            Route::Job(_) => "/api/v1/jobs/{jobId}",
            Route::Cancel(_) => "/api/v1/jobs/{jobId}/cancel",
            Route::Events(_) => "/api/v1/jobs/{jobId}/events",
            Route::Items(_) => "/api/v1/jobs/{jobId}/items",
            Route::Result(_) => "/api/v1/jobs/{jobId}/result",
            Route::Report(_) => "/api/v1/reports/{jobId}",
            Route::Download(_) => "/api/v1/reports/{jobId}/download",
            Route::Results(_) => "/api/v1/results/{jobId}",
            Route::Operation(_) => "/api/v1/{resource}/{action}",
        }
    }

    /// Whether it answers with what a job left.
    pub(super) const fn is_result(self) -> bool {
        match self {
            Route::Result(_) | Route::Report(_) | Route::Download(_) | Route::Results(_) => true,
            Route::Jobs
            | Route::Batch
            | Route::Job(_)
            | Route::Cancel(_)
            | Route::Events(_)
            | Route::Items(_)
            | Route::Operation(_) => false,
        }
    }

    /// The execution it is about, by the id that its job would have.
    pub(super) fn subject(self) -> Option<JobId> {
        let execution = match self {
            Route::Job(id)
            | Route::Cancel(id)
            | Route::Events(id)
            | Route::Items(id)
            | Route::Result(id)
            | Route::Report(id)
            | Route::Download(id)
            | Route::Results(id) => id,
            Route::Jobs | Route::Batch | Route::Operation(_) => None,
        };
        execution.map(|id| JobId::from_u128(id.as_u128()))
    }
}

#[cfg(test)]
mod tests {
    use forge_wire::openapi;

    use crate::config::{Config, Sources};

    use super::*;

    const ALL: [Route<'_>; 10] = [
        Route::Jobs,
        Route::Batch,
        Route::Job(None),
        Route::Cancel(None),
        Route::Events(None),
        Route::Items(None),
        Route::Result(None),
        Route::Report(None),
        Route::Download(None),
        Route::Results(None),
    ];

    fn pattern(rest: &str) -> Option<&'static str> {
        let config = Config::load(&Sources::default()).unwrap();
        Route::find(rest, &config.operations).map(Route::pattern)
    }

    #[test]
    fn every_pattern_is_found_and_nothing_else() {
        for route in ALL {
            // Any text that is no id will do: it leads to the route with an id of nothing.
            let path = route.pattern().replace(['{', '}'], "");
            let rest = path.strip_prefix("/api/v1").unwrap();
            assert_eq!(pattern(rest), Some(route.pattern()), "{path}");
            assert_eq!(pattern(&format!("{rest}/")), None, "{path}/");
            assert_eq!(pattern(&format!("{rest}/more/and/more")), None);
        }
        for rest in
            ["", "/", "/jobs/", "//jobs", "/Jobs", "/reports", "/results", "/reports/x/y", "/images/resize"]
        {
            assert_eq!(pattern(rest), None, "{rest}");
        }
        assert_eq!(pattern("/reports/generate"), Some("/api/v1/{resource}/{action}"));
    }

    #[test]
    fn the_openapi_document_has_every_route_and_method_and_no_other() {
        let declared = [openapi::Declared { name: "reports/generate", expected: None }];
        let document = openapi::document_with("", &declared);
        let mut documented = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            let methods = item.as_object().unwrap().keys().map(|method| method.to_uppercase());
            documented.extend(methods.map(|method| (path.as_str(), method)));
        }
        documented.retain(|(path, _)| path.starts_with("/api/v1"));
        let methods = |route: Route<'static>| route.methods().split(", ").filter(|method| *method != "HEAD");
        let mut routed: Vec<(&str, String)> = ALL
            .into_iter()
            .flat_map(|route| methods(route).map(move |method| (route.pattern(), method.to_owned())))
            .collect();
        routed.push(("/api/v1/reports/generate", "POST".to_owned()));
        documented.sort();
        routed.sort();
        assert_eq!(documented, routed);
    }

    #[test]
    fn an_operation_that_is_not_declared_does_not_exist() {
        let without = ("FORGERUN_OPERATIONS__REPORTS_GENERATE__ENABLED".into(), "false".into());
        let config = Config::load(&Sources { environment: vec![without], ..Sources::default() }).unwrap();
        let route = Route::find("/reports/generate", &config.operations).unwrap();
        assert!(matches!(route, Route::Report(None)), "{route:?}");
        assert!(!route.allows(&Method::POST));
    }
}
