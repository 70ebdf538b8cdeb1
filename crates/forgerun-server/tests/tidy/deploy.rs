//! Rules for what is under `deploy/`: dashboard and alert rules ask for metrics that the server
//! has, the dashboard is JSON, and the operator's page explains every metric and every alert.
//!
//! The names are read from the source of the registry rather than from a running one, which does
//! not show a labelled counter before it first counts.

use std::collections::{BTreeMap, BTreeSet};

use crate::repo;

const REGISTRIES: [&str; 5] = [
    "crates/forgerun-server/src/metrics.rs",
    "crates/forgerun-server/src/metrics/queues.rs",
    "crates/forgerun-server/src/bridge/metrics.rs",
    "crates/forgerun-server/src/sinks/metrics.rs",
    "crates/forgerun-server/src/webhooks/metrics.rs",
];
const DASHBOARD: &str = "deploy/grafana-dashboard.json";
const ALERTS: &str = "deploy/alerts.yml";
const MANUAL: &str = "docs/reference/metrics.md";

/// Metrics that Prometheus makes itself.
const OF_PROMETHEUS: &[&str] = &["up"];

/// Words of PromQL that are followed by a list of labels.
const BEFORE_LABELS: &[&str] = &["by", "without", "on", "ignoring", "group_left", "group_right"];

/// Words of PromQL that stand alone.
const OPERATORS: &[&str] = &["and", "or", "unless", "bool", "offset"];

/// What a metric is registered as, which decides under which names it can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Counter,
    Gauge,
    Histogram,
    /// Not to be read from the source: any name goes.
    Unclear,
}

impl Shape {
    fn of(field_type: &str) -> Shape {
        match () {
            () if field_type.contains("Histogram") => Shape::Histogram,
            () if field_type.contains("Gauge") => Shape::Gauge,
            () if field_type.contains("Count") => Shape::Counter,
            () => Shape::Unclear,
        }
    }

    fn suffixes(self) -> &'static [&'static str] {
        match self {
            Shape::Counter => &["_total"],
            Shape::Gauge => &[""],
            Shape::Histogram => &["_bucket", "_count", "_sum"],
            Shape::Unclear => &["", "_total", "_bucket", "_count", "_sum"],
        }
    }
}

/// The registered names and their shapes: `register("name", …, self.field.clone())` and `field:
/// Type,`.
fn registered(source: &str) -> BTreeMap<String, Shape> {
    let calls = source.split(".register(").skip(1).filter_map(|rest| rest.split(");").next());
    let named = calls.filter_map(|call| Some((call.split('"').nth(1)?, field(call))));
    named.map(|(name, field)| (name.to_owned(), shape(source, field))).collect()
}

fn field(call: &str) -> Option<&str> {
    let rest = call.rsplit_once("self.")?.1;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

fn shape(source: &str, field: Option<&str>) -> Shape {
    let declared = |line: &str| {
        let (name, kind) = line.trim().trim_start_matches("pub ").split_once(": ")?;
        // A literal of the same struct has the same names, but no types.
        (Some(name) == field && kind.starts_with(char::is_uppercase) && !kind.contains("::"))
            .then(|| Shape::of(kind))
    };
    source.lines().find_map(declared).unwrap_or(Shape::Unclear)
}

/// Every name under which a scrape has something.
fn scraped(registered: &BTreeMap<String, Shape>) -> BTreeSet<String> {
    let names = registered
        .iter()
        .flat_map(|(name, shape)| shape.suffixes().iter().map(move |end| format!("{name}{end}")));
    names.chain(OF_PROMETHEUS.iter().map(|name| (*name).to_owned())).collect()
}

/// The metrics that an expression of PromQL asks for.
fn metrics(expression: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(c) = rest.chars().next() {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        match c {
            '"' => rest = after_string(rest),
            '{' => rest = after(rest, '}'),
            '[' => rest = after(rest, ']'),
            // Numbers and durations, and the variables of a dashboard.
            '0'..='9' | '$' => rest = rest[1..].trim_start_matches(|c: char| is_name(c) || c == '.'),
            _ if is_name(c) => {
                let length = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
                let (word, behind) = rest.split_at(length);
                rest = behind.trim_start();
                let grouped =
                    ["by ", "by(", "without ", "without("].iter().any(|word| rest.starts_with(word));
                if BEFORE_LABELS.contains(&word) {
                    rest = after(rest, ')');
                } else if !OPERATORS.contains(&word) && !rest.starts_with('(') && !grouped {
                    found.push(word.to_owned());
                }
            }
            _ => rest = &rest[c.len_utf8()..],
        }
    }
    found
}

/// What comes behind the string that `text` begins with.
fn after_string(text: &str) -> &str {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return &text[at + 1..],
            _ => {}
        }
    }
    ""
}

/// What comes behind the next `end` that stands in no string.
fn after(text: &str, end: char) -> &str {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        match c {
            '"' => rest = after_string(rest),
            _ if c == end => return &rest[end.len_utf8()..],
            _ => rest = &rest[c.len_utf8()..],
        }
    }
    ""
}

/// The expressions of a dashboard: its members `expr`.
fn expressions_of_dashboard(json: &str) -> Vec<String> {
    let values = json.split("\"expr\":").skip(1).map(str::trim_start).filter(|value| value.starts_with('"'));
    values
        .map(|value| {
            let length = value.len() - after_string(value).len();
            value[1..length - 1].replace("\\\"", "\"").replace("\\n", "\n").replace("\\\\", "\\")
        })
        .collect()
}

/// The values of a key in YAML as we write it: on the line itself, or below it and deeper.
fn values_of(yaml: &str, key: &str) -> Vec<String> {
    let lines: Vec<&str> = yaml.lines().collect();
    let depth = |line: &str| line.len() - line.trim_start().len();
    let value = |at: usize| {
        let line = lines[at].trim_start().trim_start_matches("- ");
        let value = line.strip_prefix(key)?.strip_prefix(':')?.trim();
        let below = lines[at + 1..]
            .iter()
            .take_while(|below| below.trim().is_empty() || depth(below) > depth(lines[at]));
        Some(match value {
            "|" | ">-" => below.copied().collect::<Vec<&str>>().join("\n"),
            value => value.to_owned(),
        })
    };
    (0..lines.len()).filter_map(value).collect()
}

fn unknown_metrics(path: &str, expressions: &[String], known: &BTreeSet<String>) -> Vec<String> {
    let asked: BTreeSet<String> = expressions.iter().flat_map(|expression| metrics(expression)).collect();
    asked
        .difference(known)
        .map(|name| format!("{path} asks for {name}, which the server does not have"))
        .collect()
}

fn unexplained<'a>(names: impl Iterator<Item = &'a String>, manual: &str) -> Vec<String> {
    let missing = names.filter(|name| !manual.contains(&format!("`{name}`")));
    missing.map(|name| format!("{MANUAL} does not explain `{name}`")).collect()
}

/// The place where `text` stops being one JSON value, if it does.
fn broken_json(text: &str) -> Option<String> {
    let rest = after_value(text.trim_start());
    let at = |rest: &str| 1 + text[..text.len() - rest.len()].matches('\n').count();
    match rest {
        Ok(rest) if rest.trim().is_empty() => None,
        Ok(rest) | Err(rest) => Some(format!("{DASHBOARD}: not JSON at line {}", at(rest))),
    }
}

/// What comes behind the JSON value that `text` begins with; an error is where it is broken.
fn after_value(text: &str) -> Result<&str, &str> {
    match text.chars().next().ok_or(text)? {
        '{' => after_items(&text[1..], '}', |item| {
            let behind = after_text(item)?.trim_start();
            after_value(behind.strip_prefix(':').ok_or(behind)?.trim_start())
        }),
        '[' => after_items(&text[1..], ']', after_value),
        '"' => after_text(text),
        _ => {
            let word_ends = |c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c);
            let (word, rest) = text.split_at(text.find(word_ends).unwrap_or(text.len()));
            let fine =
                ["true", "false", "null"].contains(&word) || word.parse::<f64>().is_ok_and(f64::is_finite);
            if fine { Ok(rest) } else { Err(text) }
        }
    }
}

fn after_text(text: &str) -> Result<&str, &str> {
    let rest = after_string(text);
    let string = &text[..text.len() - rest.len()];
    let whole = string.len() > 1 && string.starts_with('"') && string.ends_with('"');
    if whole { Ok(rest) } else { Err(text) }
}

fn after_items(text: &str, end: char, item: fn(&str) -> Result<&str, &str>) -> Result<&str, &str> {
    let mut rest = text.trim_start();
    if let Some(rest) = rest.strip_prefix(end) {
        return Ok(rest);
    }
    loop {
        rest = item(rest)?.trim_start();
        if let Some(rest) = rest.strip_prefix(end) {
            return Ok(rest);
        }
        rest = rest.strip_prefix(',').ok_or(rest)?.trim_start();
    }
}

mod can_fail {
    use super::*;

    const SOURCE: &str = r#"
        pub struct Metrics {
            submitted: Count<Scenario>,
            wait: Histogram,
            pub depth: Gauge,
            odd: Box<dyn Thing>,
        }
        fn new() -> Metrics { Metrics {
            submitted: Family::default(),
        } }
        registry.register("jobs_submitted", "Jobs", self.submitted.clone());
        registry.register(
            "wait_seconds",
            "How long",
            self.wait.clone(),
        );
        registry.register("depth", "How many", self.depth.clone());
        registry.register("odd", "What", self.odd.clone());
    "#;

    fn known() -> BTreeSet<String> {
        scraped(&registered(SOURCE))
    }

    #[test]
    fn the_registry_is_read_with_the_shape_of_each_metric() {
        let expected = [
            ("depth", Shape::Gauge),
            ("jobs_submitted", Shape::Counter),
            ("odd", Shape::Unclear),
            ("wait_seconds", Shape::Histogram),
        ];
        let expected: BTreeMap<String, Shape> = expected.map(|(name, shape)| (name.to_owned(), shape)).into();
        assert_eq!(registered(SOURCE), expected);
    }

    #[test]
    fn a_metric_that_does_not_exist_is_named_and_so_is_a_wrong_suffix() {
        for (expression, wrong) in [
            ("sum(rate(jobs_submitted_total[5m])) > 1", None),
            ("sum by (le, job) (rate(wait_seconds_bucket{a=\"}x(\"}[$__rate_interval])) / 1e3", None),
            ("up{job=\"$job\"} == 0 and on (job) depth > bool 100", None),
            ("depth offset 5m unless absent(depth)", None),
            ("rate(jobs_submitted[5m])", Some("jobs_submitted")),
            ("wait_seconds", Some("wait_seconds")),
            ("depth_total", Some("depth_total")),
            ("max by (job) (dead_letters) or vector(0)", Some("dead_letters")),
            ("depth / forgerun:invented", Some("forgerun:invented")),
        ] {
            let found = unknown_metrics("x", &[expression.to_owned()], &known());
            let expected: Vec<String> = wrong
                .iter()
                .map(|name| format!("x asks for {name}, which the server does not have"))
                .collect();
            assert_eq!(found, expected, "{expression}");
        }
    }

    #[test]
    fn expressions_are_found_in_a_dashboard_and_in_rules() {
        let json = r#"{"panels": [{"expr": "a{b=\"c\"}"}, {"expr":"d"}]}"#;
        assert_eq!(expressions_of_dashboard(json), ["a{b=\"c\"}", "d"]);
        let yaml = "- record: x:y\n  expr: a > 1\n- alert: Z\n  expr: |\n    b\n    or c\n  for: 5m\n";
        assert_eq!(values_of(yaml, "expr"), ["a > 1", "    b\n    or c"]);
        assert_eq!(
            (values_of(yaml, "record"), values_of(yaml, "alert")),
            (vec!["x:y".into()], vec!["Z".into()])
        );
    }

    #[test]
    fn broken_json_is_named_with_its_line() {
        for fine in [r#"{"a": [1, -2.5e3, true, null, "x\"]}"], "b": {}}"#, "[]", " \"\" "] {
            assert_eq!(broken_json(fine), None, "{fine}");
        }
        for broken in ["", "{", "{\"a\" 1}", "[1,]", "[1 2]", "{} {}", "\"a", "[nul]", "{a: 1}"] {
            assert!(broken_json(broken).is_some(), "{broken}");
        }
        assert_eq!(broken_json("{\n\"a\": 1,\n}"), Some(format!("{DASHBOARD}: not JSON at line 3")));
    }

    #[test]
    fn what_the_manual_leaves_out_is_named() {
        let names = ["jobs_submitted_total".to_owned(), "depth".to_owned()];
        assert_eq!(
            unexplained(names.iter(), "| `depth` | gauge |"),
            [format!("{MANUAL} does not explain `jobs_submitted_total`")]
        );
    }
}

fn registry() -> BTreeMap<String, Shape> {
    let registry: BTreeMap<String, Shape> =
        REGISTRIES.iter().flat_map(|path| registered(&repo::read(path))).collect();
    for name in ["jobs_submitted", "webhook_deliveries"] {
        assert!(registry.contains_key(name), "found no {name} in {REGISTRIES:?}");
    }
    registry
}

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_exist() {
    let (dashboard, alerts) = (repo::read(DASHBOARD), repo::read(ALERTS));
    let mut known = scraped(&registry());
    known.extend(values_of(&alerts, "record"));
    let (panels, rules) = (expressions_of_dashboard(&dashboard), values_of(&alerts, "expr"));
    assert!(!panels.is_empty() && !rules.is_empty(), "found no expressions");
    let mut complaints = unknown_metrics(DASHBOARD, &panels, &known);
    complaints.extend(unknown_metrics(ALERTS, &rules, &known));
    crate::assert_tidy(&complaints);
}

#[test]
fn the_dashboard_is_json() {
    crate::assert_tidy(&broken_json(&repo::read(DASHBOARD)).into_iter().collect::<Vec<String>>());
}

#[test]
fn the_manual_explains_every_metric_and_every_alert() {
    let manual = repo::read(MANUAL);
    let shown = |(name, shape): (String, Shape)| match shape {
        Shape::Counter => format!("{name}_total"),
        Shape::Gauge | Shape::Histogram | Shape::Unclear => name,
    };
    let metrics: Vec<String> = registry().into_iter().map(shown).collect();
    let alerts = values_of(&repo::read(ALERTS), "alert");
    crate::assert_tidy(&unexplained(metrics.iter().chain(&alerts), &manual));
}

/// A rule of the file: its name, and all that is said of it.
fn rule<'a>(yaml: &'a str, key: &str, name: &str) -> &'a str {
    let begin = format!("- {key}: {name}\n");
    let (_, rest) = yaml.split_once(&begin).unwrap_or_else(|| panic!("{ALERTS} has no {key} {name}"));
    rest.split("\n      - ").next().unwrap_or_default()
}

/// What the async-operations document (§9.3.2, §14.2.2, §16.2.1) asks to be alarmed by, and when to
/// add workers.
#[test]
fn the_alerts_that_the_documents_ask_for_are_there() {
    let alerts = repo::read(ALERTS);
    for (key, name, condition) in [
        ("alert", "ForgeRunQueueDeep", "forgerun:queue_depth > 1000"),
        ("alert", "ForgeRunQueueOld", "max by (job, queue) (forgerun_queue_oldest_seconds) > 300"),
        ("alert", "ForgeRunFailureRate", "forgerun:failure_ratio:rate10m > 0.05"),
        ("alert", "ForgeRunWorkersGone", "max by (job, queue) (forgerun_queue_unattended) == 1"),
        ("alert", "ForgeRunDeadLetters", "max by (job) (job_dead_letter_depth) > 0"),
        ("record", "forgerun:workers_to_add", "2 * (forgerun:queue_depth > bool 100)"),
        ("record", "forgerun:workers_to_add", "(forgerun:queue_age_seconds:estimate > bool 60)"),
    ] {
        assert!(rule(&alerts, key, name).contains(condition), "{name} does not say {condition}");
    }
}

/// Rates and quantiles are made of counters and histograms by whoever looks: the queue's (§14.2.2)
/// and the jobs' (§16.2.1).
#[test]
fn the_dashboard_shows_what_the_documents_ask_for() {
    let panels = expressions_of_dashboard(&repo::read(DASHBOARD));
    for (what, part) in [
        ("queue depth", "max(job_queue_depth"),
        ("enqueue rate", "rate(jobs_queued_total"),
        ("dequeue rate", "rate(job_queue_wait_seconds_count"),
        ("mean age of messages", "rate(job_queue_wait_seconds_sum"),
        ("age of the line", "max(job_queue_depth{job=\"$job\"}) / (sum (rate(job_queue_wait_seconds_count"),
        ("creation rate", "rate(jobs_submitted_total"),
        ("completion rate", "rate(jobs_succeeded_total"),
        ("failure rate", "rate(jobs_failed_total"),
        ("mean duration", "rate(job_execution_seconds_sum"),
        ("P50", "histogram_quantile(0.5, sum by (le) (rate(job_execution_seconds_bucket"),
        ("P95", "histogram_quantile(0.95, sum by (le) (rate(job_execution_seconds_bucket"),
        ("P99", "histogram_quantile(0.99, sum by (le) (rate(job_execution_seconds_bucket"),
        ("worker rate", "rate(job_execution_seconds_count"),
        ("dead letters", "max(job_dead_letter_depth"),
        ("depth by queue", "max by (queue) (forgerun_queue_jobs"),
        ("wait by queue", "sum by (le, queue) (rate(forgerun_job_wait_seconds_bucket"),
        ("duration by type", "sum by (le, queue, type) (rate(forgerun_job_run_seconds_bucket"),
    ] {
        assert!(panels.iter().any(|panel| panel.contains(part)), "no panel shows {what}");
    }
}
