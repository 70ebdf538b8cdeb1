//! Schemas, by the address that every SDK gives them.

use super::reading::*;
use super::*;

#[derive(Debug, serde::Deserialize)]
struct SchemaInfo {
    uri: String,
    #[serde(rename = "type")]
    job_type: String,
    version: String,
    #[expect(dead_code, reason = "it must be there")]
    created_at: Moment,
}

#[tokio::test]
async fn every_sdk_registers_reads_and_deletes_a_schema() {
    let world = World::start().await;
    // One with a number for a version is a text to SDKs.
    let number =
        call(&world.client, "PUT", "admin/schemas/other.type/1").body(r#"{"schema":{}}"#).send().await;
    assert_eq!(number.expect(201)["version"], 1);
    for sdk in ALL {
        let uri = "urn:ojs:schema:email.send:v1";
        let schema = json!({"type": "array", "items": {"type": "object"}});
        let body = json!({"uri": uri, "type": "email.send", "version": "1.0.0", "schema": schema});
        let made = sdk.post(&world, "schemas", body.clone()).await.expect(201);
        // Two of them read the answer itself, two what is within.
        for made in [&made, &made["schema"]] {
            let made: SchemaInfo = read(made);
            assert_eq!(
                (made.uri.as_str(), made.job_type.as_str(), made.version.as_str()),
                (uri, "email.send", "1.0.0")
            );
        }
        sdk.post(&world, "schemas", body).await.expect(409);
        let path = format!("schemas/{}", sdk.in_path(uri));
        let found = sdk.get(&world, &path).await.expect(200);
        read::<SchemaInfo>(&found);
        assert_eq!(part(&found["schema"], "schema"), schema);
        let path_of_list = match sdk {
            Sdk::Python => "schemas?limit=50&offset=0",
            Sdk::JavaScript => "schemas?page=1&per_page=10",
            Sdk::Rust | Sdk::Go => "schemas",
        };
        let list = sdk.get(&world, path_of_list).await.expect(200);
        assert_eq!(read::<Vec<SchemaInfo>>(&list["schemas"]).len(), 2);
        assert_eq!(read::<Pagination>(&list["pagination"]).total, 2);
        let job = json!({"type": "email.send", "args": [1], "schema": uri});
        let refused = sdk.post(&world, "jobs", job).await.expect(422);
        assert_eq!(read::<ServerError>(&refused["error"]).code, "schema_validation");
        sdk.delete(&world, &path).await.expect(200);
        let missing = sdk.get(&world, &path).await.expect(404);
        assert_eq!(read::<ServerError>(&missing["error"]).code, "not_found");
    }
}
