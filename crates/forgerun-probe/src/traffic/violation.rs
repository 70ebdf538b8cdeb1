//! A broken guarantee, with the request that shows it.

use super::call::Call;
use crate::http::Answer;
use crate::limits::{SHOWN_CHARS_MAX, VIOLATIONS_MAX};

#[derive(Clone, Debug)]
pub struct Violation {
    /// Requirement id, as in the ledger.
    pub id: &'static str,
    pub what: String,
    /// The request after which it was seen.
    pub request: String,
    pub response: String,
    /// The request for a shell; the key comes from `FORGERUN_API_KEY`.
    pub curl: String,
    /// How often it was seen; the rest is of the first time.
    pub count: u64,
}

/// Violations, with repetitions counted.
#[derive(Default)]
pub(super) struct Violations {
    list: Vec<Violation>,
    n: u64,
}

impl Violations {
    pub(super) fn add(
        &mut self,
        base: &str,
        id: &'static str,
        what: String,
        call: &Call,
        answer: Option<&Answer>,
    ) {
        self.n += 1;
        if let Some(known) = self.list.iter_mut().find(|known| known.id == id && known.what == what) {
            known.count += 1;
        } else if self.list.len() < VIOLATIONS_MAX {
            let response = answer.map_or("no answer".to_owned(), shown);
            let curl = call.curl(base);
            self.list.push(Violation { id, what, request: call.shown(), response, curl, count: 1 });
        }
    }

    pub(super) fn n(&self) -> u64 {
        self.n
    }

    pub(super) fn into_list(self) -> Vec<Violation> {
        self.list
    }
}

fn shown(answer: &Answer) -> String {
    let body = String::from_utf8_lossy(&answer.body);
    cut(&format!("{} {}\n{body}", answer.status, answer.header("content-type")))
}

pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
