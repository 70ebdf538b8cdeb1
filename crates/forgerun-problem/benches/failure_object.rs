//! How fast a full failure object is written canonically and read back.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use forgerun_problem::read::Reader;
use forgerun_problem::{Digest, FieldType, FieldWriter};

#[path = "../tests/it/samples.rs"]
mod samples;

fn failure_object(criterion: &mut Criterion) {
    let problem = samples::full_failure();
    let (json, xml) = (problem.to_canonical_json(), problem.to_xml());
    let writer = FieldWriter::new(200).job_members().extension("code", FieldType::String);
    let field = writer.write(&problem).expect("there is something to say");
    let reader = Reader::new();
    criterion.bench_function("write canonical json", |b| b.iter(|| black_box(&problem).to_canonical_json()));
    criterion.bench_function("write json", |b| b.iter(|| black_box(&problem).to_json()));
    criterion.bench_function("write xml", |b| b.iter(|| black_box(&problem).to_xml()));
    criterion.bench_function("write field", |b| b.iter(|| writer.write(black_box(&problem))));
    criterion.bench_function("digest", |b| b.iter(|| Digest::of(black_box(json.as_bytes()))));
    criterion.bench_function("read json", |b| b.iter(|| reader.json(black_box(json.as_bytes()))));
    criterion.bench_function("read xml", |b| b.iter(|| reader.xml(black_box(xml.as_bytes()))));
    criterion.bench_function("read field", |b| b.iter(|| reader.field(black_box(field.as_bytes()))));
}

criterion_group!(benches, failure_object);
criterion_main!(benches);
