//! The rule for queue names. It is Open Job Spec's, and all dialects follow it (ruling C-107): a
//! job in a queue that no worker can name would wait for ever.

use super::Name;
use crate::limits;

/// Why a text is not a queue name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadQueueName {
    /// More than [`limits::NAME_BYTES_MAX`] bytes.
    TooLong,
    /// Empty, or with a character that is not allowed there.
    Form,
}

impl BadQueueName {
    /// The rule, as a clause that follows the name of the member.
    pub const RULE: &str =
        "must have 1 to 255 lower-case letters, digits, hyphens and dots, and begin with a letter or a digit";
}

impl Name {
    /// Parses a queue name: `^[a-z0-9][a-z0-9\-.]*$`, at most 255 bytes.
    pub fn queue(text: &str) -> Result<Name, BadQueueName> {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if text.len() > limits::NAME_BYTES_MAX {
            return Err(BadQueueName::TooLong);
        }
        let begins_well = text.bytes().next().is_some_and(letter);
        if !begins_well || !text.bytes().all(|byte| letter(byte) || matches!(byte, b'-' | b'.')) {
            return Err(BadQueueName::Form);
        }
        Ok(Name(text.into()))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn the_name_of_a_queue_follows_the_rule_of_open_job_spec() {
        for good in ["a", "0", "default", "mail-2", "eu.mail", "a-", "a.", &"q".repeat(255)] {
            assert_eq!(Name::queue(good).map(|name| name.as_str() == good), Ok(true), "{good}");
        }
        let form = ["", "Default", "my_queue", "my queue", "bad!", "-x", ".x", "a/b", "ä", "a\n"];
        for bad in form {
            assert_eq!(Name::queue(bad), Err(BadQueueName::Form), "{bad:?}");
        }
        assert_eq!(Name::queue(&"q".repeat(256)), Err(BadQueueName::TooLong));
    }
}
