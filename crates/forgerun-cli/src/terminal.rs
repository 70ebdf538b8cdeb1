//! Standard output and standard error.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use forgerun_problem::{Problem, ProblemBuilder};

use crate::Exit;

/// Whether errors are printed as problem objects. Set once, before the command line is parsed: its
/// errors count, too.
static ERRORS_AS_JSON: AtomicBool = AtomicBool::new(false);

/// Prints errors as problem objects if `--json` is among these arguments.
pub fn follow_json_flag(arguments: impl Iterator<Item = OsString>) {
    let mut own = arguments.take_while(|argument| argument != "--");
    let is_flag =
        |argument: OsString| argument == "--json" || argument.to_string_lossy().starts_with("--json=");
    ERRORS_AS_JSON.store(own.any(is_flag), Ordering::Relaxed);
}

/// Whether `--json` was given: standard error then has nothing but the problem object of an error.
pub fn errors_are_json() -> bool {
    ERRORS_AS_JSON.load(Ordering::Relaxed)
}

/// Prints to standard output; returns `exit`, unless that fails. A closed pipe is no error.
pub fn print(text: &str, exit: Exit) -> Exit {
    let mut out = io::stdout().lock();
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()), exit)
}

/// `exit`, unless printing failed.
pub fn printed(printed: io::Result<()>, exit: Exit) -> Exit {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(&format!("could not write the output: {error}"), Exit::Failure)
        }
        Ok(()) | Err(_) => exit,
    }
}

/// Prints an error on standard error.
pub fn complain(error: &dyn Error, exit: Exit) -> Exit {
    say(&error.to_string(), exit)
}

/// Prints a line on standard error; with `--json` an error as a problem object, and nothing else.
pub fn say(text: &str, exit: Exit) -> Exit {
    match errors_are_json() {
        true if exit == Exit::Done => exit,
        true => say_problem(problem_of(exit).detail(text), exit),
        false => {
            let _ = writeln!(io::stderr().lock(), "forgerun: {}", clean_lines(text));
            exit
        }
    }
}

/// Prints a problem object on standard error, with the exit code as a member.
pub(crate) fn say_problem(problem: ProblemBuilder, exit: Exit) -> Exit {
    let problem = problem.extension("exit_code", exit as u8).build().unwrap_or_default();
    let _ = writeln!(io::stderr().lock(), "{}", problem.to_json());
    exit
}

/// An error that no server reported: type, title and status by the exit code.
pub(crate) fn problem_of(exit: Exit) -> ProblemBuilder {
    let (kind, title, status) = match exit {
        Exit::Done | Exit::Failure => ("failure", "Command Failed", 500),
        Exit::Usage => ("usage", "Wrong Command Line", 400),
        Exit::JobFailed => ("job-failed", "Job Failed", 500),
        Exit::TimedOut => ("timed-out", "Timed Out Waiting", 504),
        Exit::NotAuthorised => ("not-authorised", "Not Authorised", 401),
        Exit::Unreachable => ("unreachable", "Server Unreachable", 503),
    };
    Problem::builder(format!("urn:forgerun:cli:{kind}")).title(title).status(status)
}

/// A foreign text in one line, without characters that draw on the screen or change the text
/// direction.
pub(crate) fn clean(text: &str) -> String {
    text.replace(draws, " ")
}

/// The same for several lines.
pub(crate) fn clean_lines(text: &str) -> String {
    text.replace(|sign| sign != '\n' && draws(sign), " ")
}

/// Control characters, and those that change the text direction.
fn draws(sign: char) -> bool {
    let turns = matches!(sign, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || sign.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_does_not_draw_on_the_screen() {
        assert_eq!(clean("a\u{1b}[2Jb\nc"), "a [2Jb c");
        assert_eq!(clean("exe\u{202e}gpj.\u{2066}x\u{200f}"), "exe gpj. x ");
        assert_eq!(clean_lines("a\r\u{202e}\nשלום ä"), "a  \nשלום ä");
    }

    #[test]
    fn every_error_is_a_problem_object() {
        for exit in Exit::ALL {
            let problem = problem_of(exit).detail("d").build().unwrap();
            assert!(
                problem.type_uri().starts_with("urn:forgerun:cli:") && problem.title().is_some(),
                "{exit:?}"
            );
        }
    }
}
