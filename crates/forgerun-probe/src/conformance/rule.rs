//! A rule: the requirement it comes from, how strong that is, and how to mend what breaks it.

use std::borrow::Cow;

/// How strongly a requirement is worded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// MUST, or plain words of a contract: breaking it makes the verdict.
    Must,
    /// SHOULD, or an example: worth telling.
    Should,
}

impl Severity {
    /// In one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Must => "must",
            Severity::Should => "should",
        }
    }
}

/// What is checked.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// The requirement's id, as in the ledger.
    pub(super) id: &'static str,
    pub(super) severity: Severity,
    /// What a right server does.
    pub(super) title: Cow<'static, str>,
    /// What to change in one that does not.
    pub(super) mend: Cow<'static, str>,
}

/// A rule whose breach makes the verdict.
pub(super) const fn must(id: &'static str, title: &'static str, mend: &'static str) -> Rule {
    Rule { id, severity: Severity::Must, title: Cow::Borrowed(title), mend: Cow::Borrowed(mend) }
}

/// A rule whose breach is worth telling.
pub(super) const fn should(id: &'static str, title: &'static str, mend: &'static str) -> Rule {
    Rule { id, severity: Severity::Should, title: Cow::Borrowed(title), mend: Cow::Borrowed(mend) }
}
