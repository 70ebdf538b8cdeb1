//! Every bound of schemas and validation.

/// Places of a schema, each reference counted with its target.
pub const NODES_MAX: usize = 2000;

/// Depth of nested references of a schema: reading and validating recurse along them.
pub const REFERENCES_DEEP_MAX: usize = 32;

/// How often the validator visits what stands beside or below `unevaluatedProperties` or
/// `unevaluatedItems`; measured 2.8 times. Nested ones multiply.
pub const UNEVALUATED_FACTOR: usize = 3;

/// Places of a schema and values that it compares with (`enum`, `const`), each reference counted
/// with its target. The longest list that fits into a schema's text is below it.
pub const WEIGHT_MAX: usize = 64 * 1024;

/// Distinct patterns of a schema.
pub const PATTERNS_MAX: usize = 100;

/// Total bytes of the compiled patterns of a schema.
pub const PATTERNS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of a compiled pattern.
pub const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of an ordinary compiled pattern; a schema without larger ones counts as small in the
/// cache.
pub const PATTERN_BYTES: usize = 64 * 1024;

/// Pattern places that one value can meet, with repetitions expanded (`a{100}` has 100): each byte
/// of the value can cost a step for each of them. A schema with more is refused.
pub const PATTERN_PLACES_MAX: usize = 2000;

/// Matching steps, one byte at one place, per unit of work; measured, 13 and 30 ns.
pub const PATTERN_STEPS_PER_WORK: usize = 2;

/// Work of validating one job: schema places and compared values, times argument values, plus the
/// worst case of matching patterns. About a second.
pub const WORK_MAX: usize = 32 * 1024 * 1024;

/// Work up to which violations are reported in detail. The validator collects all of them first,
/// some 300 bytes each.
pub const MISFITS_WORK_MAX: usize = 64 * 1024;
