//! The tools on servers of the tests: each has one fault, which has to be found by its id, or none.

mod conformance;
mod faulty;
mod traffic;
