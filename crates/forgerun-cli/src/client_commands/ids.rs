//! Short ids: commands accept the end of a job or workflow id.

use std::ops::RangeInclusive;

use forgerun_client::Client;
use forgerun_client::forge::Filter;

use super::CommandError;

/// Length of an accepted end, as on the server. A whole id is longer.
const END: RangeInclusive<usize> = 6..=35;

/// Pages that a search reads. The server examines 10,000 jobs for each, the newest first.
const PAGES_MAX: usize = 20;

/// Maximum number of listed candidates.
const CANDIDATES_MAX: usize = 20;

/// The whole id for an id or its end. Other texts are returned unchanged: the server then reports
/// that there is no such job.
pub(super) async fn whole(client: &Client, named: &str) -> Result<String, CommandError> {
    if !is_end(named) {
        return Ok(named.to_owned());
    }
    let mut filter = Filter { id_suffix: Some(named.to_owned()), ..Filter::default() };
    let mut candidates: Vec<String> = Vec::new();
    for _ in 0..PAGES_MAX {
        let page = client.forge().list_json(&filter).await?;
        let jobs = page["jobs"].as_array().into_iter().flatten();
        candidates.extend(jobs.filter_map(|job| job["job_id"].as_str()).map(str::to_owned));
        filter.cursor = page["next_cursor"].as_str().map(str::to_owned);
        if filter.cursor.is_none() || candidates.len() >= CANDIDATES_MAX {
            break;
        }
    }
    match candidates.as_slice() {
        [] => Ok(named.to_owned()),
        [one] => Ok(one.clone()),
        _ => Err(CommandError::Ambiguous { end: named.to_owned(), candidates }),
    }
}

fn is_end(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_hexdigit();
    END.contains(&text.len())
        && text.bytes().any(is_digit)
        && text.bytes().all(|byte| byte == b'-' || is_digit(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_has_six_characters_or_more_and_is_not_a_whole_id() {
        for end in ["9a8057", "9A8057", "bcce-b302099a8057", "1890a5d-ac96-774b-bcce-b302099a8057"] {
            assert!(is_end(end), "{end}");
        }
        for other in ["", "a8057", "------", "9a805g", "01890a5d-ac96-774b-bcce-b302099a8057"] {
            assert!(!is_end(other), "{other}");
        }
    }
}
