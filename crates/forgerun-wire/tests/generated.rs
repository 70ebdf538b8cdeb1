//! The checked-in code is what the `.proto` files give. To write it anew:
//! `FORGERUN_GENERATE=1 cargo test -p forgerun-wire --features grpc --test generated`.

use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// What is generated, by file name.
fn generated(folder: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let proto = Path::new(FOLDER).join("proto");
    let files = ["ojs/v1/service.proto", "forgerun/v1/results.proto", "grpc/health/v1/health.proto"];
    let descriptors = protox::compile(files, [&proto]).expect("the .proto files are well formed");
    tonic_prost_build::configure()
        .build_transport(false)
        .btree_map(".")
        .out_dir(folder)
        .compile_fds(descriptors.clone())
        .expect("code is generated");
    let read = |name: &str| fs::read(folder.join(name)).expect(name);
    // Comments stand in the .proto file, and nobody who asks the server for its description looks for them there.
    let mut bare = descriptors;
    bare.file.iter_mut().for_each(|file| file.source_code_info = None);
    vec![
        ("ojs.v1.rs", read("ojs.v1.rs")),
        ("forgerun.v1.rs", read("forgerun.v1.rs")),
        ("grpc.health.v1.rs", read("grpc.health.v1.rs")),
        ("descriptors.bin", bare.encode_to_vec()),
    ]
}

#[test]
fn the_generated_code_is_what_the_proto_files_give() {
    let folder = tempfile::tempdir().expect("a folder for what is generated");
    let checked_in: PathBuf = Path::new(FOLDER).join("generated");
    for (name, bytes) in generated(folder.path()) {
        let place = checked_in.join(name);
        if std::env::var_os("FORGERUN_GENERATE").is_some() {
            fs::write(&place, &bytes).expect("the generated code is written");
        }
        let found = fs::read(&place).unwrap_or_default();
        assert!(
            found == bytes,
            "generated/{name} is not what the .proto files give; see the top of this test"
        );
    }
}
