//! Results that the server names by an address, `{"$ref": URL}`, because they are too large to be handed out with others.

use std::collections::BTreeMap;
use std::pin::Pin;

use forgerun_wire::workflow::StepResultsView;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::client::Client;
use crate::download::Download;
use crate::error::Error;
use crate::path::segment;

/// Bytes of a result that are fetched; more would not fit into memory beside others.
const RESULT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// References within references that are followed: as deep as workflows are nested, and some more.
const DEPTH_MAX: usize = 12;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reference {
    #[serde(rename = "$ref")]
    url: String,
}

/// What an address of a result is about. Only its ids count: a key is sent to the own server alone.
enum Target<'u> {
    Job(&'u str),
    Workflow(&'u str),
}

impl Target<'_> {
    fn of(url: &str) -> Option<Target<'_>> {
        let between = |before: &str, after: &str| {
            let (_, rest) = url.split_once(before)?;
            rest.strip_suffix(after).filter(|id| !id.contains('/'))
        };
        let job = between("/ojs/v1/jobs/", "/result").map(Target::Job);
        job.or_else(|| between("/v1/workflows/", "/results").map(Target::Workflow))
    }
}

/// The value, or what it refers to.
pub(crate) async fn whole(client: &Client, value: &RawValue) -> Result<Box<RawValue>, Error> {
    follow(client, value, 0).await
}

type Followed<'f> = Pin<Box<dyn Future<Output = Result<Box<RawValue>, Error>> + Send + 'f>>;

fn follow<'f>(client: &'f Client, value: &'f RawValue, depth: usize) -> Followed<'f> {
    Box::pin(async move {
        let reference: Option<Reference> = serde_json::from_str(value.get()).ok();
        let Some(reference) = reference.filter(|_| depth < DEPTH_MAX) else { return Ok(value.to_owned()) };
        match Target::of(&reference.url) {
            None => Ok(value.to_owned()),
            Some(Target::Job(id)) => {
                let url = client.url(&format!("ojs/v1/jobs/{}/result", segment(id)))?;
                let bytes = Download::open(client, url).await?.bytes(RESULT_BYTES_MAX).await?;
                // A result that is no JSON stays a reference.
                Ok(serde_json::from_slice(&bytes).unwrap_or_else(|_| value.to_owned()))
            }
            Some(Target::Workflow(id)) => of_workflow(client, id, depth).await,
        }
    })
}

/// The results of the elements of a list, or of the steps of a workflow by their ids.
async fn of_workflow(client: &Client, id: &str, depth: usize) -> Result<Box<RawValue>, Error> {
    let (mut names, mut results): (Vec<String>, Vec<Box<RawValue>>) = (Vec::new(), Vec::new());
    let mut cursor: Option<String> = None;
    loop {
        let mut call = client.get(&format!("v1/workflows/{}/results", segment(id)))?;
        {
            let mut query = call.url_mut().query_pairs_mut();
            query.append_pair("limit", "100");
            query.extend_pairs(cursor.iter().map(|cursor| ("cursor", cursor)));
        }
        let page: StepResultsView = client.fetch(&call).await?;
        for entry in page.results {
            let result = match &entry.result {
                Some(result) => follow(client, result, depth + 1).await?,
                None => joined(&()),
            };
            names.push(entry.id);
            results.push(result);
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(match &*page.form {
                "for_each" => joined(&results),
                _ => joined(&names.into_iter().zip(results).collect::<BTreeMap<_, _>>()),
            });
        }
    }
}

fn joined(results: &impl Serialize) -> Box<RawValue> {
    to_raw_value(results).expect("JSON under names that are text is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_results_are_followed() {
        let of = |url: &str| match Target::of(url) {
            Some(Target::Job(id)) => format!("job {id}"),
            Some(Target::Workflow(id)) => format!("workflow {id}"),
            None => "none".into(),
        };
        assert_eq!(of("http://host:1/base/ojs/v1/jobs/a-1/result"), "job a-1");
        assert_eq!(of("/v1/workflows/b-2/results"), "workflow b-2");
        for url in ["http://host/v1/jobs/a", "/ojs/v1/jobs/a/b/result", "/v1/workflows/x", ""] {
            assert_eq!(of(url), "none", "{url}");
        }
    }
}
