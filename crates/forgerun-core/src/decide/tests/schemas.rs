//! Schemas: one per type and version, and not more than a client may have.

use std::format;
use std::string::ToString;

use crate::command::{Answer, Command, Refusal, SchemaCommand};
use crate::id::ClientId;
use crate::limits;
use crate::record::Stored;
use crate::schema::SchemaIndex;
use crate::world::World;

fn register(version: &str, uri: &str) -> Command {
    Command::Schema(SchemaCommand::Register {
        client: ClientId::from_u128(1),
        job_type: "a.b".into(),
        version: version.into(),
        uri: uri.into(),
        text: b"{}".to_vec(),
    })
}

fn delete(version: &str) -> Command {
    let client = ClientId::from_u128(1);
    Command::Schema(SchemaCommand::Delete { client, job_type: "a.b".into(), version: version.into() })
}

fn index(world: &World) -> SchemaIndex {
    let key = SchemaIndex::record_key(ClientId::from_u128(1).to_string());
    SchemaIndex::of(&world.records[&key]).unwrap()
}

#[test]
fn a_type_has_each_version_once_and_the_newest_counts() {
    let mut world = World::new();
    for version in ["1", "10", "2"] {
        let answer = world.ask(register(version, &format!("urn:{version}")));
        assert!(matches!(answer, Answer::Schema(entry) if entry.version == version));
    }
    assert_eq!(world.ask(register("2", "urn:other")), Answer::Refused(Refusal::SchemaExists));
    assert_eq!(world.ask(register("3", "urn:2")), Answer::Refused(Refusal::SchemaExists));
    assert_eq!(index(&world).latest("a.b").unwrap().version, "10");
    assert!(matches!(world.ask(delete("10")), Answer::Schema(_)));
    assert_eq!(world.ask(delete("10")), Answer::Refused(Refusal::SchemaNotFound));
    assert_eq!(index(&world).latest("a.b").unwrap().version, "2");
    assert!(index(&world).latest("a").is_none());
    assert_eq!(world.records.len(), 3, "an index and two texts");
}

#[test]
fn a_client_has_so_many_and_no_more() {
    let mut world = World::new();
    for n in 0..limits::SCHEMAS_MAX {
        assert!(matches!(world.ask(register(&n.to_string(), &format!("urn:{n}"))), Answer::Schema(_)));
    }
    assert_eq!(world.ask(register("1000", "urn:x")), Answer::Refused(Refusal::TooManySchemas));
    world.ask(delete("0"));
    assert!(matches!(world.ask(register("1000", "urn:x")), Answer::Schema(_)));
}
