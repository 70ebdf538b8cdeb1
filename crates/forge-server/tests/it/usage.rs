//! The command line itself.

use crate::process::{forgerun, run};

#[test]
fn the_version_is_on_standard_output() {
    let ended = run(&mut forgerun(&["--version"]));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(ended.stdout, concat!("forgerun ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn help_names_the_commands_and_the_exit_codes() {
    for arguments in [&["help"][..], &["--help"]] {
        let ended = run(&mut forgerun(arguments));
        assert_eq!(ended.code, Some(0));
        for words in ["serve", "dev", "config", "6 unreachable"] {
            assert!(ended.stdout.contains(words), "{words} in {}", ended.stdout);
        }
    }
}

#[test]
fn a_wrong_command_line_ends_with_2_and_says_why() {
    for (arguments, words) in [
        (&[][..], "Usage: forgerun"),
        (&["sevre"], "'serve'"),
        (&["serve", "--lisen", "127.0.0.1:0"], "'--listen'"),
        (&["serve", "--listen"], "--listen <ADDR>"),
        (&["dev", "--database-url", "sqlite:a.db"], "--database-url"),
    ] {
        let ended = run(&mut forgerun(arguments));
        assert_eq!(ended.code, Some(2), "{arguments:?}");
        assert!(ended.stderr.contains(words), "{words} in {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
}
