//! The real binary, from outside: started as a user would, judged by what it prints, answers and returns.
//!
//! No fixed ports: the server takes a free one and says which.

mod config;
mod process;
mod serving;
mod usage;
