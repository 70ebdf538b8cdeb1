//! The routes of an API by path: finds the route of a request, and the methods of its path.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::http::Method;
use axum::response::Response;
use forgerun_core::id::JobId;
use percent_encoding::percent_decode_str;

use super::{Api, Route, Verb};
use crate::app::App;
use crate::config::Config;
use crate::http::{ApiError, Exchange, cors};

/// Maximum number of path parameters.
const PARAMETERS_MAX: usize = 3;

pub(crate) struct Table {
    api: &'static dyn Api,
    paths: matchit::Router<Methods>,
}

/// The methods of one path.
pub(super) struct Methods {
    /// With parameters in braces.
    pub(super) pattern: &'static str,
    /// Names of its parameters, in order.
    parameters: Vec<&'static str>,
    /// In the order of `Allow`.
    routes: Vec<&'static Route>,
}

/// Positions of the parameters in a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parameters([Option<PathParameter>; PARAMETERS_MAX]);

/// `http::Uri` refuses paths longer than a `u16`.
#[derive(Clone, Copy, Debug)]
struct PathParameter {
    name: &'static str,
    from: u16,
    to: u16,
}

impl Parameters {
    /// The parameter as it is in `path`, not decoded.
    pub(crate) fn get<'a>(&self, path: &'a str, name: &str) -> Option<&'a str> {
        let found = self.0.iter().flatten().find(|parameter| parameter.name == name)?;
        path.get(found.from.into()..found.to.into())
    }
}

impl Table {
    /// The table of an API for this configuration.
    ///
    /// # Panics
    ///
    /// If two routes conflict, which a test detects.
    pub(crate) fn new(api: &'static dyn Api, config: &Config) -> Table {
        let fixed = api.routes().iter().copied().flatten().map(|route| (route.path.to_owned(), route));
        let mut by_path: BTreeMap<String, Vec<&'static Route>> = BTreeMap::new();
        for (path, route) in fixed.chain(api.configured(config)) {
            by_path.entry(path).or_default().push(route);
        }
        let mut paths = matchit::Router::new();
        for (path, mut routes) in by_path {
            routes.sort_by_key(|route| route.verb);
            assert!(routes.is_sorted_by(|one, next| one.verb < next.verb), "{path} has a method twice");
            let pattern = routes[0].path;
            let parameters = if path == pattern { names(pattern) } else { Vec::new() };
            assert!(parameters.len() <= PARAMETERS_MAX, "{path} has too many parameters");
            paths.insert(&path, Methods { pattern, parameters, routes }).expect("paths that differ");
        }
        Table { api, paths }
    }

    pub(crate) fn covers(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.api.prefix());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The route of a request. Stores the route's properties in the exchange.
    pub(crate) fn find(&self, exchange: &mut Exchange) -> Result<&'static Route, ApiError> {
        exchange.api = Some(self.api);
        exchange.dialect = self.api.dialect();
        let path = exchange.uri.path();
        let (methods, parameters) = self.at(path).ok_or_else(ApiError::route)?;
        let job = parameters.get(path, self.api.job_parameter());
        exchange.subject = job.and_then(|id| decoded(id).parse::<JobId>().ok());
        exchange.parameters = parameters;
        exchange.route = methods.pattern;
        let route = methods.route(&exchange.method).ok_or_else(|| ApiError::method(&methods.allow()))?;
        exchange.action = route.action;
        exchange.operation = &route.operation;
        Ok(route)
    }

    /// The answer to a preflight of a page that may call. `None` for any other request.
    pub(crate) fn preflight(&self, app: &App, exchange: &Exchange) -> Option<Response> {
        let (methods, _) = self.at(exchange.uri.path())?;
        cors::preflight(app, exchange, &methods.allow())
    }

    /// The methods of a path. A trailing slash makes it another path.
    pub(super) fn at(&self, path: &str) -> Option<(&Methods, Parameters)> {
        let found = self.paths.at(path).ok()?;
        let mut parameters = Parameters::default();
        let values = found.value.parameters.iter().map(|name| (name, found.params.get(name)));
        for (place, (name, value)) in parameters.0.iter_mut().zip(values) {
            let value = value?;
            let from = value.as_ptr().addr() - path.as_ptr().addr();
            *place = Some(PathParameter { name, from: from as u16, to: (from + value.len()) as u16 });
        }
        Some((found.value, parameters))
    }
}

impl Methods {
    pub(super) fn route(&self, method: &Method) -> Option<&'static Route> {
        self.routes.iter().copied().find(|route| route.verb.serves(method))
    }

    /// The value of `Allow`.
    pub(super) fn allow(&self) -> String {
        let words = |route: &&'static Route| match route.verb {
            Verb::Get => "GET, HEAD",
            verb => verb.word(),
        };
        self.routes.iter().map(words).collect::<Vec<_>>().join(", ")
    }
}

/// Decodes a part of a path; hardly any has escapes. Bytes that are not text are replaced.
pub(super) fn decoded(raw: &str) -> Cow<'_, str> {
    if raw.contains('%') { percent_decode_str(raw).decode_utf8_lossy() } else { Cow::Borrowed(raw) }
}

fn names(pattern: &'static str) -> Vec<&'static str> {
    let segments = pattern.split('/');
    segments.filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}')).collect()
}
