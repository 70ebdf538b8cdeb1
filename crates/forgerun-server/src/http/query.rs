//! Query parameters, parsed as strictly as bodies: unknown names and invalid values are refused,
//! since an ignored filter would answer another question. Open Job Spec's own tools send names that
//! other servers know, so unknown names are ignored there.

use axum::http::Uri;
use forgerun_core::catalog::Kind;
use forgerun_wire::problem::RefusedRequest;

use crate::auth::TOKEN_PARAMETER;
use crate::http::{ApiError, Exchange, routing::Api};
use crate::limits::{PAGE_DEFAULT, PAGE_MAX};

pub(crate) struct QueryString(Vec<(String, String)>);

impl QueryString {
    /// Parses the query; `known` are the accepted names.
    pub(crate) fn of(uri: &Uri, known: &[&str]) -> Result<QueryString, ApiError> {
        QueryString::read(uri.query().unwrap_or_default(), known)
    }

    /// Reads the query, of which the parameters of the route are known.
    pub(crate) fn of_route(exchange: &Exchange) -> Result<QueryString, ApiError> {
        match exchange.uri.query() {
            None => Ok(QueryString(Vec::new())),
            Some(text) => {
                let known = exchange.operation.query.iter().map(|parameter| parameter.name);
                let known = known.chain(exchange.operation.job_token.then_some(TOKEN_PARAMETER));
                let known: Vec<&str> = known.collect();
                match exchange.api.is_some_and(Api::takes_any_members) {
                    true => QueryString::read_known(text, &known),
                    false => QueryString::read(text, &known),
                }
            }
        }
    }

    /// Reads the parameters that are known, and no others.
    fn read_known(text: &str, known: &[&str]) -> Result<QueryString, ApiError> {
        let name = |pair: &&str| decoded(pair.split_once('=').map_or(*pair, |(name, _)| name));
        let pairs =
            text.split('&').filter(|pair| name(pair).is_none_or(|name| known.contains(&name.as_str())));
        QueryString::read(&pairs.collect::<Vec<_>>().join("&"), known)
    }

    /// Reads a text in the form of a query, such as the body of a form.
    pub(crate) fn read(text: &str, known: &[&str]) -> Result<QueryString, ApiError> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let decode = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, decoded(value)?))
        };
        let mut parameters = Vec::new();
        for pair in pairs {
            let Some((name, value)) = decode(pair) else {
                return Err(ApiError::new(Kind::MalformedRequest, "The query is not percent-encoded UTF-8."));
            };
            if !known.contains(&name.as_str()) {
                let detail = match known {
                    [] => format!("The query parameter `{}` is unknown: this route has none.", plain(&name)),
                    known => format!(
                        "The query parameter `{}` is unknown; expected one of {}.",
                        plain(&name),
                        known.join(", ")
                    ),
                };
                return Err(RefusedRequest::new(Kind::MalformedRequest, detail)
                    .fact("constraint", "unknown")
                    .into());
            }
            if value.contains('\0') {
                return Err(refused(
                    Kind::MalformedRequest,
                    &name,
                    "must not contain a NUL character",
                    "format",
                ));
            }
            parameters.push((name, value));
        }
        Ok(QueryString(parameters))
    }

    /// The first value of a parameter; an empty one counts as missing.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let given = self.0.iter().find(|(known, value)| known == name && !value.is_empty());
        given.map(|(_, value)| value.as_str())
    }

    /// All values of a parameter, repeated or separated by commas.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let values = self.0.iter().filter(move |(known, _)| known == name);
        values.flat_map(|(_, value)| value.split(',')).map(str::trim).filter(|value| !value.is_empty())
    }

    /// The page size. Lists that know `per_page` accept that too.
    pub(crate) fn limit(&self) -> Result<usize, ApiError> {
        let given = ["limit", "per_page"].into_iter().find_map(|name| Some((name, self.get(name)?)));
        let Some((name, limit)) = given else { return Ok(PAGE_DEFAULT) };
        match limit.parse::<usize>() {
            Ok(limit @ 1..=PAGE_MAX) => Ok(limit),
            Ok(_) | Err(_) => {
                Err(self.malformed(name, &format!("must be a whole number from 1 to {PAGE_MAX}")))
            }
        }
    }

    /// A boolean parameter.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(self.malformed(name, "must be true or false")),
        }
    }

    /// A parameter is malformed.
    pub(crate) fn malformed(&self, name: &str, detail: &str) -> ApiError {
        refused(Kind::MalformedRequest, name, detail, "format")
    }

    /// A parameter is well formed, but invalid.
    pub(crate) fn invalid(&self, name: &str, detail: &str) -> ApiError {
        refused(Kind::InvalidArgs, name, detail, "enum")
    }
}

fn refused(kind: Kind, name: &str, detail: &str, constraint: &str) -> ApiError {
    let refused = RefusedRequest::new(kind, format!("The query parameter `{name}` {detail}."));
    refused.fact("field", name).fact("constraint", constraint).into()
}

/// A client's text, shortened and without harmful characters, to be repeated.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')).take(64).collect()
}

/// Decodes `%XX` and `+`; `None` if it is malformed.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || (rest.next()? as char).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Result<QueryString, ApiError> {
        QueryString::of(&format!("/v1/jobs?{text}").parse().unwrap(), &["state", "limit"])
    }

    #[test]
    fn values_come_one_by_one_decoded() {
        let query = query("state=a,b&state=c%20d&state=e+f&&limit=").unwrap();
        assert_eq!(query.all("state").collect::<Vec<_>>(), ["a", "b", "c d", "e f"]);
        assert_eq!(query.get("limit"), None);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for text in ["stat=a", "state=%zz", "state=%f", "state=%ff", "%3Cscript%3E=1"] {
            assert_eq!(query(text).err().unwrap().kind(), Kind::MalformedRequest, "{text}");
        }
    }

    #[test]
    fn a_limit_is_at_least_one_and_at_most_the_most() {
        for (text, limit) in [("", Some(PAGE_DEFAULT)), ("limit=7", Some(7)), ("limit=200", Some(PAGE_MAX))] {
            assert_eq!(query(text).unwrap().limit().ok(), limit, "{text}");
        }
        for text in ["limit=0", "limit=-1", "limit=many", "limit=201", "limit=99999999999999999999"] {
            assert!(query(text).unwrap().limit().is_err(), "{text}");
        }
    }
}
