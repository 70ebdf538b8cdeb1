//! Every bound of a schema and of judging by it.

/// Places of a schema, each reference counted with what it leads to.
pub const NODES_MAX: usize = 2000;

/// References of a schema that lead to each other one after the other: both reading and judging go down them.
pub const REFERENCES_DEEP_MAX: usize = 32;

/// How often the validator visits what stands beside or below `unevaluatedProperties` or `unevaluatedItems`, measured: 2.8 times. Within each
/// other they multiply.
pub const UNEVALUATED_FACTOR: usize = 3;

/// Places of a schema and values that it compares with (`enum`, `const`), each reference counted with what it leads to. The longest list that
/// fits into the text of a schema is below it.
pub const WEIGHT_MAX: usize = 64 * 1024;

/// Different patterns of a schema.
pub const PATTERNS_MAX: usize = 100;

/// Bytes of the compiled patterns of a schema together.
pub const PATTERNS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of a compiled pattern.
pub const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a compiled pattern of a common kind; a schema with no larger ones counts as small in the cache.
pub const PATTERN_BYTES: usize = 64 * 1024;

/// Places of patterns that one value can meet, repetitions written out (`a{100}` has 100): each byte of it can cost a step for each of them.
/// A schema with more is refused when it is registered.
pub const PATTERN_PLACES_MAX: usize = 2000;

/// Steps of matching patterns, one byte at one place, that take as long as one unit of work; measured, 13 and 30 ns.
pub const PATTERN_STEPS_PER_WORK: usize = 2;

/// Work of judging one job: places of the schema and values it compares with, times values of the arguments, and what matching patterns
/// can cost at worst. About a second.
pub const WORK_MAX: usize = 32 * 1024 * 1024;

/// Work up to which it is told what does not fit and where. The validator collects that of all values first, some 300 bytes each.
pub const MISFITS_WORK_MAX: usize = 64 * 1024;
