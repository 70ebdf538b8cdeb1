//! Schemas of job types: registered by address or by version, and what they do to jobs on every
//! road.

use std::time::Duration;

use super::*;

/// One object with an address, and nothing else.
fn of_mail() -> Value {
    json!({"type": "array", "minItems": 1, "maxItems": 1, "prefixItems": [{
        "type": "object", "required": ["to"], "additionalProperties": false,
        "properties": {"to": {"type": "string", "pattern": "^[^@ ]+@[^@ ]+$"}},
    }]})
}

async fn register(world: &World, version: &str, schema: Value) -> Answer {
    let body = json!({"uri": format!("urn:mail:{version}"), "type": "email.send", "version": version, "schema": schema});
    world.post("schemas", body).await
}

async fn send(world: &World, args: Value) -> Answer {
    world.post("jobs", json!({"type": "email.send", "args": args})).await
}

#[tokio::test]
async fn a_job_that_does_not_fit_is_refused_with_the_place_and_never_with_the_value() {
    let world = World::start().await;
    send(&world, json!([])).await.expect(201);
    register(&world, "1.0.0", of_mail()).await.expect(201);
    send(&world, json!([{"to": "a@b"}])).await.expect(201);
    let answer = send(&world, json!([{"to": "SECRET", "cc": 1}])).await;
    let body = refused(&answer, 422, "SCHEMA_VALIDATION_FAILED", "schema_validation");
    assert!(!answer.text().contains("SECRET"), "{body}");
    let wrong = body["errors"].as_array().unwrap();
    let places: Vec<&str> = wrong.iter().map(|wrong| wrong["pointer"].as_str().unwrap()).collect();
    assert!(places.contains(&"#/args/0/to") && places.contains(&"#/args/0"), "{body}");
    assert!(body["details"]["field"].as_str().unwrap().starts_with("args.0"), "{body}");
    // All or none.
    let jobs = json!({"jobs": [{"type": "email.send", "args": [{"to": "a@b"}]}, {"type": "email.send", "args": [7]}]});
    assert_eq!(world.post("jobs/batch", jobs.clone()).await.status, 422);
    let bulk = world.post("jobs/bulk", jobs).await.expect(207);
    assert_eq!((&bulk["succeeded"], &bulk["failed"]), (&json!(1), &json!(1)));
    // Other types are nobody's business.
    world.post("jobs", json!({"type": "email.sent", "args": [7]})).await.expect(201);
}

#[tokio::test]
async fn the_newest_version_counts_unless_a_job_names_another() {
    let world = World::start().await;
    let integers = json!({"items": {"type": "integer"}});
    register(&world, "1.9.0", of_mail()).await.expect(201);
    register(&world, "1.10.0", integers).await.expect(201);
    send(&world, json!([1])).await.expect(201);
    assert_eq!(send(&world, json!([{"to": "a@b"}])).await.status, 422);
    let of = |member: &str, value: &str| {
        let mut job = json!({"type": "email.send", "args": [{"to": "a@b"}]});
        job[member] = json!(value);
        job
    };
    world.post("jobs", of("version", "1.9.0")).await.expect(201);
    world.post("jobs", of("schema", "urn:mail:1.9.0")).await.expect(201);
    // One that is not registered is nothing to judge by.
    world.post("jobs", of("version", "7.0.0")).await.expect(201);
    // A schema may be named by a job of another type.
    let named = json!({"type": "letter.send", "args": [1], "schema": "urn:mail:1.9.0"});
    assert_eq!(world.post("jobs", named).await.status, 422);
    call(&world.client, "DELETE", "schemas/email.send/1.10.0").send().await.expect(200);
    send(&world, json!([{"to": "a@b"}])).await.expect(201);
    call(&world.client, "DELETE", "schemas/urn%3Amail%3A1.9.0").send().await.expect(200);
    send(&world, json!([])).await.expect(201);
}

#[tokio::test]
async fn every_road_to_a_job_of_the_type_is_watched() {
    let world = World::start().await;
    let schema = json!({"type": "object", "required": ["year"], "properties": {"year": {"type": "integer"}}});
    let body = json!({"job_type": "report.make", "version": "1", "schema": schema});
    world.post("schemas", body).await.expect(201);
    let job = |year: Value| json!({"type": "report.make", "parameters": {"year": year}});
    let operation = |year: Value| world.client.call("POST", "/api/v1/jobs").json(job(year));
    operation(json!(2025)).send().await.expect(202);
    let answer = operation(json!("x")).send().await;
    let problem = answer.json();
    assert_eq!(problem["ojs_code"], "SCHEMA_VALIDATION_FAILED", "{problem}");
    assert!(problem["type"].as_str().unwrap().ends_with("schema-validation-failed"), "{problem}");
    let cron =
        |year: Value| json!({"name": "r", "cron": "@daily", "type": "report.make", "args": [{"year": year}]});
    world.post("cron", cron(json!(1))).await.expect(201);
    refused(
        &world.post("cron", cron(json!("x"))).await,
        422,
        "SCHEMA_VALIDATION_FAILED",
        "schema_validation",
    );
    let step =
        |year: Value| json!({"type": "group", "jobs": [{"type": "report.make", "args": [{"year": year}]}]});
    world.post("workflows", step(json!(1))).await.expect(201);
    refused(
        &world.post("workflows", step(json!("x"))).await,
        422,
        "SCHEMA_VALIDATION_FAILED",
        "schema_validation",
    );
}

#[tokio::test]
async fn a_schema_is_found_by_address_type_and_version() {
    let world = World::start().await;
    let made = register(&world, "1.0.0", of_mail()).await.expect(201);
    assert_eq!((&made["uri"], &made["schema"]["schema"]), (&json!("urn:mail:1.0.0"), &of_mail()));
    for path in ["schemas/urn%3Amail%3A1.0.0", "schemas/email.send", "admin/schemas/email.send"] {
        let found = world.get(path).await.expect(200);
        assert_eq!(
            (&found["type"], &found["created_at"]),
            (&json!("email.send"), &made["created_at"]),
            "{path}"
        );
    }
    register(&world, "2.0.0-rc.1", of_mail()).await.expect(201);
    let versions = world.get("schemas/email.send/versions").await.expect(200);
    let shown: Vec<(&str, bool)> = versions["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| (version["version"].as_str().unwrap(), version["is_latest"].as_bool().unwrap()))
        .collect();
    assert_eq!(shown, [("2.0.0-rc.1", true), ("1.0.0", false)]);
    let list = world.get("schemas?limit=1").await.expect(200);
    assert_eq!((&list["count"], &list["pagination"]["total"]), (&json!(1), &json!(2)));
    refused(&register(&world, "1.0.0", json!({})).await, 409, "DUPLICATE_JOB", "duplicate");
    for path in ["schemas/nothing", "schemas/nothing/versions", "admin/schemas/email.send/9"] {
        let body = refused(&world.get(path).await, 404, "NOT_FOUND", "not_found");
        assert_eq!(body["details"]["resource_type"], "schema");
    }
    let gone = call(&world.client, "DELETE", "admin/schemas/email.send/9").send().await;
    refused(&gone, 404, "NOT_FOUND", "not_found");
}

#[tokio::test]
async fn a_schema_must_be_one_whole_in_itself_and_within_its_bounds() {
    let world = World::start().await;
    for (schema, place) in [
        (json!({"type": "nothing"}), "schema.type"),
        (json!({"items": {"$ref": "https://example.com/schema.json"}}), "schema.items.$ref"),
        (json!({"$ref": "#"}), "schema.$ref"),
        (json!(7), "schema"),
    ] {
        let answer = register(&world, "1", schema).await;
        let body = refused(&answer, 400, "INVALID_PAYLOAD", "invalid_request");
        assert_eq!(body["details"]["field"], place, "{body}");
    }
    let large = json!({"description": "x".repeat(65 * 1024)});
    assert_eq!(register(&world, "1", large).await.status, 413);
    // A pattern that would go back over its text for hours is refused, not tried.
    assert_eq!(register(&world, "1", json!({"pattern": "^(?=(a+))\\1$"})).await.status, 400);
    let evil = json!({"items": {"type": "string", "pattern": "^(a+)+$"}});
    register(&world, "1", evil).await.expect(201);
    assert_eq!(send(&world, json!(["a".repeat(100_000) + "!"])).await.status, 422);
}

#[tokio::test]
async fn arguments_beyond_what_can_be_judged_are_refused() {
    let world = World::start().await;
    let many: Vec<Value> = (0..400).map(|n| json!({"not": {"const": format!("word {n}")}})).collect();
    register(&world, "1", json!({"items": {"allOf": many}})).await.expect(201);
    send(&world, json!((0..100).collect::<Vec<u32>>())).await.expect(201);
    let answer = send(&world, json!((0..100_000).collect::<Vec<u32>>())).await;
    let body = refused(&answer, 422, "SCHEMA_VALIDATION_FAILED", "schema_validation");
    assert!(body["message"].as_str().unwrap().contains("too many"), "{body}");
}

/// The pattern makes the engine keep track of thousands of places for every byte: four such jobs
/// took the server a minute.
#[tokio::test]
async fn a_costly_pattern_is_refused_and_a_stored_one_stalls_nobody() {
    let world = World::start().await;
    let costly = json!({"items": {"pattern": "[ab]{9000}[^ab]"}});
    let refused = register(&world, "1.0.0", costly).await;
    assert_eq!(refused.status, 400);
    assert!(refused.json().to_string().contains("9004 places"), "{}", refused.json());
    // As costly as it may be.
    register(&world, "1.0.0", json!({"items": {"pattern": "[ab]{1990}[^ab]"}})).await.expect(201);
    let args = json!(["ab".repeat(60_000)]);
    let (first, health) = tokio::join!(send(&world, args.clone()), async {
        tokio::time::timeout(Duration::from_secs(5), world.client.call("GET", "/health").send()).await
    });
    assert_eq!(first.status, 422, "{}", first.json());
    health.expect("/health answers meanwhile").expect(200);
    send(&world, json!(["abababc"])).await.expect(422);
}

#[tokio::test]
async fn schemas_of_others_are_not_there() {
    let world = World::start().await;
    register(&world, "1", of_mail()).await.expect(201);
    let other = world.server.client().await;
    assert_eq!(call(&other, "GET", "schemas").send().await.expect(200)["count"], 0);
    call(&other, "GET", "schemas/email.send").send().await.expect(404);
    call(&other, "DELETE", "schemas/email.send/1").send().await.expect(404);
    post(&other, "jobs", json!({"type": "email.send", "args": []})).await.expect(201);
    // Tenants of a client share its schemas.
    let job = json!({"type": "email.send", "args": []}).to_string();
    let of_tenant = call(&world.client, "POST", "jobs").header("x-ojs-tenant", "acme").body(job).send().await;
    assert_eq!(of_tenant.status, 422);
}
