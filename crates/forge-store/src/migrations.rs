//! Which steps a schema still needs: the part of migrating that both databases share.
//!
//! Migrations only go forward. A schema made by a newer version is refused, and so is one whose applied steps are not the
//! ones this version knows: either would be read wrongly. How a step is run, and what keeps several nodes that start
//! together from running it twice, is each engine's own affair.

use crate::{Error, Fault};

/// One step of a schema, embedded from `migrations/<engine>/`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    /// 1 for the first step, then without gaps.
    pub(crate) version: u32,
    /// What the step is for, as its file is called.
    pub(crate) name: &'static str,
    /// The statements.
    pub(crate) sql: &'static str,
}

impl Migration {
    /// A fingerprint of the statements (FNV-1a): it tells an edited file from the one that was applied. It guards
    /// against mistakes, not against malice, so no cryptographic digest is needed.
    pub(crate) fn checksum(&self) -> u64 {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        self.sql.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
    }
}

/// The steps of `all` that are still to be applied, in order. `applied` lists version and checksum of those that were, in
/// order.
pub(crate) fn pending<'a>(applied: &[(u32, u64)], all: &'a [Migration]) -> Result<Vec<&'a Migration>, Error> {
    let newest_known = all.last().map_or(0, |migration| migration.version);
    let newest_applied = applied.last().map_or(0, |&(version, _)| version);
    if newest_applied > newest_known {
        let text = format!(
            "the schema has version {newest_applied}, this program knows versions up to {newest_known}; \
             use the program that made it, or a newer one"
        );
        return Err(Error::new(Fault::TooNew, text));
    }
    for (&(version, checksum), known) in applied.iter().zip(all) {
        if version != known.version || checksum != known.checksum() {
            let text = format!(
                "schema version {version} is not the step {} ({}) that this program knows",
                known.version, known.name
            );
            return Err(Error::new(Fault::Corrupt, text));
        }
    }
    Ok(all.iter().skip(applied.len()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Migration; 2] = [
        Migration { version: 1, name: "first", sql: "CREATE TABLE a (x)" },
        Migration { version: 2, name: "second", sql: "CREATE TABLE b (x)" },
    ];

    fn applied(n: usize) -> Vec<(u32, u64)> {
        ALL[..n].iter().map(|migration| (migration.version, migration.checksum())).collect()
    }

    #[test]
    fn what_is_not_applied_yet_is_pending_in_order() {
        let versions =
            |n| -> Vec<u32> { pending(&applied(n), &ALL).unwrap().iter().map(|m| m.version).collect() };
        assert_eq!((versions(0), versions(1), versions(2)), (vec![1, 2], vec![2], vec![]));
    }

    #[test]
    fn a_newer_schema_is_refused_with_both_versions_named() {
        let mut newer = applied(2);
        newer.push((7, 1));
        let error = pending(&newer, &ALL).unwrap_err();
        assert_eq!(error.fault, Fault::TooNew);
        let text = error.to_string();
        assert!(text.contains("version 7") && text.contains("up to 2"), "{text}");
    }

    #[test]
    fn an_edited_step_is_refused() {
        let error = pending(&[(1, 42)], &ALL).unwrap_err();
        assert_eq!(error.fault, Fault::Corrupt);
        assert!(error.to_string().contains("first"), "{error}");
    }

    #[test]
    fn the_checksum_is_fnv_1a() {
        let a = Migration { version: 1, name: "", sql: "a" };
        assert_eq!(a.checksum(), 0xaf63_dc4c_8601_ec8c);
    }
}
