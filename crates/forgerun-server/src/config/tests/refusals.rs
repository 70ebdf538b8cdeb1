//! What stops the start, and whether the message leads to the way out.

use super::{Flag, Sources, environment, file, listen, refusal};
use crate::config::CommandMode;

#[track_caller]
fn check(sources: &Sources, expected: &[&str]) {
    let refusal = refusal(sources);
    for words in expected {
        assert!(refusal.contains(words), "wanted {words:?} in:\n{refusal}");
    }
}

#[test]
fn an_unknown_key_in_a_file_is_named_with_a_hint() {
    for (text, expected) in [
        (
            "[limits]\nrate_per_minut = 5",
            &["limits.rate_per_minut = 5 (from my.toml)", "did you mean limits.rate_per_minute?"][..],
        ),
        ("[limits]\nRate_Per_Minute = 5", &["did you mean limits.rate_per_minute?"]),
        (
            "[jobretention.failedjobs]\ndefaultdays = 5",
            &["did you mean jobRetention.failedJobs.defaultDays?"],
        ),
        (
            "quota = 5",
            &["quota = 5 (from my.toml)", "did you mean limits.quota?", "sections are server, log, "],
        ),
        (
            "[workers]\nlease = '30s'",
            &["workers.lease = \"30s\"", "[workers] has count, concurrency, lease_s"],
        ),
        ("[limts]", &["limts = {}", "no such key; sections are server"]),
        ("limits = 5", &["limits = 5", "[limits] has rate_per_minute, worker_rate_per_minute, quota"]),
        (
            "[[limits]]\nquota = 1",
            &["limits = [", "[limits] has rate_per_minute, worker_rate_per_minute, quota"],
        ),
        ("[limits.quota]\nmax = 1", &["limits.quota.max = 1", "no such key"]),
        ("[auth]\nadmin_tokn = 'hunter2'", &["auth.admin_tokn = (hidden)", "did you mean auth.admin_token?"]),
    ] {
        check(&file(text), expected);
    }
}

#[test]
fn an_unknown_variable_is_named_with_a_hint_in_its_own_spelling() {
    for (name, expected) in [
        (
            "FORGERUN_LIMITS_QUOTA",
            &[
                "FORGERUN_LIMITS_QUOTA = \"5\" (from FORGERUN_LIMITS_QUOTA)",
                "did you mean FORGERUN_LIMITS__QUOTA?",
            ][..],
        ),
        ("FORGERUN_LIMITS__QUOTE", &["did you mean FORGERUN_LIMITS__QUOTA?", "[limits] has rate_per_minute"]),
        ("FORGERUN_COLOUR", &["there is no such key; sections are server, log"]),
        ("FORGERUN_", &["there is no such key"]),
        ("FORGERUN_AUTH__ADMIN_TOKN", &["= (hidden) (from"]),
    ] {
        check(&environment(&[(name, "5")]), expected);
    }
}

#[test]
fn a_misspelt_choice_gets_a_hint() {
    check(
        &environment(&[("FORGERUN_AUTH__MODE", "opne")]),
        &[
            "auth.mode = \"opne\" (from FORGERUN_AUTH__MODE): accepted is one of keys, open (did you mean \"open\"?)",
        ],
    );
}

#[test]
fn a_flag_is_named_as_origin() {
    let sources = Sources { flags: vec![listen("8080")], ..Sources::default() };
    check(&sources, &["server.listen = \"8080\" (from --listen): accepted is an IP address and a port"]);
    let value = "postgres//me:hunter2@h".to_owned();
    let flags = vec![Flag { key: "server.database_url", name: "--database-url", value }];
    check(&Sources { flags, ..Sources::default() }, &["(from --database-url): accepted is sqlite:PATH"]);
}

#[test]
fn a_database_url_that_no_server_could_be_reached_by_is_refused_before_trying() {
    for (parameters, expected) in [
        ("sslmode=foo", "invalid value for option `sslmode`"),
        ("sslcert=c.pem", "unknown option `sslcert`"),
        ("sslmode=verify-ca", "sslmode=verify-ca is not known here"),
        ("sslmode=prefer&sslrootcert=ca.pem", "sslrootcert does nothing with sslmode=prefer"),
    ] {
        let url = format!("postgres://me:hunter2@h/d?{parameters}");
        let shown = format!("server.database_url = \"postgres://me:***@h/d?{parameters}\"");
        check(&environment(&[("FORGERUN_SERVER__DATABASE_URL", &url)]), &[&shown, expected]);
    }
}

#[test]
fn the_type_in_a_file_counts() {
    for (text, expected) in [
        ("[limits]\nquota = '5'", "limits.quota = \"5\" (from my.toml): accepted is a whole number"),
        ("[limits]\nquota = 5.0", "limits.quota = 5.0"),
        ("[webhooks]\nsign = 1", "webhooks.sign = 1 (from my.toml): accepted is true or false"),
        (
            "[sim]\ntime_scale = '1'",
            "sim.time_scale = \"1\" (from my.toml): accepted is a number from 0 to 1000",
        ),
        ("[catalog]\nallowed_types = []", "catalog.allowed_types = []"),
        ("[catalog]\nallowed_types = [1]", "catalog.allowed_types = [1]"),
        ("[server]\nlisten = 8080", "server.listen = 8080"),
    ] {
        check(&file(text), &[expected]);
    }
}

#[test]
fn broken_toml_is_named_with_its_line_but_not_shown() {
    check(&file("[auth]\nadmin_token = hunter2\n"), &["--config my.toml: accepted is", "line 2: "]);
    assert!(!refusal(&file("[auth]\nadmin_token = hunter2\n")).contains("hunter2"));
}

#[test]
fn a_key_set_by_two_variables_is_refused() {
    let sources = environment(&[("FORGERUN_LIMITS__QUOTA", "5"), ("FORGERUN_limits__quota", "6")]);
    check(&sources, &["(from FORGERUN_limits__quota): FORGERUN_LIMITS__QUOTA sets the same key"]);
}

#[test]
#[cfg(unix)]
fn a_variable_that_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let value = std::ffi::OsString::from_vec(vec![0xff]);
    let environment = vec![("FORGERUN_SERVER__DATA".into(), value)];
    check(&Sources { environment, ..Sources::default() }, &["server.data", "accepted is text in UTF-8"]);
}

#[test]
fn all_complaints_come_together() {
    let mut sources = file("[limits]\nquota = -1\nqueue_siz = 3");
    sources.environment = environment(&[("FORGERUN_SIM__TIME_SCALE", "fast")]).environment;
    assert_eq!(refusal(&sources).lines().count(), 3, "{}", refusal(&sources));
}

#[test]
fn keys_that_do_not_fit_together_are_refused() {
    for (text, expected) in [
        (
            "[workers]\nlease_s = 5",
            "workers.heartbeat_s = 5 (the default): must be shorter than workers.lease_s",
        ),
        ("[workers]\nheartbeat_s = 30", "workers.heartbeat_s = 30 (from my.toml): must be shorter"),
        ("[retry]\nmax_ms = 1", "retry.base_ms = 1000 (the default): must not be longer than retry.max_ms"),
        ("[webhooks]\nbase_ms = 30001", "webhooks.base_ms = 30001 (from my.toml): must not be longer"),
        (
            "[limits]\nmax_job_payload_kb = 1024",
            "limits.max_job_payload_kb = 1024 (from my.toml): such a payload",
        ),
    ] {
        check(&file(text), &[expected]);
    }
}

#[test]
fn what_is_open_is_refused_in_public() {
    let token = "[auth]\nadmin_token = 'a-token-of-the-operator'\n";
    for (text, expected) in [
        (
            "",
            "auth.admin_token = \"\" (the default): must be set when server.listen is not a loopback address",
        ),
        ("[auth]\nregistration = 'admin'", "auth.admin_token = \"\""),
        (
            "[auth]\nadmin_token = 'twenty-one-characters'",
            "auth.admin_token = (hidden) (from my.toml): has less than 128 bits",
        ),
        (&format!("{token}mode = 'open'"), "auth.mode = \"open\" (from my.toml): lets any caller in"),
        (
            &format!("{token}[ojs]\ntest_hooks = true"),
            "ojs.test_hooks = true (from my.toml): lets any caller delete",
        ),
    ] {
        let sources = Sources { flags: vec![listen("0.0.0.0:0")], ..file(text) };
        check(&sources, &[expected]);
        assert_eq!(refusal(&sources).lines().count(), 1, "{}", refusal(&sources));
    }
}

#[test]
fn single_sign_on_needs_all_of_its_terms() {
    let issuer = "[auth.oidc]\nissuer = 'https://login.example.org'\n";
    for (text, expected) in [
        ("", "auth.oidc.client_id = \"\" (the default): must be set with auth.oidc.issuer"),
        ("", "auth.oidc.client_secret = \"\" (the default): must be set"),
        ("", "auth.oidc.roles = {} (the default): must name a role"),
        ("scopes = ['email']", "auth.oidc.scopes = [\"email\"] (from my.toml): must have openid"),
    ] {
        check(&file(&format!("{issuer}{text}")), &[expected]);
    }
}

#[test]
fn what_is_open_is_refused_with_a_public_address() {
    let base = "[server]\npublic_base_url = 'https://jobs.example.org'\n";
    let expected =
        "server.public_base_url = \"https://jobs.example.org\" (from my.toml): says that others reach";
    let open = file(&format!("{base}[auth]\nmode = 'open'"));
    for sources in [Sources { mode: CommandMode::Dev, ..file(base) }, open] {
        check(&sources, &[expected]);
        assert_eq!(refusal(&sources).lines().count(), 1, "{}", refusal(&sources));
    }
    assert!(super::Config::load(&file(base)).is_ok());
}

#[test]
fn dev_is_refused_in_public_with_one_complaint() {
    let sources = Sources { flags: vec![listen("0.0.0.0:0")], mode: CommandMode::Dev, ..Sources::default() };
    check(&sources, &["server.listen = \"0.0.0.0:0\" (from --listen): forgerun dev needs no keys"]);
    assert_eq!(refusal(&sources).lines().count(), 1);
}

#[test]
fn what_is_wrong_with_an_operation_is_said_with_its_key() {
    for (text, words) in [
        ("[operations.\"jobs/run\"]", "operations = \"jobs/run\" (from"),
        ("[operations.reports]\nwork_kind = ''", "accepted is a name like reports/generate"),
        (
            "[operations.\"a/b\"]\ncolour = 1",
            "operations.a/b.colour = 1 (from my.toml): there is no such key; [operations.\"a/b\"] has expected_duration_s",
        ),
        (
            "[operations.\"a/b\"]\nwork_kind = 'NOPE'",
            "operations.a/b.work_kind = \"NOPE\" (from my.toml): accepted is a kind of work",
        ),
        (
            "[operations.\"a/b\"]\nmax_retries = 64",
            "accepted is a whole number from 0 to 63, or -1 for that of retry.max",
        ),
        (
            "[sim]\nenabled = false\n[operations.\"a/b\"]\nwork_kind = 'SUCCESS_FAST'",
            "operations = \"a/b\" (from my.toml): accepted is an operation without work_kind, because sim.enabled is false",
        ),
        ("[operations]\nx = 1", "operations.x = 1 (from my.toml): there is no such key"),
    ] {
        let refusal = refusal(&file(text));
        assert!(refusal.contains(words), "{words}\n{refusal}");
    }
}

#[test]
fn queues_of_a_broker_need_a_broker() {
    check(&environment(&[("FORGERUN_AMQP__QUEUES", "emails")]), &["amqp.queues", "set amqp.url too"]);
}

#[test]
#[cfg(not(feature = "amqp"))]
fn a_broker_needs_a_build_that_has_it() {
    let url = [("FORGERUN_AMQP__URL", "amqp://guest:hunter2@127.0.0.1")];
    check(
        &environment(&url),
        &["amqp.url = \"amqp://guest:***@127.0.0.1\"", "build it with --features amqp"],
    );
}

#[test]
fn a_token_that_can_be_guessed_is_refused_where_grpc_is_open_to_others() {
    let short = [("FORGERUN_AUTH__ADMIN_TOKEN", "short"), ("FORGERUN_GRPC__ADDR", "0.0.0.0:9090")];
    check(&environment(&short), &["auth.admin_token", "less than 128 bits", "grpc.addr is not a loopback"]);
}

#[test]
fn grpc_lets_nobody_in_without_a_key_from_elsewhere() {
    let open = [("FORGERUN_AUTH__MODE", "open"), ("FORGERUN_GRPC__ADDR", "0.0.0.0:9090")];
    check(
        &environment(&open),
        &["grpc.addr = \"0.0.0.0:9090\"", "lets any caller in", "accepted is a loopback address"],
    );
}

#[test]
fn a_part_that_is_not_built_in_says_how_to_get_it() {
    for (name, value, is_built_in, expected) in [
        ("FORGERUN_KAFKA__BROKERS", "a:9092", cfg!(feature = "kafka"), "--features kafka"),
        ("FORGERUN_NATS__URL", "nats://a:4222", cfg!(feature = "nats"), "--features nats"),
        ("FORGERUN_RESULTS__STORE", "s3://jobs", cfg!(feature = "s3"), "--features s3"),
    ] {
        if !is_built_in {
            check(&environment(&[(name, value)]), &[expected, "or take the container"]);
        }
    }
}

#[test]
#[cfg(feature = "s3")]
fn what_belongs_together_for_an_object_store_is_checked() {
    for (text, expected) in [
        ("access_key_id = 'AK1'", "results.secret_access_key belong together"),
        ("[limits]\nmax_result_bytes = 85899345921", "more than an upload in parts can hold"),
        ("[server]\ndatabase_url = 'memory:'", "needs a database that is kept"),
    ] {
        check(&file(&format!("[results]\nstore = 's3://jobs'\n{text}")), &[expected]);
    }
}

#[test]
#[cfg(feature = "kafka")]
fn what_belongs_together_for_kafka_is_checked() {
    for (text, expected) in
        [("cert = 'a.pem'", "kafka.tls.key belong together"), ("ca = 'a.pem'", "kafka.tls.enabled = false")]
    {
        check(&file(&format!("kafka.brokers = 'a:9092'\n[kafka.tls]\n{text}")), &[expected]);
    }
    check(
        &file("[kafka]\nbrokers = 'a:9092'\nsasl.mechanism = 'PLAIN'"),
        &["must be set with kafka.sasl.mechanism"],
    );
}
