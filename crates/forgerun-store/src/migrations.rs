//! Which steps a schema still needs: the part of migrating that both databases share.
//!
//! Migrations only go forward. Servers of two versions work on one database while an upgrade is rolled out, so a step says
//! how far back it is compatible, and that is kept with it in the database:
//!
//! - An *expanding* step leaves everything in place that programs of an earlier version use. They go on, and start, on
//!   the schema it makes.
//! - A *closing* step does not: programs that do not know it must not start on its schema. It belongs in the version after
//!   the one that stopped using what it removes.
//!
//! A program that meets steps it does not know works if all of them are compatible with what it knows. Otherwise it refuses, and
//! so it does if the applied steps are not the ones it knows: either would be read wrongly. How a step is run, and what keeps
//! several nodes that start together from running it twice, is each engine's own affair.

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
    /// Programs that know the schema up to this version can work with what the step leaves.
    pub(crate) compatible_from: u32,
}

impl Migration {
    /// A step that no program may be unaware of.
    pub(crate) const fn closing(version: u32, name: &'static str, sql: &'static str) -> Migration {
        Migration { version, name, sql, compatible_from: version }
    }

    /// A step that programs need not know if they know the schema up to version `compatible_from`.
    pub(crate) const fn expanding(
        version: u32,
        name: &'static str,
        sql: &'static str,
        compatible_from: u32,
    ) -> Migration {
        assert!(compatible_from < version, "a step that nobody older can work with is a closing one");
        Migration { version, name, sql, compatible_from }
    }

    /// A fingerprint of the statements (FNV-1a): it tells an edited file from the one that was applied. It guards
    /// against mistakes, not against malice, so no cryptographic digest is needed.
    pub(crate) fn checksum(&self) -> u64 {
        checksum(&[*self])
    }
}

/// The fingerprint of several steps, as if they were one.
pub(crate) fn checksum(steps: &[Migration]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let bytes = steps.iter().flat_map(|step| step.sql.bytes());
    bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// A step as the database remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppliedStep {
    pub(crate) version: u32,
    pub(crate) checksum: u64,
    /// `None` if the program that applied it did not say: then only programs that know the step are compatible.
    pub(crate) compatible_from: Option<u32>,
}

/// How the schema of a database compares with what this program knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaStatus {
    /// The newest step that was applied; 0 for a database without any.
    pub applied: u32,
    /// The newest step that this program knows.
    pub known: u32,
    /// Steps to be applied, in order: version and name.
    pub pending: Vec<(u32, &'static str)>,
}

impl SchemaStatus {
    /// The status of a database in which `applied` was found, in order. Refuses what this program cannot work with.
    pub(crate) fn of(applied: &[AppliedStep], all: &[Migration]) -> Result<SchemaStatus, Error> {
        let pending = pending(applied, all)?;
        Ok(SchemaStatus {
            applied: applied.last().map_or(0, |step| step.version),
            known: all.last().map_or(0, |migration| migration.version),
            pending: pending.iter().map(|migration| (migration.version, migration.name)).collect(),
        })
    }
}

/// The steps of `all` that are still to be applied, in order. `applied` lists those that were, in order.
pub(crate) fn pending<'a>(
    applied: &[AppliedStep],
    all: &'a [Migration],
) -> Result<Vec<&'a Migration>, Error> {
    let known = all.last().map_or(0, |migration| migration.version);
    let unknown = applied.iter().filter(|step| step.version > known);
    let needed = unknown.map(|step| step.compatible_from.unwrap_or(step.version)).max().unwrap_or(0);
    if needed > known {
        let version = applied.last().map_or(0, |step| step.version);
        let text = format!(
            "the schema has version {version} and needs a program that knows version {needed}; this program knows \
             versions up to {known}; use the program that made it, or a newer one"
        );
        return Err(Error::new(Fault::TooNew, text));
    }
    for (step, known) in applied.iter().zip(all) {
        if step.version != known.version || step.checksum != known.checksum() {
            let text = format!(
                "schema version {} is not the step {} ({}) that this program knows",
                step.version, known.version, known.name
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
        Migration::closing(1, "first", "CREATE TABLE a (x)"),
        Migration::expanding(2, "second", "CREATE TABLE b (x)", 1),
    ];

    fn applied(n: usize) -> Vec<AppliedStep> {
        let applied = |migration: &Migration| AppliedStep {
            version: migration.version,
            checksum: migration.checksum(),
            compatible_from: Some(migration.compatible_from),
        };
        ALL[..n].iter().map(applied).collect()
    }

    /// The steps of this program, and others that it does not know.
    fn with_unknown(steps: &[(u32, Option<u32>)]) -> Vec<AppliedStep> {
        let unknown = |&(version, compatible_from): &_| AppliedStep { version, checksum: 1, compatible_from };
        applied(2).into_iter().chain(steps.iter().map(unknown)).collect()
    }

    #[test]
    fn what_is_not_applied_yet_is_pending_in_order() {
        let pending = |n| SchemaStatus::of(&applied(n), &ALL).unwrap();
        assert_eq!(
            pending(0),
            SchemaStatus { applied: 0, known: 2, pending: vec![(1, "first"), (2, "second")] }
        );
        assert_eq!(pending(1).pending, [(2, "second")]);
        assert_eq!(pending(2).pending, []);
    }

    #[test]
    fn a_schema_that_was_only_expanded_is_good_enough() {
        for steps in [&[(3, Some(2))][..], &[(3, Some(1)), (4, Some(2))]] {
            let status = SchemaStatus::of(&with_unknown(steps), &ALL).unwrap();
            assert_eq!((status.applied, status.known), (2 + steps.len() as u32, 2));
            assert_eq!(status.pending, []);
        }
    }

    #[test]
    fn a_newer_schema_is_refused_with_all_versions_named() {
        for (steps, needed) in [
            (&[(3, Some(3))][..], 3),
            (&[(3, Some(3)), (4, Some(3))], 3),
            (&[(3, Some(2)), (4, Some(4)), (5, Some(2))], 4),
            (&[(3, None)], 3),
        ] {
            let error = pending(&with_unknown(steps), &ALL).unwrap_err();
            assert_eq!(error.fault, Fault::TooNew);
            let text = error.to_string();
            let version = 2 + steps.len();
            for part in [format!("version {version} "), format!("knows version {needed};"), "up to 2;".into()]
            {
                assert!(text.contains(&part), "{text}");
            }
        }
    }

    #[test]
    fn an_edited_step_is_refused() {
        let edited = AppliedStep { version: 1, checksum: 42, compatible_from: None };
        let error = pending(&[edited], &ALL).unwrap_err();
        assert_eq!(error.fault, Fault::Corrupt);
        assert!(error.to_string().contains("first"), "{error}");
    }

    #[test]
    fn the_checksum_is_fnv_1a() {
        assert_eq!(Migration::closing(1, "", "a").checksum(), 0xaf63_dc4c_8601_ec8c);
    }
}
