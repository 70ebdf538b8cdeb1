//! Operators: who looks after the whole server, and what each may do.

use std::fmt::Write;
use std::sync::Arc;

use forgerun_core::catalog::Kind;
use forgerun_core::time::Time;
use forgerun_wire::problem::RefusedRequest;

use crate::http::ApiError;

/// What an operator may do. Each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperatorRole {
    /// Sees everything but the contents of jobs, and changes nothing.
    Viewer,
    /// Changes jobs, queues, schedules, workers and deliveries, and sees contents.
    Operator,
    /// Changes clients and their keys, too.
    Admin,
}

impl OperatorRole {
    pub const ALL: [OperatorRole; 3] = [OperatorRole::Viewer, OperatorRole::Operator, OperatorRole::Admin];

    pub const fn word(self) -> &'static str {
        match self {
            OperatorRole::Viewer => "viewer",
            OperatorRole::Operator => "operator",
            OperatorRole::Admin => "admin",
        }
    }

    pub fn parse(word: &str) -> Option<OperatorRole> {
        OperatorRole::ALL.into_iter().find(|role| role.word() == word)
    }
}

/// An authenticated operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    pub role: OperatorRole,
    /// As the audit trail and the dashboard name it.
    pub name: Arc<str>,
    /// When its session or token ends; `None` for the operator's token.
    pub until: Option<Time>,
}

/// The name of an operator with the token.
pub(crate) const TOKEN_HOLDER: &str = "operator";

/// Bytes of a person's name, and of a subject.
const NAME_BYTES_MAX: usize = 100;

impl Operator {
    /// The holder of the operator's token; on an open server any local caller.
    pub(crate) fn of_token() -> Operator {
        Operator { role: OperatorRole::Admin, name: TOKEN_HOLDER.into(), until: None }
    }

    /// A person whom the identity provider knows by this subject, and perhaps by a name.
    pub(crate) fn person(role: OperatorRole, subject: &str, name: Option<&str>, until: Time) -> Operator {
        Operator { role, name: person_name(subject, name).into(), until: Some(until) }
    }

    /// Refuses an operator whose role is too low.
    pub(crate) fn check(&self, needed: OperatorRole) -> Result<(), ApiError> {
        if needed <= self.role {
            return Ok(());
        }
        let (needed, role) = (needed.word(), self.role.word());
        let detail = format!("This needs the role {needed}; {} has the role {role}.", self.name);
        let refused = RefusedRequest::new(Kind::Forbidden, detail);
        Err(refused.fact("reason", "role_missing").fact("role", needed).into())
    }
}

/// `NAME (SUBJECT)`, or the subject alone. Other actors of the audit trail are never named so.
fn person_name(subject: &str, name: Option<&str>) -> String {
    let subject = plain(subject);
    let name = name.map(plain).filter(|name| !name.is_empty() && *name != subject);
    match name {
        Some(name) => format!("{name} ({subject})"),
        None if subject.contains(' ') || matches!(&*subject, TOKEN_HOLDER | "anonymous") => {
            format!("person ({subject})")
        }
        None => subject,
    }
}

/// Without control characters, and not too long.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for sign in text.trim().chars().filter(|sign| !sign.is_control()) {
        if plain.len() + sign.len_utf8() > NAME_BYTES_MAX {
            break;
        }
        plain.write_char(sign).expect("a string takes everything");
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_includes_those_before_it() {
        let operator = |role| Operator { role, ..Operator::of_token() };
        for (place, role) in OperatorRole::ALL.into_iter().enumerate() {
            assert_eq!(OperatorRole::parse(role.word()), Some(role));
            for (needed_place, needed) in OperatorRole::ALL.into_iter().enumerate() {
                assert_eq!(
                    operator(role).check(needed).is_ok(),
                    needed_place <= place,
                    "{role:?} {needed:?}"
                );
            }
        }
        assert_eq!(OperatorRole::parse("root"), None);
    }

    #[test]
    fn no_person_has_the_name_of_another_actor() {
        for (subject, name, expected) in [
            ("u-1", None, "u-1"),
            ("u-1", Some("Ada"), "Ada (u-1)"),
            ("u-1", Some("u-1"), "u-1"),
            ("u-1", Some("operator"), "operator (u-1)"),
            ("operator", None, "person (operator)"),
            ("anonymous", Some(" "), "person (anonymous)"),
            ("client 01890a5d", None, "person (client 01890a5d)"),
            ("u-1", Some("A\u{0}d\na"), "Ada (u-1)"),
        ] {
            assert_eq!(person_name(subject, name), expected);
        }
        assert!(person_name(&"ä".repeat(500), None).len() <= NAME_BYTES_MAX);
    }
}
