//! The items of a batch as others see them: in a submission, in `results` of an outcome, and in the paged list behind it.

use std::collections::BTreeSet;

use forgerun_core::catalog::{Kind, ProcessingStage};
use forgerun_core::item::{Item, ItemEnd, ItemError, Tally};
use forgerun_core::job::Job;
use forgerun_core::limits::{ITEM_ID_BYTES_MAX, ITEMS_MAX};
use forgerun_problem::{ItemOutcome, ItemStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::body;
use crate::members::{self, UnknownMembers};
use crate::problem::{RefusedRequest, Violation};

use crate::language::{self, Language};

/// Items listed in one outcome object. A larger batch lists its failed items only, and no more than this; the rest is behind
/// `itemsUrl`.
pub const LISTED_MAX: usize = 100;

/// A batch of which some items failed lists all of them up to this many, and those that failed beyond. Of the draft's examples,
/// that of a batch of three lists all (§11.6) and that of a webhook, with ten, those that failed (§11.4).
const MIXED_LISTED_MAX: usize = 9;

/// Wrong items that a refusal names. Whoever made this many mistakes made one.
const VIOLATIONS_MAX: usize = 20;

/// The members of an item in one dialect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemMembers {
    /// All of them, as documented.
    pub(crate) known: &'static [&'static str],
    /// Those of a submission that hold for the whole batch and stand beside its items.
    pub(crate) of_whole: &'static [&'static str],
    /// The one that holds what else is said of an item.
    pub(crate) payload: &'static str,
    /// The one that says what kind of work it is for workers outside.
    pub(crate) job_type: &'static str,
    /// What is wrong with such a type, with the rule it breaks.
    pub(crate) bad_job_type: fn(&str) -> Option<(Kind, &'static str, &'static str)>,
}

/// Said of a member that an item cannot have for itself.
const OF_WHOLE: &str = "holds for the batch as a whole; put it beside `items`";

/// Takes the items out of a body.
pub(crate) fn take_items(
    members: &mut Map<String, Value>,
    of_item: ItemMembers,
    unknown: UnknownMembers,
) -> Result<Vec<Item>, Box<RefusedRequest>> {
    let refused = |kind, detail: &str, constraint| {
        let violation = Violation { pointer: "#/items".into(), detail: detail.into(), constraint };
        Err(body::refused(kind, vec![violation], &[]))
    };
    let items = match members.remove("items") {
        Some(Value::Array(items)) => items,
        None | Some(Value::Null) => return refused(Kind::MalformedRequest, "is required", "required"),
        Some(_) => return refused(Kind::MalformedRequest, "must be an array", "type"),
    };
    if items.is_empty() || items.len() > ITEMS_MAX {
        let detail = format!("must have 1 to {ITEMS_MAX} items; it has {}", items.len());
        return refused(Kind::InvalidArgs, &detail, "size");
    }
    let mut reader =
        ItemReader { of_item, unknown, malformed: Vec::new(), invalid: Vec::new(), ids: BTreeSet::new() };
    let items = items.into_iter().enumerate().map(|(place, item)| reader.item(place, item)).collect();
    let ItemReader { malformed, invalid, .. } = reader;
    let kind = if malformed.is_empty() { Kind::InvalidArgs } else { Kind::MalformedRequest };
    let mut wrong = malformed;
    wrong.extend(invalid);
    wrong.truncate(VIOLATIONS_MAX);
    if wrong.is_empty() {
        return Ok(items);
    }
    let lacks_hint =
        wrong.iter().any(|violation| violation.constraint == "unknown" && !members::has_hint(violation));
    let refused = body::refused(kind, wrong, &[]);
    Err(Box::new(if lacks_hint { refused.accepted(of_item.known) } else { *refused }))
}

/// What is wrong with the items of a batch and with what is said of the whole, in one refusal: that of the whole first.
pub(crate) fn both_wrong(items: Box<RefusedRequest>, whole: Box<RefusedRequest>) -> Box<RefusedRequest> {
    let is_malformed = [&items, &whole].iter().any(|refused| refused.kind == Kind::MalformedRequest);
    let kind = if is_malformed { Kind::MalformedRequest } else { whole.kind };
    let accepted = if whole.accepted.is_empty() { items.accepted } else { whole.accepted };
    let mut wrong = whole.violations;
    wrong.extend(items.violations);
    Box::new(RefusedRequest { accepted, ..*body::refused(kind, wrong, &[]) })
}

struct ItemReader {
    of_item: ItemMembers,
    unknown: UnknownMembers,
    malformed: Vec<Violation>,
    invalid: Vec<Violation>,
    ids: BTreeSet<String>,
}

impl ItemReader {
    fn item(&mut self, place: usize, item: Value) -> Item {
        let mut item = match item {
            Value::Object(members) => members,
            _ => {
                self.malformed.push(wrong(place, "", "must be an object", "type"));
                Map::new()
            }
        };
        let id = self.text(&mut item, place, "itemId").unwrap_or_else(|| place.to_string());
        if id.is_empty() || id.len() > ITEM_ID_BYTES_MAX || id.chars().any(char::is_control) {
            let detail = format!("must have 1 to {ITEM_ID_BYTES_MAX} bytes and no control characters");
            self.invalid.push(wrong(place, "/itemId", &detail, "format"));
        } else if !self.ids.insert(id.clone()) {
            self.invalid.push(wrong(place, "/itemId", "is the id of an item before it", "unique"));
        }
        let word = self.text(&mut item, place, "work_kind");
        let work_kind = word.and_then(|word| match body::work_kind(&word) {
            Ok(kind) => Some(kind),
            Err(Violation { detail, constraint, .. }) => {
                self.invalid.push(wrong(place, "/work_kind", &detail, constraint));
                None
            }
        });
        let job_type = self.job_type(&mut item, place, work_kind.is_some());
        let payload = item.remove(self.of_item.payload);
        let payload = payload.map_or(Vec::new(), |payload| payload.to_string().into_bytes());
        if self.unknown == UnknownMembers::Refuse {
            let at = format!("#/items/{place}/");
            let ItemMembers { known, of_whole, .. } = self.of_item;
            self.invalid.extend(item.keys().map(|name| match of_whole.contains(&&**name) {
                true => wrong(place, &format!("/{name}"), OF_WHOLE, "unknown"),
                false => members::stranger(&at, name, known),
            }));
        }
        Item { id, job_type, work_kind, payload }
    }

    /// The type of an item's work. Where that is `job_type`, `type` says when to run it, which is the batch's to say.
    fn job_type(&mut self, item: &mut Map<String, Value>, place: usize, simulated: bool) -> Option<String> {
        let ItemMembers { job_type: member, bad_job_type, .. } = self.of_item;
        let text = self.text(item, place, member);
        let pointer = format!("/{member}");
        if let Some((_, detail, constraint)) = text.as_deref().and_then(bad_job_type) {
            self.invalid.push(wrong(place, &pointer, detail, constraint));
        }
        if member == "type" {
            return text;
        }
        if text.is_some() && simulated {
            let detail = "must not stand beside `work_kind`: an item is work for your workers or simulated";
            self.invalid.push(wrong(place, &pointer, detail, "forbidden"));
        }
        let form = self.text(item, place, "type");
        if form.is_some_and(|form| !form.eq_ignore_ascii_case("EXECUTE")) {
            let detail =
                "must be EXECUTE: what an item does is `job_type` or `work_kind`, and the batch says when";
            self.invalid.push(wrong(place, "/type", detail, "enum"));
        }
        text
    }

    fn text(&mut self, item: &mut Map<String, Value>, place: usize, name: &str) -> Option<String> {
        match item.remove(name)? {
            Value::Null => None,
            Value::String(text) => Some(text),
            _ => {
                self.malformed.push(wrong(place, &format!("/{name}"), "must be a string", "type"));
                None
            }
        }
    }
}

fn wrong(place: usize, member: &str, detail: &str, constraint: &'static str) -> Violation {
    Violation { pointer: format!("#/items/{place}{member}"), detail: detail.into(), constraint }
}

/// What an outcome lists of its items.
pub(crate) struct Listing<'a> {
    /// These.
    pub(crate) shown: Vec<&'a ItemEnd>,
    /// What is said about those that are not shown.
    pub(crate) remark: &'static str,
}

impl<'a> Listing<'a> {
    pub(crate) fn of(ends: &'a [ItemEnd]) -> Listing<'a> {
        let failed = || ends.iter().filter(|end| end.error.is_some());
        let n_failed = failed().count();
        let is_mixed = n_failed > 0 && n_failed < ends.len();
        if ends.len() <= if is_mixed { MIXED_LISTED_MAX } else { LISTED_MAX } {
            return Listing { shown: ends.iter().collect(), remark: "" };
        }
        let remark = match n_failed {
            0 => "",
            1..=LISTED_MAX => " Only failed items are listed; see itemsUrl for all.",
            _ => " Only the first failed items are listed; see itemsUrl for all.",
        };
        Listing { shown: failed().take(LISTED_MAX).collect(), remark }
    }
}

/// How an item ended, in the words of the async-job members.
pub const fn status(end: &ItemEnd) -> ItemStatus {
    match &end.error {
        None => ItemStatus::Completed,
        Some(error) => match error.kind {
            Kind::HandlerTimeout => ItemStatus::TimedOut,
            Kind::Cancelled => ItemStatus::Cancelled,
            _ => ItemStatus::Failed,
        },
    }
}

/// What is said about an item that failed: the worker's words, or else the catalog's.
pub(crate) fn said(error: &ItemError) -> &str {
    if error.message.is_empty() { error.kind.entry().meaning } else { &error.message }
}

/// The member of `results` for an item, in a language that it can be told in.
pub fn outcome(end: &ItemEnd, language: Language) -> ItemOutcome {
    let outcome = ItemOutcome::new(&*end.id, status(end));
    match &end.error {
        None => outcome,
        Some(error) => outcome
            .with_detail(
                language::phrase(error.kind, said(error), language).unwrap_or_else(|| said(error).into()),
            )
            .with_retryable(error.retryable)
            .with_processing_stage(stage(error).as_str()),
    }
}

/// How far an item had come that did not end well.
fn stage(error: &ItemError) -> ProcessingStage {
    match error.kind.entry().stage {
        None if error.is_not_begun() => ProcessingStage::Queuing,
        None => ProcessingStage::Processing,
        Some(stage) => stage,
    }
}

/// The items of a batch, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ItemsSummary {
    /// How many there are.
    pub total: u32,
    /// How many have ended well.
    pub completed: u32,
    /// How many have not, as of the newest attempt that ended.
    pub failed: u32,
}

impl ItemsSummary {
    /// Those of a job; `None` if it is no batch.
    pub fn of(job: &Job) -> Option<ItemsSummary> {
        let items = job.head.items?;
        let Tally { completed, failed } = job.tally;
        Some(ItemsSummary { total: items.n, completed, failed })
    }
}

/// A page of the items of a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Items"))]
pub struct ItemsView {
    /// The execution they belong to.
    #[serde(rename = "jobId")]
    pub execution_id: String,
    /// How many items the batch has.
    pub total: u32,
    /// How many ended well.
    pub completed: u32,
    /// How many did not.
    pub failed: u32,
    /// The items of this page, in the order of the request.
    pub items: Vec<ItemView>,
    /// Where the next page begins; `None` on the last one.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// One item.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Item"))]
pub struct ItemView {
    /// What the request called it, or its place counted from zero.
    #[serde(rename = "itemId")]
    pub item_id: String,
    /// How it ended; ACCEPTED or PROCESSING, like its batch, before.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::ItemStatus"))]
    pub status: String,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
    /// Whether another try of this item is worth it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retryable: Option<bool>,
    /// How far it had come.
    #[serde(rename = "processingStage", skip_serializing_if = "Option::is_none", default)]
    pub processing_stage: Option<String>,
}

impl ItemView {
    /// An item that has ended.
    pub fn ended(end: &ItemEnd) -> ItemView {
        let outcome = outcome(end, Language::English);
        ItemView {
            item_id: end.id.clone(),
            status: outcome.status().as_str().into(),
            detail: outcome.detail().map(str::to_owned),
            retryable: outcome.retryable(),
            processing_stage: outcome.processing_stage().map(str::to_owned),
        }
    }

    /// An item whose batch is under way.
    pub fn open(id: &str, batch: &forgerun_problem::JobStatus) -> ItemView {
        ItemView {
            item_id: id.into(),
            status: batch.as_str().into(),
            detail: None,
            retryable: None,
            processing_stage: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use forgerun_core::item::ItemError;

    use super::*;

    const OF_ITEM: ItemMembers = ItemMembers {
        known: &["itemId", "work_kind", "payload"],
        of_whole: &[],
        payload: "payload",
        job_type: "job_type",
        bad_job_type: body::bad_job_type,
    };

    fn ends(n_completed: usize, n_failed: usize) -> Vec<ItemEnd> {
        let error = ItemError { kind: Kind::HandlerError, message: "no".into(), retryable: false };
        let end = |n: usize| ItemEnd { id: n.to_string(), error: (n >= n_completed).then(|| error.clone()) };
        (0..n_completed + n_failed).map(end).collect()
    }

    #[test]
    fn a_failed_item_of_which_nothing_is_said_has_the_words_of_its_kind() {
        let error = ItemError { kind: Kind::HandlerError, message: String::new(), retryable: false };
        let end = ItemEnd { id: "a".into(), error: Some(error) };
        for language in Language::ALL {
            let meaning = language::words(Kind::HandlerError, language).meaning;
            assert_eq!(outcome(&end, language).detail(), Some(meaning));
        }
    }

    #[test]
    fn an_item_that_was_never_begun_waited_and_any_other_was_worked_on() {
        let cancelled = ItemError { kind: Kind::Cancelled, message: "no".into(), retryable: false };
        for (error, stage) in [(ItemError::not_begun(), "queuing"), (cancelled, "processing")] {
            let end = ItemEnd { id: "a".into(), error: Some(error) };
            assert_eq!(outcome(&end, Language::English).processing_stage(), Some(stage));
            assert_eq!(ItemView::ended(&end).processing_stage.as_deref(), Some(stage));
        }
    }

    #[test]
    fn items_without_ids_are_known_by_their_place() {
        let mut members = body::object(
            br#"{"items":[{},{"itemId":"x","work_kind":"SUCCESS_FAST","payload":{"a":[1]}},{"itemId":null}],"b":1}"#,
        )
        .unwrap();
        let items = take_items(&mut members, OF_ITEM, UnknownMembers::Refuse).unwrap();
        let ids: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
        assert_eq!(ids, ["0", "x", "2"]);
        assert_eq!(items[1].payload, br#"{"a":[1]}"#);
        assert_eq!(items[1].work_kind, Some(forgerun_core::work::WorkKind::SuccessFast));
        assert_eq!(members.keys().collect::<Vec<_>>(), ["b"], "the rest of the body is left");
    }

    #[test]
    fn wrong_items_are_named_by_their_place() {
        let many = format!(r#"{{"items":[{}]}}"#, vec!["{}"; ITEMS_MAX + 1].join(","));
        for (body, kind, pointers) in [
            ("{}", Kind::MalformedRequest, vec!["#/items"]),
            (r#"{"items":null}"#, Kind::MalformedRequest, vec!["#/items"]),
            (r#"{"items":{}}"#, Kind::MalformedRequest, vec!["#/items"]),
            (r#"{"items":[]}"#, Kind::InvalidArgs, vec!["#/items"]),
            (&many, Kind::InvalidArgs, vec!["#/items"]),
            (r#"{"items":[7,{"itemId":7}]}"#, Kind::MalformedRequest, vec!["#/items/0", "#/items/1/itemId"]),
            (r#"{"items":[{"itemId":"a"},{"itemId":"a"}]}"#, Kind::InvalidArgs, vec!["#/items/1/itemId"]),
            (r#"{"items":[{"itemId":"1"},{}]}"#, Kind::InvalidArgs, vec!["#/items/1/itemId"]),
            (r#"{"items":[{"itemId":""}]}"#, Kind::InvalidArgs, vec!["#/items/0/itemId"]),
            (r#"{"items":[{"work_kind":"NOTHING"}]}"#, Kind::InvalidArgs, vec!["#/items/0/work_kind"]),
            (r#"{"items":[{},{"colour":1}]}"#, Kind::InvalidArgs, vec!["#/items/1/colour"]),
            (
                r#"{"items":[{"work_kind":"PAYLOAD_INVALID"}]}"#,
                Kind::InvalidArgs,
                vec!["#/items/0/work_kind"],
            ),
        ] {
            let mut members = body::object(body.as_bytes()).unwrap();
            let refused = take_items(&mut members, OF_ITEM, UnknownMembers::Refuse).unwrap_err();
            let named: Vec<&str> = refused.violations.iter().map(|v| v.pointer.as_str()).collect();
            assert_eq!((refused.kind, named), (kind, pointers), "{}", &body[..body.len().min(60)]);
        }
    }

    #[test]
    fn a_small_batch_lists_all_and_a_large_one_its_failures_up_to_a_bound() {
        for (n_completed, n_failed, n_shown, remark) in [
            (2, 1, 3, ""),
            (8, 1, 9, ""),
            (8, 2, 2, "Only failed items"),
            (100, 0, 100, ""),
            (0, 100, 100, ""),
            (100, 1, 1, "Only failed items"),
            (1, 100, 100, "Only failed items"),
            (0, 101, 100, "Only the first failed items"),
            (500, 0, 0, ""),
        ] {
            let ends = ends(n_completed, n_failed);
            let listing = Listing::of(&ends);
            assert_eq!(listing.shown.len(), n_shown, "{n_completed} + {n_failed}");
            assert!(listing.remark.trim_start().starts_with(remark), "{n_completed} + {n_failed}");
            assert_eq!(listing.remark.is_empty(), remark.is_empty());
        }
    }
}
