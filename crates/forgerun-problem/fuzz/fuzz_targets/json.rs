//! Whatever the json reader takes can be written in every form and read back the same.
#![no_main]

use forgerun_problem::read::Reader;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(reading) = Reader::new().json(bytes) else { return };
    let canonical = reading.problem.to_canonical_json();
    let again = Reader::new().json(canonical.as_bytes()).expect("our own JSON can be read");
    assert_eq!(again.problem, reading.problem);
    Reader::new().xml(reading.problem.to_xml().as_bytes()).expect("our own XML can be read");
    let _ = forgerun_problem::FieldWriter::new(200).job_members().write(&reading.problem);
});
