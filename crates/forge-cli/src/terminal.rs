//! What is said on standard output and standard error.

use std::error::Error;
use std::io::{self, Write};

use crate::Exit;

/// Prints to standard output. A closed pipe is no reason to complain.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Says what went wrong on standard error.
pub fn complain(error: &dyn Error, exit: Exit) -> Exit {
    say(&error.to_string(), exit)
}

/// Says something on standard error.
pub fn say(text: &str, exit: Exit) -> Exit {
    let _ = writeln!(io::stderr().lock(), "forgerun: {text}");
    exit
}
