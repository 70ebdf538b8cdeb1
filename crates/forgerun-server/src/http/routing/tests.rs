//! The tables of all APIs.

use axum::http::Method;

use super::*;
use crate::auth::OperatorRole;
use crate::config::{Config, Sources};
use crate::dialects;

fn tables(environment: &[(&str, &str)]) -> Vec<Table> {
    let environment = environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let config = Config::load(&Sources { environment, ..Sources::default() }).unwrap();
    dialects::ALL.iter().map(|api| Table::new(*api, &config)).collect()
}

/// The pattern of a path, and its methods as `Allow` lists them.
fn at(tables: &[Table], path: &str) -> Option<(&'static str, String)> {
    let table = tables.iter().find(|table| table.covers(path))?;
    table.at(path).map(|(methods, _)| (methods.pattern, methods.allow()))
}

fn rows() -> impl Iterator<Item = &'static Route> {
    dialects::ALL.iter().flat_map(|api| api.routes().iter().copied().flatten())
}

#[test]
fn every_route_is_found_at_its_path_and_below_its_prefix_and_nowhere_else() {
    let tables = tables(&[]);
    for (api, own) in dialects::ALL.into_iter().zip(&tables) {
        for route in api.routes().iter().copied().flatten() {
            // Any text will do for a parameter.
            let path = route.path.replace(['{', '}'], "");
            assert!(path == api.prefix() || path.starts_with(&format!("{}/", api.prefix())), "{path}");
            let (pattern, allow) = at(&tables, &path).expect(&path);
            assert_eq!(pattern, route.path);
            assert!(allow.split(", ").any(|word| word == route.verb.word()), "{path}: {allow}");
            let with_slash = format!("{path}/");
            if !rows().any(|other| other.path == with_slash) {
                assert_eq!(at(&tables, &with_slash), None, "{with_slash}");
            }
            assert_eq!(at(&tables, &format!("{path}/more/and/more")), None);
        }
        for path in ["", "/", "/nothing", "/Jobs", "//jobs", "/jobs/"] {
            let path = format!("{}{path}", api.prefix());
            let takes_any = |route: &Route| {
                let rest = route.path.strip_prefix(api.prefix()).and_then(|rest| rest.strip_prefix("/{"));
                rest.is_some_and(|rest| !rest.contains('/')) && path.trim_end_matches('/') == path
            };
            let mut routes = api.routes().iter().copied().flatten();
            if routes.any(|route| route.path == path || (takes_any(route) && path != api.prefix())) {
                continue;
            }
            assert!(tables.iter().any(|table| table.covers(&path)), "{path} is refused in the API's words");
            assert_eq!(at(&tables, &path), None, "{path}");
        }
        assert!(!own.covers(&format!("{}2/jobs", api.prefix())));
    }
    for path in
        ["/v1/clients/x/more", "/api/v1/reports", "/api/v1/results", "/api/v1/images/resize", "/health"]
    {
        assert_eq!(at(&tables, path), None, "{path}");
    }
}

#[test]
fn a_path_allows_what_its_routes_are_for_and_head_goes_where_get_goes() {
    let tables = tables(&[]);
    for (path, allow) in [
        ("/v1/jobs", "GET, HEAD, POST"),
        ("/v1/jobs/batch", "POST"),
        ("/v1/jobs/no-id", "GET, HEAD, DELETE"),
        ("/v1/jobs/no-id/cancel", "POST"),
        ("/v1/webhooks/no-id", "GET, HEAD, PATCH, DELETE"),
        ("/api/v1/jobs", "POST"),
        ("/api/v1/jobs/no-id", "GET, HEAD, DELETE"),
    ] {
        assert_eq!(at(&tables, path).expect(path).1, allow, "{path}");
    }
    for (path, method, action) in [
        ("/v1/jobs", Method::GET, Some("list")),
        ("/v1/jobs", Method::HEAD, Some("list")),
        ("/v1/jobs", Method::POST, Some("submit")),
        ("/v1/jobs", Method::PUT, None),
        ("/v1/jobs/x", Method::DELETE, Some("delete")),
        ("/v1/jobs/x/cancel", Method::GET, None),
        ("/v1/clients", Method::OPTIONS, None),
        ("/api/v1/jobs/x", Method::DELETE, Some("cancel")),
    ] {
        let table = tables.iter().find(|table| table.covers(path)).unwrap();
        let route = table.at(path).unwrap().0.route(&method);
        assert_eq!(route.map(|route| route.action), action, "{method} {path}");
    }
}

#[test]
fn an_operation_goes_before_an_id_and_exists_only_if_it_is_declared() {
    let path = "/api/v1/reports/generate";
    assert_eq!(at(&tables(&[]), path), Some(("/api/v1/{resource}/{action}", "POST".to_owned())));
    let without = tables(&[("FORGERUN_OPERATIONS__REPORTS_GENERATE__ENABLED", "false")]);
    assert_eq!(at(&without, path), Some(("/api/v1/reports/{jobId}", "GET, HEAD".to_owned())));
}

#[test]
fn the_parameters_of_a_path_are_its_own_words() {
    let tables = tables(&[]);
    let path = "/v1/webhooks/one/deliveries/t%77o";
    let table = tables.iter().find(|table| table.covers(path)).unwrap();
    let (_, parameters) = table.at(path).unwrap();
    assert_eq!(parameters.get(path, "webhook_id"), Some("one"));
    assert_eq!(parameters.get(path, "delivery_id"), Some("t%77o"));
    assert_eq!(parameters.get(path, "job_id"), None);
    for (raw, text) in
        [("one", "one"), ("t%77o", "two"), ("a%2Fb", "a/b"), ("%C3%A4", "ä"), ("%FF", "\u{fffd}")]
    {
        assert_eq!(table::decoded(raw), text, "{raw}");
    }
}

#[test]
fn every_route_has_a_word_for_the_log() {
    for route in rows() {
        let word = |letter: char| letter.is_ascii_lowercase() || letter == '_';
        assert!(!route.action.is_empty() && route.action.chars().all(word), "{}", route.path);
    }
}

#[test]
fn every_route_of_operators_names_its_role_and_only_a_log_out_changes_something_for_viewers() {
    let roled = rows().filter(|route| route.access.callers() == Callers::Operator);
    let mut n_routes = 0;
    for route in roled {
        let (verb, path) = (route.verb.word(), route.path);
        let role = route.role.unwrap_or_else(|| panic!("{verb} {path} needs `.role(…)`"));
        let is_for_viewers = route.verb == Verb::Get || path == "/dashboard/logout";
        assert_eq!(role == OperatorRole::Viewer, is_for_viewers, "{verb} {path} is for the role {role:?}");
        n_routes += 1;
    }
    assert!(n_routes > 50, "{n_routes}");
    let others = rows().filter(|route| route.access.callers() != Callers::Operator);
    for route in others {
        assert_eq!(route.role, None, "{} is not for operators alone", route.path);
    }
    let contents: Vec<&str> = rows().filter(|route| route.shows_contents).map(|route| route.path).collect();
    assert_eq!(contents.iter().filter(|path| path.ends_with("/logs")).count(), 2, "{contents:?}");
}

#[test]
fn every_route_of_clients_names_its_scope_and_no_other_route_has_one() {
    for route in rows() {
        let is_for_clients = match route.access.callers() {
            Callers::FirstKey | Callers::ClientOrOperator | Callers::Client => true,
            Callers::Anyone | Callers::AnyoneOrOperator | Callers::Operator => false,
        };
        let (verb, path) = (route.verb.word(), route.path);
        if is_for_clients {
            assert!(!route.scopes.is_empty(), "{verb} {path} needs `.scope(…)`");
        } else if route.verb != Verb::Get {
            assert!(route.scopes.is_empty(), "{verb} {path} is not for clients");
        }
    }
}
