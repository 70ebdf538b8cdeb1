//! What only the inside can show: that every statement fits the schema, and that none walks past ended jobs.

use rusqlite::{Connection, StatementStatus};

use super::{
    aside, backup, clients, connect, deliveries, list, load, logs, many, marks, migrate, operator, queues,
    read, records, results, rewrite, write, writer,
};

const ALL: &[&[(&str, &str)]] = &[
    migrate::STATEMENTS,
    load::STATEMENTS,
    aside::STATEMENTS,
    backup::STATEMENTS,
    list::STATEMENTS,
    operator::STATEMENTS,
    write::STATEMENTS,
    read::STATEMENTS,
    clients::STATEMENTS,
    deliveries::STATEMENTS,
    queues::STATEMENTS,
    logs::STATEMENTS,
    marks::STATEMENTS,
    records::STATEMENTS,
    results::STATEMENTS,
    rewrite::STATEMENTS,
    writer::STATEMENTS,
];

fn schema() -> Connection {
    let db = Connection::open_in_memory().unwrap();
    connect::plan_once(&db).unwrap();
    migrate::migrate(&db).unwrap();
    db
}

#[test]
fn every_statement_can_be_prepared() {
    let db = schema();
    let statements = ALL.iter().copied().flatten();
    // Each of those that insert many rows is there twice.
    assert!(
        (40..connect::STATEMENTS_MAX - 4).contains(&statements.clone().count()),
        "the cache keeps them all"
    );
    for (name, sql) in statements {
        db.prepare(sql).unwrap_or_else(|error| panic!("{name}: {error}"));
        if sql.contains("INSERT OR FAIL") {
            db.prepare(&many::with_rows(sql, 16)).unwrap_or_else(|error| panic!("many of {name}: {error}"));
        }
    }
}

/// The plan of a statement, one step per line.
fn plan(db: &Connection, sql: &str) -> String {
    let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let n_params = statement.parameter_count();
    let params = rusqlite::params_from_iter(vec![rusqlite::types::Null; n_params]);
    let steps = statement.query_map(params, |row| row.get::<_, String>(3)).unwrap();
    steps.collect::<Result<Vec<_>, _>>().unwrap().join("\n")
}

fn check(statements: &[(&str, &str)], name: &str, expected: &str) {
    let (_, sql) = statements.iter().find(|(known, _)| *known == name).unwrap();
    assert_eq!(plan(&schema(), sql), expected, "{name}");
}

#[test]
fn a_claim_walks_its_shelf_and_sorts_nothing() {
    check(load::STATEMENTS, "SHELF", "SEARCH jobs USING INDEX jobs_shelf (lane=? AND shelf=?)");
    check(read::STATEMENTS, "FRONT", "SEARCH jobs USING COVERING INDEX jobs_shelf (lane=? AND shelf=?)");
    let step = "SEARCH jobs USING INDEX jobs_shelf (lane=? AND shelf=? AND priority<?)";
    check(read::STATEMENTS, "FRONT_BELOW", step);
}

#[test]
fn a_claim_is_planned_once_whatever_is_bound() {
    let db = schema();
    let (_, sql) = load::STATEMENTS.iter().find(|(known, _)| *known == "SHELF").unwrap();
    let mut statement = db.prepare(sql).unwrap();
    for (lane, limit) in [(1, 10), (4, 20), (5, 30)] {
        assert!(statement.query((lane, "mail", limit)).unwrap().next().unwrap().is_none());
    }
    assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
}

#[test]
fn what_is_due_is_found_at_the_front_of_its_index() {
    check(load::STATEMENTS, "DUE", "SEARCH jobs USING INDEX jobs_due (due_at<?)");
    let (_, next_due) = read::STATEMENTS.iter().find(|(known, _)| *known == "NEXT_DUE").unwrap();
    let steps = plan(&schema(), next_due);
    for table in ["jobs", "records"] {
        let step = format!("SEARCH {table} USING COVERING INDEX {table}_due (due_at>?)");
        assert!(steps.contains(&step), "{steps}");
    }
    assert!(!steps.contains("TEMP B-TREE"), "{steps}");
}

#[test]
fn deliveries_are_found_along_their_indexes_and_nothing_is_sorted() {
    for (name, plan) in [
        ("DUE", "SEARCH deliveries USING INDEX deliveries_due (due_at<?)"),
        ("NEXT_DELIVERY", "SEARCH deliveries USING COVERING INDEX deliveries_due (due_at>?)"),
        ("CHAIN", "SEARCH deliveries USING INDEX deliveries_chain (job=? AND endpoint=? AND place>?)"),
        ("FAILED", "SEARCH deliveries USING INDEX deliveries_failed (endpoint=? AND settled_at>?)"),
    ] {
        check(deliveries::STATEMENTS, name, plan);
    }
}

#[test]
fn lists_go_along_an_index_and_sort_nothing() {
    for (name, plan) in [
        ("JOBS", "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id<?)"),
        ("WORKFLOWS", "SEARCH jobs USING INDEX jobs_workflow (id<?)"),
        ("WORKFLOWS_OF_CLIENT", "SEARCH jobs USING INDEX jobs_workflow_client (client=? AND id<?)"),
        ("JOBS_OF_CLIENT", "SEARCH jobs USING INDEX jobs_client (client=? AND id<?)"),
        ("JOBS_IN_STATE", "SEARCH jobs USING INDEX jobs_state (client=? AND state=? AND id<?)"),
        ("IDS_IN_STATE", "SEARCH jobs USING COVERING INDEX jobs_state (client=? AND state=? AND id<?)"),
        ("TO_WEBHOOK", "SEARCH deliveries USING INDEX deliveries_endpoint (endpoint=? AND id<?)"),
        ("GIVEN_UP", "SEARCH deliveries USING INDEX deliveries_given_up (endpoint=? AND id<?)"),
        ("OF_JOB", "SEARCH deliveries USING INDEX deliveries_job (job=? AND id<?)"),
    ] {
        check(list::STATEMENTS, name, plan);
    }
    for (name, plan) in [
        ("CLIENTS", "SEARCH clients USING PRIMARY KEY (id>?)"),
        ("WEBHOOKS", "SEARCH webhooks USING PRIMARY KEY (id>?)"),
        ("FAILED_JOBS", "SEARCH jobs USING INDEX jobs_failed (lane=? AND shelf=? AND id>?)"),
    ] {
        check(operator::STATEMENTS, name, plan);
    }
    check(read::STATEMENTS, "JOURNAL", "SEARCH journal USING INTEGER PRIMARY KEY (rowid>?)");
    check(read::STATEMENTS, "JOURNAL_BEFORE", "SEARCH journal USING COVERING INDEX journal_at (at>?)");
}

#[test]
fn sweeping_looks_only_at_what_is_old() {
    let db = schema();
    for (statements, name, index) in [
        (write::STATEMENTS, "SWEEP_JOURNAL", "USING COVERING INDEX journal_at (at<?)"),
        (write::STATEMENTS, "SWEEP_LIMITS", "USING COVERING INDEX limits_idle (turn_at<?)"),
        (write::STATEMENTS, "SWEEP_TOMBSTONES", "USING COVERING INDEX tombstones_at (at<?)"),
        (
            deliveries::STATEMENTS,
            "SWEEP_DELIVERIES",
            "USING COVERING INDEX deliveries_settled (settled_at<?)",
        ),
        (
            results::STATEMENTS,
            "REMOVE_EXPIRED",
            "USING COVERING INDEX results_expires (expires_at>? AND expires_at<?)",
        ),
        (
            results::STATEMENTS,
            "LET_EXPIRED_GO",
            "USING INDEX results_expires (expires_at>? AND expires_at<?)",
        ),
        (results::STATEMENTS, "LOOSE", "USING INDEX blobs_loose (loose_at>? AND loose_at<?)"),
        (clients::STATEMENTS, "SWEEP_KEYS", "USING COVERING INDEX api_keys_revoked (revoked_at<?)"),
    ] {
        let (_, sql) = statements.iter().find(|(known, _)| *known == name).unwrap();
        let plan = plan(&db, sql);
        assert!(plan.contains(index), "{name}:\n{plan}");
    }
}

#[test]
fn only_small_tables_are_scanned() {
    let db = schema();
    for (name, sql) in ALL.iter().copied().flatten() {
        let plan = plan(&db, sql);
        // As many rows as there are queues, schema versions, tables that number their rows, keys to sign with, rows that nobody
        // can use; or one. A backup is read whole, and written once, before it serves.
        let known = matches!(
            *name,
            "QUEUES"
                | "APPLIED"
                | "JOURNAL_END"
                | "ANY_WEBHOOK"
                | "SIGNING_KEYS"
                | "LIST_ASIDE"
                | "STORE_ID"
                | "MOVE_BESIDE"
                | "NEW_STORE_ID"
                | "NAMED"
        );
        // What a subquery yields is bounded by its own search.
        let scans = plan.lines().any(|step| step.contains("SCAN") && !step.contains("SCAN (subquery"));
        assert!(known || !scans, "{name}:\n{plan}");
    }
}

/// The async-operations document (§7.2): id, type, status, submission (in `head`) and input.
#[test]
fn what_every_job_must_have_cannot_be_missing() {
    let db = schema();
    let is_required = |table: &str, column: &str| -> bool {
        let sql = "SELECT \"notnull\" FROM pragma_table_info(?1) WHERE name = ?2";
        db.query_row(sql, [table, column], |row| row.get(0)).unwrap()
    };
    for column in ["id", "client", "queue", "job_type", "state", "head", "body"] {
        assert!(is_required("jobs", column), "{column}");
    }
    assert!(is_required("inputs", "bytes") && !is_required("jobs", "due_at"));
}
