//! The command line itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::process::{forgerun, run};

#[test]
fn the_version_is_on_standard_output() {
    let ended = run(&mut forgerun(&["--version"]));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let expected = concat!("forgerun ", env!("CARGO_PKG_VERSION"), " (commit: ");
    assert!(ended.stdout.starts_with(expected) && ended.stdout.ends_with(")\n"), "{}", ended.stdout);
    assert!(ended.stdout.contains("features: amqp grpc kafka nats s3"), "{}", ended.stdout);
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
        (&["cleanup", "--listen", "127.0.0.1:0"], "--listen"),
        (&["migrate", "--listen", "127.0.0.1:0"], "--listen"),
        (&["webhook", "rotate-key", "--listen", "127.0.0.1:0"], "--listen"),
    ] {
        let ended = run(&mut forgerun(arguments));
        assert_eq!(ended.code, Some(2), "{arguments:?}");
        assert!(ended.stderr.contains(words), "{words} in {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
}

/// The flags of every command, by its words: `worker exec`. What a command says of its flags is
/// what `--help` lists.
fn flags() -> BTreeMap<String, BTreeSet<String>> {
    let mut known = BTreeMap::new();
    let mut open = vec![String::new()];
    while let Some(command) = open.pop() {
        let words: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let help = run(&mut forgerun(&words)).stdout;
        let inner = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or("");
        let names = inner.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
        let names = names.filter(|name| *name != "help" && name.starts_with(char::is_lowercase));
        open.extend(names.map(|name| format!("{command} {name}").trim().to_owned()));
        known.insert(command, flags_in(&help).into_iter().collect());
    }
    known
}

/// Every `--flag` in a text.
fn flags_in(text: &str) -> Vec<String> {
    let words = text.split(|c: char| c.is_whitespace() || "`|()[]<>,;.:'\"=".contains(c));
    let flags =
        words.filter(|word| word.strip_prefix("--").is_some_and(|name| name.starts_with(char::is_lowercase)));
    flags.map(str::to_owned).collect()
}

/// What a page says of commands of ours: the lines of its shell blocks, and what stands between
/// backticks.
fn said(page: &str) -> Vec<String> {
    let mut said = Vec::new();
    for (n, part) in page.split("```").enumerate() {
        match n % 2 {
            1 if part.starts_with("sh\n") => {
                said.extend(part.replace("\\\n", " ").lines().map(str::to_owned))
            }
            1 => {}
            _ => said.extend(part.split('`').skip(1).step_by(2).map(str::to_owned)),
        }
    }
    said
}

/// The flags that a line gives to commands that do not have them.
fn strange_flags(line: &str, known: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    // What comes after `--` or a pipe is another program's.
    let line = line.split(" -- ").next().unwrap_or_default().split(" # ").next().unwrap_or_default();
    let Some(start) = line.find("forgerun ") else {
        let of_others = |flag: &String| flag == "--features";
        let any = |flag: &String| of_others(flag) || known.values().any(|flags| flags.contains(flag));
        let own = if line.starts_with("--") { flags_in(line) } else { Vec::new() };
        return own.into_iter().filter(|flag| !any(flag)).collect();
    };
    let line = &line[start + "forgerun ".len()..];
    let mut command = String::new();
    for word in line.split_whitespace() {
        let longer = format!("{command} {word}").trim().to_owned();
        if !known.contains_key(&longer) {
            break;
        }
        command = longer;
    }
    flags_in(line).into_iter().filter(|flag| !known[&command].contains(flag)).collect()
}

#[test]
fn every_flag_that_help_and_pages_name_exists() {
    let known = flags();
    assert!(known.len() > 25 && known["worker exec"].contains("--queue"), "{:?}", known.keys());
    assert_eq!(strange_flags("x=$(forgerun submit --typ a --wait)", &known), ["--typ"]);
    assert_eq!(strange_flags("--no-such-flag", &known), ["--no-such-flag"]);
    assert!(strange_flags("forgerun worker exec --queue q -- x --any", &known).is_empty());
    let mut strange = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = crate::shell_blocks::markdown(&root.join("docs"));
    // Flags of scripts/install.sh.
    let of_installer = ["--prefix", "--base-url", "--uninstall"];
    for path in docs.into_iter().chain([root.join("README.md")]) {
        let page = std::fs::read_to_string(&path).unwrap();
        for line in said(&page) {
            let flags = strange_flags(&line, &known);
            let is_page = path.ends_with("install.md");
            let flags = flags.iter().filter(|flag| !(is_page && of_installer.contains(&flag.as_str())));
            strange.extend(flags.map(|flag| format!("{}: {flag} in `{line}`", path.display())));
        }
    }
    // `--help` lists all flags of a command, and may speak of those of others.
    let defined: BTreeSet<String> = known.keys().flat_map(|command| defined_flags(command)).collect();
    for (command, named) in &known {
        let missing = named.iter().filter(|flag| !defined.contains(*flag));
        strange.extend(missing.map(|flag| format!("forgerun {command} --help: {flag}")));
    }
    assert!(strange.is_empty(), "{}", strange.join("\n"));
}

/// The flags that a command has: each begins a line of its help.
fn defined_flags(command: &str) -> Vec<String> {
    let words: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
    let help = run(&mut forgerun(&words)).stdout;
    let begins = |line: &&str| line.trim_start().starts_with('-');
    help.lines().filter(begins).filter_map(|line| flags_in(line).into_iter().next()).collect()
}

#[test]
fn help_page_and_program_have_the_same_exit_codes() {
    let help = run(&mut forgerun(&["--help"])).stdout;
    let said = help.split("Exit codes:").nth(1).and_then(|rest| rest.split('.').next()).unwrap();
    let of_help: BTreeSet<u8> =
        said.split(',').filter_map(|part| part.split_whitespace().next()?.parse().ok()).collect();
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md")).unwrap();
    let table = page.split("## Exit codes").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let code = |line: &str| line.strip_prefix("| ")?.split(" |").next()?.parse().ok();
    let of_page: BTreeSet<u8> = table.lines().filter_map(code).collect();
    // Ctrl-C ends the process by its signal, which shells tell as 130.
    let all = forgerun_cli::Exit::ALL.map(|exit| exit as u8).into_iter().chain([130]);
    assert_eq!(of_help, all.collect());
    assert_eq!(of_page, of_help);
}
