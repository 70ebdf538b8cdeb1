//! Bounds, each with its reason. Writers and readers recurse, so nothing they meet may be deeper
//! than this.

/// How deep extension values may nest, in objects built here and in documents read.
///
/// Real problem objects stay below five; thirty-two leaves room and keeps recursion far from any
/// stack's end.
pub const DEPTH_MAX: usize = 32;

/// The largest JSON or XML document a reader takes by default: a batch report of some thousand
/// items.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// The largest `Problem` field a reader takes by default; servers rarely accept longer header
/// lines.
pub const FIELD_BYTES_MAX: usize = 16 << 10;

/// The longest correlation id, as the async-job draft suggests.
pub const CORRELATION_CHARS_MAX: usize = 256;

/// The largest whole number every JSON reader understands exactly: 2^53 - 1.
pub const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;

/// Warnings kept per reading; a hostile document of a million wrong items must not fill memory with
/// them.
pub const WARNINGS_MAX: usize = 64;

/// Findings kept per inspection, for the same reason.
pub const FINDINGS_MAX: usize = 256;
