//! Tests of the library from the outside, in one binary.

mod samples;
