//! The effective configuration as TOML, in the order of the manual, with the origin of every value
//! that is not a default. The output is a configuration file itself: secrets are comments, so that
//! a copy cannot set them to asterisks.

use std::fmt::Write;

use super::complaint::Origin;
use super::secret::{hides, shown};
use super::settings::{Setting, Settings};

pub(crate) fn toml(settings: &Settings) -> String {
    let mut out = String::new();
    let mut section_before = "";
    for setting in &settings.0 {
        let (section, name) = setting.key.rsplit_once('.').expect("every key has a section");
        if section != section_before {
            let gap = if section_before.is_empty() { "" } else { "\n" };
            writeln!(out, "{gap}[{}]", heading(section)).expect("a string takes everything");
            section_before = section;
        }
        writeln!(out, "{}{}", assignment(name, setting), remark(&setting.origin))
            .expect("a string takes everything");
    }
    out
}

/// The section as a TOML header: operation names contain a slash, so they are quoted.
fn heading(section: &str) -> String {
    match section.strip_prefix("operations.") {
        Some(name) => format!("operations.{name:?}"),
        None => section.to_owned(),
    }
}

fn assignment(name: &str, setting: &Setting) -> String {
    if hides(&setting.key, &setting.value) {
        format!("# {name} = {}", shown(&setting.key, &setting.value))
    } else {
        format!("{name} = {}", setting.value)
    }
}

fn remark(origin: &Origin) -> String {
    match origin {
        Origin::Default => String::new(),
        // A file name may contain a line break, which would end the comment.
        Origin::File(_) | Origin::Variable(_) | Origin::Flag(_) | Origin::Dev => {
            format!("  # {}", origin.to_string().replace(char::is_control, "?"))
        }
    }
}
