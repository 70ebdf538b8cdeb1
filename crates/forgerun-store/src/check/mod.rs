//! Checks a store as a whole: that every row can be read, obeys the rules, and agrees with the others. Changes nothing.
//!
//! All is read in one transaction, so servers may go on meanwhile. What is kept in memory grows with the number of queues, of open
//! deliveries and of jobs with events in the journal, not with the number of jobs.

mod jobs;
mod others;
mod rows;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use forgerun_core::id::JobId;
use forgerun_core::job::Name;
use forgerun_core::rows::Counts;
use forgerun_core::set_aside::RowId;

use crate::{Error, Fault};
pub(crate) use rows::{BlobAnswer, BlobDigest, Cell, CheckSource, CheckedRow};

/// Findings that are kept; further ones are only counted.
const FINDINGS_MAX: usize = 1000;

/// Something in a store that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub kind: FindingKind,
    /// The row, such as `job 01890a5d-…`.
    pub subject: String,
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.kind.name(), self.subject, self.detail)
    }
}

macro_rules! kinds {
    ($($kind:ident = $name:literal),* $(,)?) => {
        /// What is wrong. The names are documented; scripts may rely on them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FindingKind { $($kind),* }

        impl FindingKind {
            pub const ALL: &'static [FindingKind] = &[$(FindingKind::$kind),*];

            pub const fn name(self) -> &'static str {
                match self { $(FindingKind::$kind => $name),* }
            }
        }
    };
}

kinds! {
    DatabaseDamaged = "database-damaged",
    SetAside = "set-aside",
    JobUnreadable = "job-unreadable",
    JobRule = "job-rule",
    JobColumns = "job-columns",
    InputUnreadable = "input-unreadable",
    InputWithoutJob = "input-without-job",
    OutcomeMissing = "outcome-missing",
    OutcomeDigest = "outcome-digest",
    OutcomeWithoutJob = "outcome-without-job",
    ExecutionWithoutJob = "execution-without-job",
    ResultMissing = "result-missing",
    ResultWithoutOutcome = "result-without-outcome",
    BlobMissing = "blob-missing",
    BlobDigest = "blob-digest",
    Counts = "counts",
    LimitCount = "limit-count",
    JournalUnreadable = "journal-unreadable",
    JournalGap = "journal-gap",
    DeliveryUnreadable = "delivery-unreadable",
    DeliveryRule = "delivery-rule",
    DeliveryColumns = "delivery-columns",
    DeliveryOrder = "delivery-order",
    DeliveryWithoutJob = "delivery-without-job",
    RecordUnreadable = "record-unreadable",
    RecordColumns = "record-columns",
    WebhookUnreadable = "webhook-unreadable",
    WebhookColumns = "webhook-columns",
}

/// What a check has seen and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    pub n_jobs: u64,
    pub n_outcomes: u64,
    pub n_results: u64,
    pub n_events: u64,
    pub n_deliveries: u64,
    pub n_records: u64,
    /// The first of them.
    pub findings: Vec<Finding>,
    pub n_findings: u64,
}

impl CheckReport {
    /// The report on a database that cannot even be opened.
    pub fn of_damage(subject: impl fmt::Display, detail: impl fmt::Display) -> CheckReport {
        let mut report = CheckReport::default();
        report.add(FindingKind::DatabaseDamaged, subject, detail);
        report
    }

    fn add(&mut self, kind: FindingKind, subject: impl fmt::Display, detail: impl fmt::Display) {
        self.n_findings += 1;
        if self.findings.len() < FINDINGS_MAX {
            let (subject, detail) = (subject.to_string(), detail.to_string());
            self.findings.push(Finding { kind, subject, detail });
        }
    }
}

/// Checks everything behind `source`.
pub(crate) async fn check(source: &mut dyn CheckSource) -> Result<CheckReport, Error> {
    let mut checker = Checker::new(source);
    let damage = checker.source.damage().await?;
    damage.iter().for_each(|line| checker.report.add(FindingKind::DatabaseDamaged, "database", line));
    let done = checker.set_aside().await;
    checker.note("set_aside", done)?;
    let done = checker.journal().await;
    checker.note("journal", done)?;
    let done = checker.jobs().await;
    checker.note("jobs", done)?;
    let done = checker.counts().await;
    checker.note("counts", done)?;
    let done = checker.outcomes().await;
    checker.note("outcomes", done)?;
    let done = checker.results().await;
    checker.note("results", done)?;
    let done = checker.orphans().await;
    checker.note("orphans", done)?;
    let done = checker.webhooks().await;
    checker.note("webhooks", done)?;
    let done = checker.deliveries().await;
    checker.note("deliveries", done)?;
    let done = checker.records().await;
    checker.note("records", done)?;
    Ok(checker.report)
}

struct Checker<'a> {
    source: &'a mut dyn CheckSource,
    report: CheckReport,
    aside: BTreeSet<RowId>,
    /// The number of the last event of each job in the journal.
    last_events: HashMap<JobId, u32>,
    /// Jobs by queue and facet.
    counts: BTreeMap<Name, Counts>,
    /// Jobs that workers hold, by limit.
    held: BTreeMap<Name, u32>,
}

impl<'a> Checker<'a> {
    fn new(source: &'a mut dyn CheckSource) -> Checker<'a> {
        Checker {
            source,
            report: CheckReport::default(),
            aside: BTreeSet::new(),
            last_events: HashMap::new(),
            counts: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    /// A table that cannot be read is a finding; the others are checked all the same.
    fn note(&mut self, table: &str, done: Result<(), Error>) -> Result<(), Error> {
        match done {
            Err(error) if error.fault == Fault::Corrupt => {
                self.report.add(FindingKind::DatabaseDamaged, format_args!("table {table}"), error);
                Ok(())
            }
            done => done,
        }
    }

    fn find(&mut self, kind: FindingKind, subject: impl fmt::Display, detail: impl fmt::Display) {
        self.report.add(kind, subject, detail);
    }
}
