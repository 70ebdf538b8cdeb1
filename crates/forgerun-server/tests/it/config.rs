//! Configuration as an operator meets it: what is printed, and what stops the start.

use std::fs;

use crate::process::{forgerun, golden, run};

#[track_caller]
fn check_golden(name: &str, printed: &str) {
    let expected = fs::read_to_string(golden().join(name)).unwrap_or_default();
    if expected != printed {
        let actual = std::env::temp_dir().join(name);
        fs::write(&actual, printed).unwrap();
        panic!("{name} differs from what is printed now, which is in {}", actual.display());
    }
}

#[test]
fn config_prints_the_defaults() {
    let ended = run(&mut forgerun(&["config"]));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    check_golden("defaults.toml", &ended.stdout);
}

#[test]
fn config_prints_what_is_in_effect_with_origins_and_without_secrets() {
    let arguments = ["config", "--config", "operator.toml", "--listen", "0.0.0.0:80"];
    let mut command = forgerun(&arguments);
    command.env("FORGERUN_AUTH__ADMIN_TOKEN", "hunter2-and-then-some");
    command.env("FORGERUN_SERVER__DATABASE_URL", "postgres://forge:hunter2@db.example/jobs");
    command.env("FORGERUN_jobRetention__completedJobs__defaultDays", "14");
    let ended = run(&mut command);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(!ended.stdout.contains("hunter2"), "{}", ended.stdout);
    check_golden("effective.toml", &ended.stdout);
}

#[test]
fn what_is_set_for_the_commands_of_a_client_does_not_stop_a_server() {
    let mut command = forgerun(&["config"]);
    let of_clients = [
        "FORGERUN_URL",
        "FORGERUN_API_KEY",
        "FORGERUN_ADMIN_TOKEN",
        "FORGERUN_WORKER_SECRET",
        "FORGERUN_BIN",
        "FORGERUN_DOWNLOAD_URL",
    ];
    for variable in of_clients {
        command.env(variable, "frk_something");
    }
    let ended = run(&mut command);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    check_golden("defaults.toml", &ended.stdout);
    let ended = run(forgerun(&["config"]).env("FORGERUN_UR", "x"));
    assert_eq!(ended.code, Some(2), "what nobody knows is a mistake");
}

#[test]
fn what_a_worker_and_kubernetes_set_does_not_stop_a_server() {
    let mut command = forgerun(&["config"]);
    for variable in forgerun_cli::worker::JOB_VARIABLES {
        command.env(variable, "x");
    }
    for (variable, value) in [
        ("FORGERUN_SERVICE_HOST", "10.0.0.7"),
        ("FORGERUN_SERVICE_PORT", "8080"),
        ("FORGERUN_SERVICE_PORT_HTTP", "8080"),
        ("FORGERUN_PORT", "tcp://10.0.0.7:8080"),
        ("FORGERUN_PORT_8080_TCP", "tcp://10.0.0.7:8080"),
        ("FORGERUN_PORT_8080_TCP_PROTO", "tcp"),
        ("FORGERUN_PORT_8080_TCP_PORT", "8080"),
        ("FORGERUN_PORT_8080_TCP_ADDR", "10.0.0.7"),
        ("FORGERUN_DB_SERVICE_HOST", "10.0.0.8"),
        ("FORGERUN_DB_PORT", "tcp://10.0.0.8:5432"),
    ] {
        command.env(variable, value);
    }
    let ended = run(&mut command);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    check_golden("defaults.toml", &ended.stdout);
    for (variable, value) in [
        ("FORGERUN_PORT", "8080"),
        ("FORGERUN_SERVER_PORT", "8080"),
        ("FORGERUN_LISTEN", "127.0.0.1:1"),
        ("FORGERUN_SERVER__SERVICE_HOST", "10.0.0.7"),
        ("FORGERUN_JOB", "x"),
    ] {
        assert_eq!(run(forgerun(&["config"]).env(variable, value)).code, Some(2), "{variable}");
    }
}

#[test]
fn config_can_print_the_manual() {
    let ended = run(&mut forgerun(&["config", "--defaults"]));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), include_str!("../../forgerun.default.toml")));
}

#[test]
fn a_bad_configuration_ends_with_2_and_names_key_value_origin_and_what_is_accepted() {
    for command in ["serve", "dev", "config"] {
        let mut command = forgerun(&[command, "--config", "mistakes.toml", "--listen", "somewhere"]);
        let ended = run(command.env("FORGERUN_SIM__TIME_SCALE", "fast"));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
        check_golden("mistakes.txt", &ended.stderr);
    }
}

#[test]
fn a_file_that_cannot_be_read_ends_with_2() {
    for (file, words) in [
        ("nowhere.toml", "--config nowhere.toml: accepted is the path of a readable TOML file: No such file"),
        ("broken.toml", "--config broken.toml: accepted is the path of a readable TOML file: line 2: "),
        (".", "--config .: accepted is"),
    ] {
        let ended = run(&mut forgerun(&["serve", "--config", file]));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}

#[test]
fn dev_off_loopback_is_refused() {
    let ended = run(&mut forgerun(&["dev", "--listen", "0.0.0.0:0"]));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(
        ended.stderr.contains("server.listen = \"0.0.0.0:0\" (from --listen): forgerun dev"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_public_server_without_admin_token_is_refused() {
    let ended = run(&mut forgerun(&["serve", "--listen", "0.0.0.0:0"]));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(ended.stderr.contains("FORGERUN_AUTH__ADMIN_TOKEN"), "{}", ended.stderr);
}

#[test]
fn config_shows_what_dev_runs_with_and_says_so() {
    let ended = run(forgerun(&["config", "--dev"]).env("FORGERUN_LIMITS__QUOTA", "5"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for line in ["mode = \"open\"  # set by forgerun dev", "format = \"text\"  # set by forgerun dev"] {
        assert!(ended.stdout.contains(line), "{line} is not in {}", ended.stdout);
    }
    assert!(ended.stdout.contains("  # from FORGERUN_LIMITS__QUOTA"), "{}", ended.stdout);
    // What dev has no flag for, or keeps nothing in, it is not shown with.
    for flags in [["--database-url", "memory:"], ["--data", "folder"]] {
        let ended = run(forgerun(&["config", "--dev"]).args(flags));
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    }
}
