//! The client against servers that are not ForgeRun: small ones that answer what a test tells them, and break off where it says so.
//! Against ForgeRun itself it is tested in `forgerun-server/tests/it/client`.

mod downloads;
mod foreign;
mod operations;
mod outcomes;
mod repeating;
mod streams;
mod vectors;
mod waiting;
mod worker;
