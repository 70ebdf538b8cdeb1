//! Flag over environment over file over default, and what the result looks like.

use super::{Config, Flag, Sources, environment, file, listen};
use crate::config::{AuthMode, CommandMode, Database, LogFormat, PrivateTargets, Registration};

/// All four layers, of which `n_layers` are used, from the bottom.
fn layered(n_layers: usize) -> Config {
    let file = file("[server]\nlisten = '127.0.0.1:2'").file.filter(|_| n_layers > 1);
    let variables = [("FORGERUN_SERVER__LISTEN", "127.0.0.1:3")];
    let environment = environment(&variables[..usize::from(n_layers > 2)]).environment;
    let flags = Vec::from_iter((n_layers > 3).then(|| listen("127.0.0.1:4")));
    Config::load(&Sources { flags, environment, file, mode: CommandMode::Serve }).unwrap()
}

#[test]
fn a_flag_goes_before_environment_file_and_default() {
    for (n_layers, port, origin) in [
        (1, 8080, "\n"),
        (2, 2, "  # from my.toml\n"),
        (3, 3, "  # from FORGERUN_SERVER__LISTEN\n"),
        (4, 4, "  # from --listen\n"),
    ] {
        let config = layered(n_layers);
        assert_eq!(config.server.listen.port(), port);
        let line = format!("listen = \"127.0.0.1:{port}\"{origin}");
        assert!(config.to_toml().contains(&line), "{}", config.to_toml());
    }
}

#[test]
fn layers_mix_key_by_key() {
    let mut sources = file("[retry]\nmax = 1\n[retry.mode]\nv1 = 'auto'");
    sources.environment = environment(&[("FORGERUN_RETRY__MODE__API", "manual")]).environment;
    let retry = Config::load(&sources).unwrap().retry;
    assert_eq!(
        format!("{} {:?}", retry.max, retry.mode),
        "1 RetryModes { v1: Auto, api: Manual, ojs: Policy }"
    );
}

#[test]
fn foreign_variables_and_empty_sections_say_nothing() {
    let mut sources = file("[limits]\n[retry.mode]");
    sources.environment =
        environment(&[("FORGE_X", "1"), ("PATH", "/bin"), ("FORGERUNNER", "1")]).environment;
    assert!(Config::load(&sources).is_ok());
}

#[test]
fn a_file_may_list_types_as_an_array() {
    let config = Config::load(&file("catalog.allowed_types = ['EXECUTE']")).unwrap();
    assert_eq!(config.catalog.allowed_types, [forgerun_core::job::JobForm::Execute]);
}

#[test]
fn auto_depends_on_who_can_reach_the_server() {
    let mut sources = environment(&[("FORGERUN_AUTH__ADMIN_TOKEN", "a-token-of-the-operator")]);
    let both = |config: Config| (config.auth.registration, config.webhooks.private_targets);
    let local = Config::load(&sources).unwrap();
    assert_eq!(both(local), (Registration::Local, PrivateTargets::Local));
    let named = environment(&[("FORGERUN_SERVER__PUBLIC_BASE_URL", "https://jobs.example.org")]);
    assert_eq!(both(Config::load(&named).unwrap()), (Registration::Local, PrivateTargets::Deny));
    sources.flags = vec![listen("0.0.0.0:80")];
    let public = Config::load(&sources).unwrap();
    assert_eq!(both(public), (Registration::Admin, PrivateTargets::Deny));
}

#[test]
fn the_database_url_wins_over_the_data_folder() {
    let flag = |key, value: &str| Flag { key, name: "--x", value: value.to_owned() };
    let flags = vec![flag("server.database_url", "postgres://h/d"), flag("server.data", "d")];
    let config = Config::load(&Sources { flags, ..Sources::default() }).unwrap();
    assert!(matches!(config.server.database, Database::Postgres(url) if url.expose() == "postgres://h/d"));
}

#[test]
fn dev_is_open_forgetful_and_readable_whatever_else_says() {
    let mut sources = environment(&[
        ("FORGERUN_AUTH__MODE", "keys"),
        ("FORGERUN_SERVER__DATABASE_URL", "postgres://precious/jobs"),
        ("FORGERUN_LIMITS__QUOTA", "5"),
    ]);
    sources.mode = CommandMode::Dev;
    let config = Config::load(&sources).unwrap();
    assert_eq!(config.auth.mode, AuthMode::Open);
    assert_eq!(config.server.database, Database::Memory);
    assert_eq!(config.log.format, LogFormat::Text);
    assert_eq!(config.limits.quota, Some(5));
    assert!(config.to_toml().contains("mode = \"open\"  # set by forgerun dev\n"));
}

#[test]
fn secrets_are_printed_as_comments() {
    let config = Config::load(&environment(&[
        ("FORGERUN_AUTH__ADMIN_TOKEN", "hunter2"),
        ("FORGERUN_SERVER__DATABASE_URL", "postgres://me:hunter2@h/d"),
    ]))
    .unwrap();
    let printed = config.to_toml();
    assert!(printed.contains("\n# admin_token = (hidden)  # from FORGERUN_AUTH__ADMIN_TOKEN\n"), "{printed}");
    assert!(printed.contains("\n# database_url = \"postgres://me:***@h/d\"  # from"), "{printed}");
    assert!(!printed.contains("hunter2") && !format!("{config:?}").contains("hunter2"), "{printed}");
}

#[test]
fn what_is_printed_can_be_read_again() {
    let mut sources = environment(&[("FORGERUN_SIM__TIME_SCALE", "0"), ("FORGERUN_SERVER__DATA", "a\"\n#b")]);
    sources.file = file("catalog.allowed_types = ['EXECUTE']").file;
    let printed = Config::load(&sources).unwrap().to_toml();
    let again = Config::load(&file(&printed)).unwrap();
    assert_eq!(again.sim.time_scale, 0.0);
    assert_eq!(again.server.data.to_str(), Some("a\"\n#b"));
    assert_eq!(again.catalog.allowed_types.len(), 1);
}

#[test]
fn without_simulation_the_simulated_operation_of_the_manual_is_not_declared() {
    let text = "[sim]\nenabled = false\n[operations.\"images/resize\"]\nqueue = 'pictures'";
    let config = Config::load(&file(text)).unwrap();
    let names: Vec<&str> = config.operations.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["images/resize"]);
    let printed = Config::load(&file(&config.to_toml())).unwrap();
    assert_eq!(format!("{:?}", printed.operations), format!("{:?}", config.operations));
}

#[test]
fn operations_are_declared_in_a_file_and_changed_by_the_environment() {
    let text = "[operations.\"images/resize\"]\nqueue = 'pictures'\n[operations.\"mail/send-all\"]\n\
                [operations.\"reports/generate\"]\nmax_retries = 1";
    let sources = Sources {
        environment: environment(&[
            ("FORGERUN_OPERATIONS__IMAGES_RESIZE__EXPECTED_DURATION_S", "9"),
            ("FORGERUN_OPERATIONS__MAIL_SEND_ALL__WORK_KIND", "SUCCESS_FAST"),
        ])
        .environment,
        ..file(text)
    };
    let config = Config::load(&sources).unwrap();
    let names: Vec<&str> = config.operations.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["images/resize", "mail/send-all", "reports/generate"]);
    let resize = config.operations.get("images/resize").unwrap();
    assert_eq!(resize.queue.as_ref().map(|queue| queue.as_str()), Some("pictures"));
    assert_eq!((resize.work_kind, resize.expected.map(|span| span.as_secs())), (None, Some(9)));
    assert!(config.operations.get("mail/send-all").unwrap().work_kind.is_some());
    let reports = config.operations.get("reports/generate").unwrap();
    assert_eq!((reports.max_retries, reports.expected.map(|span| span.as_secs())), (Some(1), Some(5)));
    let printed = Config::load(&file(&config.to_toml())).unwrap();
    assert_eq!(format!("{:?}", printed.operations), format!("{:?}", config.operations));
}

#[cfg(feature = "grpc")]
#[test]
fn dev_serves_grpc_if_it_can_and_otherwise_as_it_is_told() {
    let dev = |variables: &[(&str, &str)]| {
        let grpc = Config::load(&Sources { mode: CommandMode::Dev, ..environment(variables) }).unwrap().grpc;
        (grpc.addr.map(|addr| addr.to_string()), grpc.is_optional)
    };
    assert_eq!(dev(&[]), (Some("127.0.0.1:9090".to_owned()), true));
    assert_eq!(dev(&[("FORGERUN_GRPC__ADDR", "127.0.0.1:1")]), (Some("127.0.0.1:1".to_owned()), false));
    assert_eq!(dev(&[("FORGERUN_GRPC__ADDR", "")]), (None, false));
    assert_eq!(Config::load(&Sources::default()).unwrap().grpc.addr, None);
}
