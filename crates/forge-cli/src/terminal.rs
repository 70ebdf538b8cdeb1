//! What is said on standard output and standard error.

use std::error::Error;
use std::io::{self, Write};

use crate::Exit;

/// Prints to standard output; the given end, unless that fails. A reader who has had enough is no reason to complain.
pub fn print(text: &str, exit: Exit) -> Exit {
    let mut out = io::stdout().lock();
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()), exit)
}

/// The given end, unless printing failed.
pub fn printed(printed: io::Result<()>, exit: Exit) -> Exit {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(&format!("could not write the output: {error}"), Exit::Failure)
        }
        Ok(()) | Err(_) => exit,
    }
}

/// Says what went wrong on standard error.
pub fn complain(error: &dyn Error, exit: Exit) -> Exit {
    say(&error.to_string(), exit)
}

/// Says something on standard error.
pub fn say(text: &str, exit: Exit) -> Exit {
    let _ = writeln!(io::stderr().lock(), "forgerun: {}", clean_lines(text));
    exit
}

/// A text of somebody else in one line, without what would draw on the screen or turn the direction of what follows.
pub(crate) fn clean(text: &str) -> String {
    text.replace(draws, " ")
}

/// The same for several lines.
pub(crate) fn clean_lines(text: &str) -> String {
    text.replace(|sign| sign != '\n' && draws(sign), " ")
}

/// Control characters, and those that change the direction of the text around them.
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
}
