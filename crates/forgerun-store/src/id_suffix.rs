//! The end of an id: what people copy from a list, where an id is cut from the front.

use forgerun_core::id::JobId;

/// The last hexadecimal digits of an id. Ends of ids are random, so a few of them name one job among many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdSuffix {
    value: u128,
    n_digits: usize,
}

impl IdSuffix {
    /// What a suffix must be.
    pub const RULE: &'static str =
        "must be the last 6 to 35 characters of a job id: hexadecimal digits and hyphens";

    /// Reads 6 to 35 characters, of which hyphens do not count.
    pub fn parse(text: &str) -> Option<IdSuffix> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let is_end = (6..=35).contains(&text.len())
            && digits.len() <= 32
            && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let value = u128::from_str_radix(&digits, 16).ok().filter(|_| is_end)?;
        Some(IdSuffix { value, n_digits: digits.len() })
    }

    /// Whether an id ends like this.
    pub fn is_end_of(self, id: JobId) -> bool {
        let unused_bits = 128 - 4 * self.n_digits;
        (id.as_u128() ^ self.value) << unused_bits == 0
    }

    /// As a pattern for `LIKE` on the digits of an id without hyphens.
    #[cfg(feature = "postgres")]
    pub(crate) fn like_pattern(self) -> String {
        format!("%{:0width$x}", self.value, width = self.n_digits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_ends_with_its_last_digits_whatever_the_hyphens() {
        let id: JobId = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        for end in [
            "9a8057",
            "9A8057",
            "bcce-b302099a8057",
            "ce-b302099a8057",
            "1890a5d-ac96-774b-bcce-b302099a8057",
        ] {
            assert!(IdSuffix::parse(end).unwrap().is_end_of(id), "{end}");
        }
        for other in ["9a8058", "0a8057", "bcde-b302099a8057"] {
            assert!(!IdSuffix::parse(other).unwrap().is_end_of(id), "{other}");
        }
        let whole = id.to_string();
        for bad in ["", "a8057", "------", "9a805g", "9a80+7", &whole, &"0".repeat(33)] {
            assert_eq!(IdSuffix::parse(bad), None, "{bad}");
        }
    }
}
