//! One row per key: a value that is not the default, what becomes of it, and a value that is
//! refused.

use std::collections::BTreeSet;

use super::{Config, environment, file, refusal};
use crate::auth::OperatorRole;
use crate::config::reader::SettingsReader;
use crate::config::secret::is_secret;
use crate::config::settings::{Settings, keys, variable};
use crate::config::{MANUAL, Sources};

struct Row {
    key: &'static str,
    /// As it stands in the environment.
    good: &'static str,
    read: fn(&Config) -> String,
    expected: &'static str,
    bad: &'static str,
}

/// Writes a row: the key, a good value, the field it ends in, what is there then, a bad value.
macro_rules! rows {
    ($($key:literal = $good:literal => $($field:ident).+ == $expected:literal, not $bad:literal;)*) => {
        &[$(Row {
            key: $key,
            good: $good,
            read: |config| format!("{:?}", config.$($field).+),
            expected: $expected,
            bad: $bad,
        }),*]
    };
}

const ROWS: &[Row] = rows! {
    "server.listen" = "127.0.0.2:9" => server.listen == "127.0.0.2:9", not "8080";
    "server.data" = "/var/forge" => server.database == r#"Sqlite("/var/forge/forgerun.db")"#, not "";
    "server.database_url" = "sqlite:a.db" => server.database == r#"Sqlite("a.db")"#, not "a.db";
    "server.public_base_url" = "https://a.example/" => server.public_base_url == r#"Some("https://a.example")"#, not "a";
    "server.trusted_proxies" = "127.0.0.1, 10.0.0.0/8" => server.trusted_proxies == "[Network { address: 127.0.0.1, prefix_bits: 32 }, Network { address: 10.0.0.0, prefix_bits: 8 }]", not "10.0.0.1/8";
    "server.cors_origins" = "https://a.example, http://localhost:3000" => server.cors_origins == r#"["https://a.example", "http://localhost:3000"]"#, not "https://a.example/path";
    "server.tls.cert" = "a.pem" => server.tls.cert == r#"Some("a.pem")"#, not " a.pem";
    "server.tls.key" = "a.pem" => server.tls.key == r#"Some("a.pem")"#, not "a.pem ";
    "server.tls.client_ca" = "a.pem" => server.tls.client_ca == r#"Some("a.pem")"#, not " ";
    "server.tls.open_probes" = "false" => server.tls.open_probes == "false", not "no";
    "server.tls.plain_http" = "redirect" => server.tls.plain_http == "Redirect", not "allow";
    "log.format" = "text" => log.format == "Text", not "xml";
    "log.level" = "debug" => log.level == "Debug", not "loud";
    "auth.mode" = "open" => auth.mode == "Open", not "closed";
    "auth.registration" = "admin" => auth.registration == "Admin", not "none";
    "auth.admin_token" = "hunter2" => auth.admin_token == "Some((hidden))", not "two words";
    "auth.key_ttl_days" = "1" => auth.key_ttl == "86400s", not "0";
    "api.unknown_members" = "ignore" => api.unknown_members == "Ignore", not "keep";
    "auth.renew_grace_days" = "0" => auth.renew_grace == "0ns", not "-1";
    "auth.hide_foreign" = "true" => auth.hide_foreign == "true", not "yes";
    "auth.viewers_see_payloads" = "true" => auth.viewers_see_payloads == "true", not "always";
    "auth.oidc.issuer" = "https://a.example/x/" => auth.oidc.issuer == r#"Some("https://a.example/x/")"#, not "http://a.example";
    "auth.oidc.client_id" = "jobs" => auth.oidc.client_id == r#""jobs""#, not "two words";
    "auth.oidc.client_secret" = "hunter2" => auth.oidc.client_secret == "Some((hidden))", not "schlüssel";
    "auth.oidc.scopes" = "openid, groups" => auth.oidc.scopes == r#"["openid", "groups"]"#, not "openid,two words";
    "auth.oidc.role_claim" = "realm_access.roles" => auth.oidc.role_claim == r#""realm_access.roles""#, not "two words";
    "auth.oidc.roles" = "a=b=admin, c=viewer" => auth.oidc.roles == r#"[("a=b", Admin), ("c", Viewer)]"#, not "a=root";
    "limits.rate_per_minute" = "60" => limits.rate_per_minute == "Some(60)", not "-1";
    "limits.worker_rate_per_minute" = "60" => limits.worker_rate_per_minute == "Some(60)", not "-1";
    "limits.quota" = "10" => limits.quota == "Some(10)", not "ten";
    "limits.max_active_jobs" = "1" => limits.max_active_jobs == "1", not "0";
    "limits.queue_size" = "1" => limits.queue_size == "1", not "0";
    "limits.max_streams_per_client" = "1" => limits.max_streams_per_client == "1", not "0";
    "limits.max_body_bytes" = "300000" => limits.max_body_bytes == "300000", not "1MiB";
    "limits.max_incoming_bytes" = "33554432" => limits.max_incoming_bytes == "33554432", not "33554431";
    "limits.connections_per_address" = "0" => limits.connections_per_address == "None", not "-1";
    "limits.max_job_payload_kb" = "1" => limits.max_job_payload_bytes == "1024", not "1.5";
    "limits.max_result_bytes" = "1024" => limits.max_result_bytes == "1024", not "1023";
    "limits.write_stall_s" = "5" => limits.write_stall == "5s", not "0";
    "limits.log_bytes" = "262144" => limits.log_bytes == "262144", not "262143";
    "exec.max_runtime_ms" = "1500" => exec.max_runtime == "1.5s", not "0";
    "exec.real_max_runtime_ms" = "1500" => exec.real_max_runtime == "Some(1.5s)", not "-1";
    "workers.count" = "0" => workers.count == "0", not "1025";
    "workers.concurrency" = "8" => workers.concurrency == "8", not "0";
    "workers.lease_s" = "60" => workers.lease == "60s", not "0";
    "workers.heartbeat_s" = "1" => workers.heartbeat == "1s", not "0.5";
    "retry.max" = "0" => retry.max == "0", not "64";
    "retry.base_ms" = "10" => retry.wait_base == "10ms", not "1s";
    "retry.max_ms" = "2000" => retry.wait_max == "2s", not "86400001";
    "retry.jitter" = "none" => retry.jitter == "None", not "some";
    "retry.mode.v1" = "auto" => retry.mode.v1 == "Auto", not "policy";
    "retry.mode.api" = "manual" => retry.mode.api == "Manual", not "policy";
    "retry.mode.ojs" = "auto" => retry.mode.ojs == "Auto", not "never";
    "webhooks.timeout_ms" = "100" => webhooks.timeout == "100ms", not "0";
    "webhooks.retry_schedule" = "5s,1h30m" => webhooks.schedule == "Listed([5s, 5400s])", not "5s,soon";
    "webhooks.max_retries" = "0" => webhooks.schedule == "Doubling { attempts_max: 1, base: 500ms, max: 30s }", not "101";
    "webhooks.base_ms" = "0" => webhooks.schedule == "Doubling { attempts_max: 6, base: 0ns, max: 30s }", not "-5";
    "webhooks.max_ms" = "1000" => webhooks.schedule == "Doubling { attempts_max: 6, base: 500ms, max: 1s }", not "1e3";
    "webhooks.disable_after_s" = "0" => webhooks.disable_after == "0ns", not "1d";
    "webhooks.sign" = "false" => webhooks.sign == "false", not "0";
    "webhooks.private_targets" = "deny" => webhooks.private_targets == "Deny", not "block";
    "retention.jobs_days" = "0" => retention.jobs == "0ns", not "36501";
    "retention.tombstone_days" = "1" => retention.tombstones == "86400s", not "forever";
    "retention.revoked_keys_days" = "1" => retention.revoked_keys == "86400s", not "-1";
    "retention.deliveries_days" = "1" => retention.deliveries == "86400s", not "0.5";
    "retention.audit_days" = "30" => retention.audit == "2592000s", not "0";
    "retention.allow_delete" = "false" => retention.allow_delete == "false", not "no";
    "jobRetention.completedJobs.defaultDays" = "1" => job_retention.completed_default == "86400s", not "x";
    "jobRetention.completedJobs.smallResultsDays" = "1" => job_retention.completed_small == "86400s", not "x";
    "jobRetention.completedJobs.largeResultsDays" = "2" => job_retention.completed_large == "172800s", not "x";
    "jobRetention.failedJobs.defaultDays" = "1" => job_retention.failed == "86400s", not "x";
    "idempotency.reject_mismatch" = "true" => idempotency.reject_mismatch == "true", not "TRUE";
    "catalog.allowed_types" = "EMIT_EVENT, EXECUTE" => catalog.allowed_types == "[Execute, EmitEvent]", not "EXECUTE,OTHER";
    "catalog.failure_probability" = "1" => catalog.failure_probability == "1.0", not "1.1";
    "sim.enabled" = "false" => sim.enabled == "false", not "no";
    "sim.time_scale" = "0.01" => sim.time_scale == "0.01", not "nan";
    "problem.job_report_status" = "omit" => problem.job_report_status == "Omit", not "500";
    "problem.header_field" = "false" => problem.header_field == "false", not "off";
    "problem.coarse_times" = "true" => problem.coarse_times == "true", not "coarse";
    "asyncops.retry_after_s" = "1" => asyncops.retry_after == "1s", not "0";
    "asyncops.retry_base_ms" = "500" => asyncops.retry_base == "500ms", not "2s";
    "asyncops.extended_statuses" = "true" => asyncops.extended_statuses == "true", not "1";
    "ojs.test_hooks" = "true" => ojs.test_hooks == "true", not "on";
    "grpc.addr" = "127.0.0.1:0" => grpc.addr == "Some(127.0.0.1:0)", not "9090";
    "grpc.tls.cert" = "a.pem" => grpc.tls_cert == r#"Some("a.pem")"#, not " a.pem";
    "grpc.tls.key" = "b.pem" => grpc.tls_key == r#"Some("b.pem")"#, not "b.pem ";
    "ojs.strict_catalog" = "true" => ojs.strict_catalog == "true", not "strict";
    "amqp.url" = "amqp://127.0.0.1/jobs" => amqp.url == "Some((hidden))", not "http://127.0.0.1";
    "amqp.queues" = "emails, reports.daily" => amqp.queues == r#"["emails", "reports.daily"]"#, not "emails, dlx.emails";
    "amqp.client_id" = "019539a4-b68c-7def-8000-1a2b3c4d5e6f" => amqp.client_id == "Some(019539a4-b68c-7def-8000-1a2b3c4d5e6f)", not "me";
    "amqp.rate_per_minute" = "0" => amqp.rate_per_minute == "Some(0)", not "-2";
    "amqp.queue_length_max" = "1000" => amqp.queue_length_max == "Some(1000)", not "-1";
    "amqp.results_exchange" = "a.b" => amqp.results_exchange == r#"Some("a.b")"#, not "a b";
    "amqp.events" = "all" => amqp.events == "All", not "some";
    "amqp.cloudevents" = "binary" => amqp.cloudevents == "Binary", not "json";
    "alerts.no_worker_s" = "5" => alerts.no_worker == "5s", not "0";
    "metrics.queues_max" = "50" => metrics.queues_max == "50", not "0";
    "metrics.types_max" = "50" => metrics.types_max == "50", not "1001";
    "sinks.max_lag_hours" = "1" => sinks.max_lag == "3600s", not "0";
    "cloudevents.mode" = "binary" => cloudevents == "Binary", not "json";
    "kafka.brokers" = "a:9092,b:9092" => kafka.brokers == r#"Some("a:9092,b:9092")"#, not "kafka://a";
    "kafka.topic" = "a.b" => kafka.topic == r#""a.b""#, not "a b";
    "kafka.create_topic" = "false" => kafka.create_topic == "false", not "no";
    "kafka.events" = "all" => kafka.events == "All", not "some";
    "kafka.cloudevents" = "structured" => kafka.cloudevents == "Structured", not "json";
    "kafka.tls.enabled" = "true" => kafka.tls.enabled == "true", not "1";
    "kafka.tls.ca" = "/a.pem" => kafka.tls.ca == r#"Some("/a.pem")"#, not "-----BEGIN CERTIFICATE-----";
    "kafka.tls.cert" = "b.pem" => kafka.tls.cert == r#"Some("b.pem")"#, not "-----BEGIN CERTIFICATE-----";
    "kafka.tls.key" = "c.pem" => kafka.tls.key == r#"Some("c.pem")"#, not "-----BEGIN PRIVATE KEY-----";
    "kafka.sasl.mechanism" = "PLAIN" => kafka.sasl.mechanism == r#"Some("PLAIN")"#, not "GSSAPI";
    "kafka.sasl.username" = "me" => kafka.sasl.username == r#""me""#, not "you and me";
    "kafka.sasl.password" = "hunter2" => kafka.sasl.password == "Some((hidden))", not "bell\u{7}";
    "nats.url" = "nats://a:4222" => nats.url == "Some((hidden))", not "a:4222";
    "nats.username" = "me" => nats.login.username == r#"Some("me")"#, not "you and me";
    "nats.password" = "hunter2" => nats.login.password == "Some((hidden))", not "bell\u{7}";
    "nats.token" = "hunter2" => nats.login.token == "Some((hidden))", not "bell\u{7}";
    "nats.credentials" = "a.creds" => nats.login.credentials == r#"Some("a.creds")"#, not "-----BEGIN NATS USER JWT-----";
    "nats.tls.ca" = "/a.pem" => nats.tls.ca == r#"Some("/a.pem")"#, not "-----BEGIN CERTIFICATE-----";
    "nats.tls.cert" = "b.pem" => nats.tls.cert == r#"Some("b.pem")"#, not "-----BEGIN CERTIFICATE-----";
    "nats.tls.key" = "c.pem" => nats.tls.key == r#"Some("c.pem")"#, not "-----BEGIN PRIVATE KEY-----";
    "nats.subject" = "a.b" => nats.subject == r#""a.b""#, not "a.*";
    "nats.stream" = "A_b" => nats.stream == r#""A_b""#, not "a.b";
    "nats.events" = "all" => nats.events == "All", not "some";
    "nats.cloudevents" = "binary" => nats.cloudevents == "Binary", not "json";
    "results.store" = "s3://jobs/a" => results.store == r#"Some(ResultStore { bucket: "jobs", prefix: "a" })"#, not "jobs";
    "results.endpoint" = "http://127.0.0.1:9000" => results.endpoint == r#"Some("http://127.0.0.1:9000")"#, not "127.0.0.1:9000";
    "results.region" = "eu-central-1" => results.region == r#"Some("eu-central-1")"#, not "eu central";
    "results.access_key_id" = "AK1" => results.access_key_id == r#"Some("AK1")"#, not "A K";
    "results.secret_access_key" = "hunter2" => results.secret_access_key == "Some((hidden))", not "hunter 2";
    "encryption.keys" = "k1:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=" => encryption.keys == r#"["k1"]"#, not "k1:5";
    "encryption.key_file" = "src/config/tests/encryption.keys" => encryption.key_file == r#"Some("src/config/tests/encryption.keys")"#, not " ";
    "telemetry.otlp_endpoint" = "http://127.0.0.1:4318" => telemetry.otlp_endpoint == r#"Some("http://127.0.0.1:4318")"#, not "4317";
    "telemetry.otlp_headers" = "api-key=hunter2, X-Tenant = a=b" => telemetry.otlp_headers == r#"[("api-key", Sensitive), ("x-tenant", Sensitive)]"#, not "host=elsewhere";
};

/// Writes a row of an operation, which is found by its name.
macro_rules! operation_rows {
    ($($member:literal = $good:literal => $field:ident == $expected:literal, not $bad:literal;)*) => {
        &[$(Row {
            key: concat!("operations.reports/generate.", $member),
            good: $good,
            read: |config| format!("{:?}", config.operations.get("reports/generate").map(|found| &found.$field)),
            expected: $expected,
            bad: $bad,
        }),*]
    };
}

const OPERATION_ROWS: &[Row] = operation_rows! {
    "expected_duration_s" = "7" => expected == "Some(Some(7s))", not "-1";
    "work_kind" = "FAIL_IMMEDIATE" => work_kind == "Some(Some(FailImmediate))", not "PAYLOAD_INVALID";
    "queue" = "slow" => queue == r#"Some(Some("slow"))"#, not "Slow";
    "max_retries" = "0" => max_retries == "Some(Some(0))", not "64";
    "retry_mode" = "manual" => retry_mode == "Some(Some(Manual))", not "policy";
    "retention_days" = "1" => retention == "Some(Some(86400s))", not "-2";
    "result_kb" = "8" => result_kb == "Some(8)", not "8KB";
    "enabled" = "false" => result_kb == "None", not "no";
};

fn rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().chain(OPERATION_ROWS)
}

/// The rows of what is built in.
fn usable_rows() -> impl Iterator<Item = &'static Row> {
    rows().filter(|row| match row.key {
        "kafka.brokers" => cfg!(feature = "kafka"),
        "nats.url" => cfg!(feature = "nats"),
        "results.store" => cfg!(feature = "s3"),
        key => cfg!(feature = "amqp") || !key.starts_with("amqp."),
    })
}

/// What must be set beside a key.
fn beside(key: &str) -> &'static [(&'static str, &'static str)] {
    match key {
        "amqp.queues" => &[("FORGERUN_AMQP__URL", "amqp://127.0.0.1")],
        "auth.oidc.issuer" => &[
            ("FORGERUN_AUTH__OIDC__CLIENT_ID", "jobs"),
            ("FORGERUN_AUTH__OIDC__CLIENT_SECRET", "hunter2"),
            ("FORGERUN_AUTH__OIDC__ROLES", "staff=viewer"),
        ],
        _ => &[],
    }
}

/// Sources with a row's key set by a variable of this name.
fn with_row(row: &Row, name: &str) -> Sources {
    let variables: Vec<_> = [(name, row.good)].into_iter().chain(beside(row.key).iter().copied()).collect();
    environment(&variables)
}

#[test]
fn the_rows_the_manual_and_the_program_have_the_same_keys() {
    let manual: BTreeSet<&str> = keys().collect();
    let rows: BTreeSet<&str> = rows().map(|row| row.key).collect();
    let settings = Settings::gather(&Sources::default(), &mut Vec::new());
    let mut reader = SettingsReader::new(&settings);
    Config::read(&mut reader, settings.clone());
    let program: BTreeSet<&str> = reader.asked.iter().map(String::as_str).collect();
    assert_eq!(program, manual);
    assert_eq!(rows, manual);
    assert_eq!(reader.asked.len(), program.len(), "a key is read twice");
}

#[test]
fn every_default_is_accepted_and_differs_from_the_row() {
    let config = Config::load(&Sources::default()).unwrap();
    for row in rows() {
        assert_ne!((row.read)(&config), row.expected, "{}", row.key);
    }
}

#[test]
fn every_key_is_explained_in_the_manual() {
    let lines: Vec<&str> = MANUAL.lines().collect();
    for key in keys() {
        let name = key.rsplit('.').next().unwrap();
        let at = lines.iter().position(|line| line.starts_with(&format!("{name} = "))).unwrap();
        // Neighbours without an empty line between them share a comment.
        let mut above = lines[..at].iter().rev().take_while(|line| !line.is_empty());
        assert!(above.any(|line| line.starts_with("# ")) || key.starts_with("retry.mode."), "{key}");
    }
}

#[test]
fn every_key_can_be_set_in_the_environment_in_any_case() {
    for row in usable_rows() {
        let upper = variable(row.key);
        let mixed = format!("FORGERUN_{}", row.key.replace('.', "__"));
        for name in [&upper, &mixed] {
            let config = Config::load(&with_row(row, name)).unwrap();
            assert_eq!((row.read)(&config), row.expected, "{name}");
        }
    }
}

#[test]
fn every_key_can_be_set_in_a_file() {
    for row in usable_rows().filter(|row| !is_secret(row.key)) {
        let printed = Config::load(&with_row(row, &variable(row.key))).unwrap().to_toml();
        // Secrets are printed as comments.
        let beside = environment(
            &beside(row.key).iter().copied().filter(|(name, _)| is_secret(name)).collect::<Vec<_>>(),
        );
        let sources = Sources { environment: beside.environment, ..file(&printed) };
        let config = Config::load(&sources).unwrap();
        assert_eq!((row.read)(&config), row.expected, "{}", row.key);
    }
    let table = "[auth.oidc.roles]\n\"forgerun-admins\" = 'admin'\nstaff = 'viewer'";
    let config = Config::load(&file(table)).unwrap();
    let roles =
        [("forgerun-admins".to_owned(), OperatorRole::Admin), ("staff".to_owned(), OperatorRole::Viewer)];
    assert_eq!(config.auth.oidc.roles, roles);
    assert!(refusal(&file("[auth.oidc.roles]\nstaff = 'root'")).contains("one of viewer, operator, admin"));
    let config = Config::load(&file("auth.admin_token = 'hunter2'")).unwrap();
    assert_eq!(config.auth.admin_token.unwrap().expose(), "hunter2");
}

#[test]
fn every_key_refuses_a_bad_value_and_says_which_where_and_what_is_accepted() {
    for Row { key, bad, .. } in rows() {
        let name = variable(key);
        let refusal = refusal(&environment(&[(&name, bad)]));
        assert!(refusal.starts_with(&format!("{key} = ")), "{refusal}");
        assert!(refusal.contains(bad) != is_secret(key), "{refusal}");
        assert!(refusal.contains(&format!("(from {name}): accepted is ")), "{refusal}");
        assert_eq!(refusal.lines().count(), 1, "{refusal}");
    }
}

#[test]
fn zero_turns_rate_and_quota_off() {
    let config = Config::load(&file("[limits]\nrate_per_minute = 0\nquota = 0")).unwrap();
    assert_eq!((config.limits.rate_per_minute, config.limits.quota), (None, None));
}
