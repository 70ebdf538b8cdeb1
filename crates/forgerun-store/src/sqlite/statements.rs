//! Statements by name. Each file lists its own with [`statements!`], which also gathers them, so that a test can
//! prepare every one of them against the schema.

/// Declares statements as constants, and `STATEMENTS` with all of them.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $sql:expr;)*) => {
        $($(#[$doc])* const $name: &str = $sql;)*

        /// Every statement of this file.
        #[cfg(test)]
        pub(super) const STATEMENTS: &[(&str, &str)] = &[$((stringify!($name), $name)),*];
    };
}

pub(super) use statements;
