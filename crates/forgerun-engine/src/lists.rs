//! Reads the lists of `for_each` steps, which the core must not: they may be large, or lie beside
//! the rows. A list goes to the core in slices. One whose node stops is due again, and another node
//! goes on where it ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use forgerun_core::Command;
use forgerun_core::command::{ListElements, ListRead, ListWanted};
use forgerun_core::id::JobId;
use forgerun_core::limits;
use forgerun_store::Store;
use serde_json::value::RawValue;
use tokio::task::JoinSet;

use crate::Error;
use crate::committer::{CommandQueue, CommitContext};
use crate::step_results::{StepResult, StepResults};

/// Lists that are read at once. Each may be in memory as a whole.
const LISTS_AT_ONCE: usize = 4;

/// Elements in one command.
const SLICE_ELEMENTS: usize = 1000;

/// Bytes of elements in one command, roughly.
const SLICE_BYTES: usize = 512 * 1024;

/// The lists being read. Dropping it cuts them off.
#[derive(Default)]
pub(crate) struct Lists(JoinSet<()>);

impl Lists {
    /// Begins to read lists. Waits while too many are being read.
    pub(crate) async fn read(
        &mut self,
        context: &Arc<CommitContext>,
        commands: &CommandQueue,
        wanted: Vec<ListWanted>,
    ) {
        for wanted in wanted {
            while self.0.try_join_next().is_some() {}
            if self.0.len() >= LISTS_AT_ONCE {
                self.0.join_next().await;
            }
            let (context, commands) = (context.clone(), commands.clone());
            self.0.spawn(async move {
                let id = wanted.id;
                if let Err(error) = read_list(&*context.store, &commands, wanted).await {
                    tracing::warn!(%id, %error, "list not read: trying again");
                }
            });
        }
    }
}

async fn read_list(store: &dyn Store, commands: &CommandQueue, wanted: ListWanted) -> Result<(), Error> {
    let found = match result_with_list(store, wanted.source).await? {
        Ok(bytes) => elements(&bytes, &wanted.pointer),
        Err(message) => Err(message),
    };
    let (id, mut first) = (wanted.id, wanted.n_known);
    match found {
        Err(message) => send(commands, id, first, ListRead::Failed(message)).await?,
        Ok(elements) => {
            let mut left = elements.into_iter().skip(first as usize).peekable();
            loop {
                let mut slice: Vec<Vec<u8>> = Vec::new();
                let mut n_bytes = 0;
                while slice.len() < SLICE_ELEMENTS && n_bytes < SLICE_BYTES {
                    let Some(element) = left.next() else { break };
                    n_bytes += element.len();
                    slice.push(element);
                }
                let (n, is_last) = (slice.len() as u32, left.peek().is_none());
                send(commands, id, first, ListRead::Elements { elements: slice, is_last }).await?;
                if is_last {
                    return Ok(());
                }
                first += n;
            }
        }
    }
    Ok(())
}

async fn send(commands: &CommandQueue, id: JobId, first: u32, read: ListRead) -> Result<(), Error> {
    let list = ListElements { id, first, read };
    commands.run(Command::ListElements(Box::new(list))).await.map(drop)
}

/// The result that has the list, or why there is none.
async fn result_with_list(store: &dyn Store, source: JobId) -> Result<Result<Vec<u8>, String>, Error> {
    let Some(job) = store.job(source).await? else {
        return Ok(Err("The job whose result has the list is gone.".into()));
    };
    let result = StepResults::all(store).of(&job, limits::LIST_BYTES_MAX as usize).await?;
    Ok(match result {
        StepResult::Json(bytes) => Ok(bytes),
        StepResult::Nothing => Err("The step that the list comes from left no result.".into()),
        StepResult::Other(media_type) => {
            Err(format!("The result that should have the list is {media_type}, not JSON."))
        }
        StepResult::TooLarge => {
            let max = limits::LIST_BYTES_MAX / 1024 / 1024;
            Err(format!("The result that has the list has more than {max} MiB."))
        }
    })
}

/// The elements of the list that a JSON pointer leads to, each as JSON.
fn elements(bytes: &[u8], pointer: &str) -> Result<Vec<Vec<u8>>, String> {
    let place = if pointer.is_empty() { "its top".to_owned() } else { format!("`{pointer}`") };
    let nothing = || format!("The result has no list at {place}.");
    let mut value: &RawValue = serde_json::from_slice(bytes).map_err(|_| "The result is not JSON.")?;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        value = member(value, &token).ok_or_else(nothing)?;
    }
    let list: Vec<&RawValue> = serde_json::from_str(value.get()).map_err(|_| nothing())?;
    if list.len() > limits::ELEMENTS_MAX {
        let (n, max) = (list.len(), limits::ELEMENTS_MAX);
        return Err(format!("The list at {place} has {n} elements; at most {max} are accepted."));
    }
    Ok(list.into_iter().map(|element| element.get().as_bytes().to_vec()).collect())
}

fn member<'v>(value: &'v RawValue, token: &str) -> Option<&'v RawValue> {
    if let Ok(object) = serde_json::from_str::<BTreeMap<String, &RawValue>>(value.get()) {
        return object.get(token).copied();
    }
    let list: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
    let is_index = token == "0" || !token.starts_with('0') && token.bytes().all(|byte| byte.is_ascii_digit());
    if is_index { list.get(token.parse::<usize>().ok()?).copied() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_leads_to_the_list_and_elements_keep_their_text() {
        let json = br#"{"a/b": [{"c~": [1, 2.50, "x", {"k": [ ]}]}], "n": 3}"#;
        let found = elements(json, "/a~1b/0/c~0").unwrap();
        let texts: Vec<&str> = found.iter().map(|text| std::str::from_utf8(text).unwrap()).collect();
        assert_eq!(texts, ["1", "2.50", "\"x\"", "{\"k\": [ ]}"]);
        assert_eq!(elements(b"[]", ""), Ok(vec![]));
        for (pointer, message) in [
            ("", "The result has no list at its top."),
            ("/n", "The result has no list at `/n`."),
            ("/a~1b/00", "The result has no list at `/a~1b/00`."),
            ("/a~1b/7", "The result has no list at `/a~1b/7`."),
            ("/missing", "The result has no list at `/missing`."),
        ] {
            assert_eq!(elements(json, pointer), Err(message.into()), "{pointer}");
        }
        assert_eq!(elements(b"{", ""), Err("The result is not JSON.".into()));
    }

    #[test]
    fn a_list_that_is_too_long_is_refused_with_its_length() {
        let json = format!("[{}1]", "1,".repeat(limits::ELEMENTS_MAX));
        let message = "The list at its top has 10001 elements; at most 10000 are accepted.";
        assert_eq!(elements(json.as_bytes(), ""), Err(message.into()));
    }
}
