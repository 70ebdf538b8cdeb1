//! Bad input of every kind, for every reader: a typed error or a reading, in bounded time, never a
//! panic.

use std::time::{Duration, Instant};

use forgerun_problem::limits::{DOCUMENT_BYTES_MAX, WARNINGS_MAX};
use forgerun_problem::read::{ReadError, Reader, Reading};

type Read = fn(&Reader, &[u8]) -> Result<Reading, ReadError>;

const READERS: [(&str, Read); 3] = [("json", Reader::json), ("xml", Reader::xml), ("field", Reader::field)];

/// Small and repeatable; quality does not matter here.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let problem = crate::samples::full_failure();
    let field = forgerun_problem::FieldWriter::new(503).job_members().write(&problem).unwrap();
    let documents = crate::async_draft::EXAMPLES.iter().map(|json| (*json).to_owned());
    documents.chain([problem.to_json(), problem.to_xml(), field]).map(String::into_bytes).collect()
}

/// Pieces that parsers stumble over.
const TROUBLE: [&[u8]; 24] = [
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\0",
    b"\\ud800",
    b"\\u0000",
    b"{",
    b"[",
    b"\"",
    b"}",
    b"<i>",
    b"</i>",
    b"<!DOCTYPE x [",
    b"<!ENTITY a \"&a;\">",
    b"&a;",
    b"&#0;",
    b"&#x110000;",
    b"<![CDATA[",
    b"]]>",
    b"1e999",
    b"-",
    b"999999999999999999999999",
    b"xmlns=\"urn:other\"",
    b"a=(",
];

fn mutated(seed: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(bytes.len().max(1));
        match dice.roll(6) {
            0 => bytes.truncate(at),
            1 if !bytes.is_empty() => bytes[at] = dice.roll(256) as u8,
            2 if !bytes.is_empty() => drop(bytes.remove(at)),
            3 => drop(bytes.splice(at..at, TROUBLE[dice.roll(TROUBLE.len())].iter().copied())),
            4 => {
                let piece = bytes[at..(at + dice.roll(40)).min(bytes.len())].to_vec();
                drop(bytes.splice(at..at, piece));
            }
            _ if !bytes.is_empty() => bytes.swap(at, 0),
            _ => {}
        }
    }
    bytes
}

/// Whatever was read must be writable in every form and readable again.
fn survives(reading: Reading) {
    assert!(reading.warnings.len() <= WARNINGS_MAX);
    let canonical = reading.problem.to_canonical_json();
    let again = Reader::new().json(canonical.as_bytes()).unwrap().problem;
    assert_eq!(again, reading.problem);
    Reader::new().xml(reading.problem.to_xml().as_bytes()).unwrap();
}

#[test]
fn thousands_of_mutated_documents_are_read_or_refused() {
    let mut dice = Dice(7);
    for seed in seeds() {
        for _ in 0..1_500 {
            let bytes = mutated(&seed, &mut dice);
            for (_, read) in READERS {
                if let Ok(reading) = read(&Reader::new(), &bytes) {
                    survives(reading);
                }
            }
        }
    }
}

#[test]
fn thousands_of_random_bytes_are_read_or_refused() {
    let mut dice = Dice(11);
    let alphabet = b"{}[]\":,0123456789.eE+-truefalsn \\u<>/&;!?=()%@:*abcxyz\n\t\xff\xc3\xa9\0";
    for _ in 0..20_000 {
        let length = dice.roll(64);
        let bytes: Vec<u8> = (0..length).map(|_| alphabet[dice.roll(alphabet.len())]).collect();
        for (_, read) in READERS {
            if let Ok(reading) = read(&Reader::new(), &bytes) {
                survives(reading);
            }
        }
    }
}

#[test]
fn deep_nesting_is_refused() {
    let levels = 200_000;
    let arrays = format!("{{\"a\":{}", "[".repeat(levels));
    let objects = format!("{{\"a\":{}", "{\"a\":".repeat(levels));
    for document in [arrays, objects] {
        assert_eq!(Reader::new().json(document.as_bytes()), Err(ReadError::TooDeep { depth_max: 32 }));
    }
    let xml = format!("<problem xmlns=\"urn:ietf:rfc:7807\">{}", "<a>".repeat(levels));
    assert_eq!(Reader::new().xml(xml.as_bytes()), Err(ReadError::TooDeep { depth_max: 32 }));
    let foreign =
        format!("<problem xmlns=\"urn:ietf:rfc:7807\" xmlns:o=\"urn:o\">{}", "<o:a>".repeat(levels));
    assert!(matches!(Reader::new().xml(foreign.as_bytes()), Err(ReadError::Malformed { .. })));
    let field = format!("a={}", "(".repeat(10_000));
    assert!(matches!(Reader::new().field(field.as_bytes()), Err(ReadError::Malformed { .. })));
}

#[test]
fn a_flood_of_namespaces_is_refused() {
    let declarations: String = (0..50_000).map(|n| format!(" xmlns:p{n}=\"u\"")).collect();
    let xml = format!("<problem xmlns=\"urn:ietf:rfc:7807\"{declarations}/>");
    assert!(matches!(Reader::new().xml(xml.as_bytes()), Err(ReadError::Malformed { .. })));
}

#[test]
fn huge_numbers_are_refused_or_rounded() {
    let digits = "9".repeat(400);
    for number in ["1e999", "-1e999", &digits, "1e99999999999999999999"] {
        let refused = Reader::new().json(format!("{{\"status\":{number}}}").as_bytes());
        assert!(matches!(refused, Err(ReadError::Malformed { .. })), "{number}: {refused:?}");
    }
    for number in
        ["1e-999", "18446744073709551616", "-9223372036854775809", "0.0000000000000000000000000000001"]
    {
        survives(Reader::new().json(format!("{{\"a\":{number}}}").as_bytes()).unwrap());
    }
    let xml = format!("<problem xmlns=\"urn:ietf:rfc:7807\"><status>{digits}</status></problem>");
    assert_eq!(Reader::new().xml(xml.as_bytes()).unwrap().warnings.len(), 1);
}

#[test]
fn invalid_utf8_is_refused_by_every_reader() {
    for bytes in
        [&b"{\"title\":\"\xc3\x28\"}"[..], b"\xf0\x28\x8c\x28", b"{\"\xed\xa0\x80\":1}", b"a=\"\xff\""]
    {
        for (name, read) in READERS {
            assert!(read(&Reader::new(), bytes).is_err(), "{name}");
        }
    }
    let lone_surrogate = Reader::new().json(br#"{"title":"\ud800"}"#);
    assert!(matches!(lone_surrogate, Err(ReadError::Malformed { .. })));
}

#[test]
fn entity_expansion_is_refused_in_every_disguise() {
    let problem = "<problem xmlns=\"urn:ietf:rfc:7807\"><title>&a;</title></problem>";
    for (prolog, expected) in [
        ("<!DOCTYPE problem [<!ENTITY a \"b\">]>", ReadError::DocumentType),
        ("<!DOCTYPE problem SYSTEM \"file:///etc/passwd\">", ReadError::DocumentType),
        ("<?xml version=\"1.0\"?><!DOCTYPE a PUBLIC \"b\" \"http://c/\">", ReadError::DocumentType),
        ("", ReadError::UnknownEntity { name: "a".into() }),
    ] {
        let document = format!("{prolog}{problem}");
        assert_eq!(Reader::new().xml(document.as_bytes()), Err(expected), "{prolog}");
    }
}

#[test]
fn malformed_xml_is_refused() {
    for document in [
        "",
        " ",
        "<problem xmlns=\"urn:ietf:rfc:7807\">",
        "<problem xmlns=\"urn:ietf:rfc:7807\"></other>",
        "<problem xmlns=\"urn:ietf:rfc:7807\"/>trailing",
        "leading<problem xmlns=\"urn:ietf:rfc:7807\"/>",
        "<problem xmlns=\"urn:ietf:rfc:7807\"/></problem>",
        "<problem xmlns=\"urn:ietf:rfc:7807\"><title>\u{1}</title></problem>",
        "<problem xmlns=\"urn:ietf:rfc:7807\"><title>&#1;</title></problem>",
        "<problem xmlns=\"urn:ietf:rfc:7807\"><title>&#xD800;</title></problem>",
        "<problem xmlns=\"urn:ietf:rfc:7807\"><title>&</title></problem>",
        "<x:problem/>",
    ] {
        let refused = Reader::new().xml(document.as_bytes());
        assert!(
            matches!(refused, Err(ReadError::Malformed { .. } | ReadError::NotAProblem)),
            "{document}: {refused:?}"
        );
    }
    let twice = "<problem xmlns=\"urn:ietf:rfc:7807\"/><problem xmlns=\"urn:ietf:rfc:7807\"/>";
    assert_eq!(Reader::new().xml(twice.as_bytes()), Err(ReadError::NotAProblem));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "only the clock can tell that the time is bounded")]
fn large_documents_take_bounded_time_and_warnings() {
    let fill = |open: &str, piece: &str, close: &str| {
        let room = DOCUMENT_BYTES_MAX - open.len() - close.len();
        format!("{open}{}{close}", piece.repeat(room / piece.len()))
    };
    let documents = [
        fill("{\"results\":[0", ",0", "]}"),
        fill("{\"a\":[0", ",[]", "]}"),
        fill("{\"title\":\"", "\\u0001", "\"}"),
    ];
    let xml = [
        fill("<problem xmlns=\"urn:ietf:rfc:7807\"><a>", "<i/>", "</a></problem>"),
        fill("<problem xmlns=\"urn:ietf:rfc:7807\"><a>", "&#65;", "</a></problem>"),
        fill("<problem xmlns=\"urn:ietf:rfc:7807\"", " a=\"\"", "/>"),
    ];
    let started = Instant::now();
    for document in documents {
        assert!(Reader::new().json(document.as_bytes()).unwrap().warnings.len() <= WARNINGS_MAX);
    }
    for document in xml {
        let _ = Reader::new().xml(document.as_bytes());
    }
    // A debug build on a busy machine needs a few seconds; quadratic work would need hours.
    assert!(started.elapsed() < Duration::from_secs(60));
}
