//! Makes requests out of the document: good ones, and ones that are bad in one or two ways. The
//! same seed makes the same requests.

use std::fmt::Write;

use forgerun_core::random::SplitMix64;
use serde_json::{Map, Value, json};

use super::checker::Contract;

/// Choices that follow from a seed.
#[derive(Clone)]
pub(in crate::api) struct Dice(SplitMix64);

impl Dice {
    pub(in crate::api) fn new(seed: u64) -> Dice {
        Dice(SplitMix64::new(seed))
    }

    pub(in crate::api) fn roll(&mut self, below: usize) -> usize {
        (self.0.draw() % below as u64) as usize
    }

    /// True so many times in a hundred.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.roll(100) < percent
    }

    pub(in crate::api) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }
}

/// A request, before its credentials.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

/// Values for parameters of paths that lead somewhere, by name.
pub(super) type Pools = [(&'static str, Vec<String>)];

const BAD_IDS: &[&str] = &[
    "",
    "no-id",
    "0",
    "..",
    "%00",
    "%20",
    "%2F",
    "%zz",
    "%F0%9F%A6%80",
    "null",
    "-1",
    "{job_id}",
    "00000000-0000-0000-0000-000000000000",
    "01890A5D-AC96-774B-BCCE-B302099A8057",
    "01890a5d-ac96-774b-bcce-b302099a8057",
    "01890a5dac96774bbcceb302099a8057",
];

const BAD_ACCEPTS: &[&str] = &[
    "*/*",
    "application/json",
    "application/problem+json",
    "application/problem+xml",
    "application/xml",
    "text/html",
    "image/png",
    "application/json;q=0",
    "nonsense",
    ",,;;==",
    "application/*;q=0.5, */*;q=0.1",
    "q=1",
    "é/ü",
    "application/json;q=abc",
    "text/event-stream",
    "application/problem+xml;q=0.9, application/json;q=0.1",
];

const BAD_TYPES: &[&str] = &[
    "application/json; charset=utf-8",
    "APPLICATION/JSON",
    "text/plain",
    "application/xml",
    "",
    "nonsense",
    "é",
    "multipart/form-data; boundary=x",
    "application/x-www-form-urlencoded",
    "application/json;;;",
    "application/jsonx",
];

const BAD_KEYS: &[&str] = &["", "\"\"", "\"quoted\"", "again", "again", "ключ", "a b\tc", "\"", "🦀"];

const BAD_PREFERS: &[&str] = &[
    "wait=1",
    "wait=0",
    "wait=-1",
    "wait=99999999999999999999",
    "respond-async",
    "respond-async, wait=1",
    "wait",
    "=",
    "wait=\"1\"; x",
    "return=minimal",
    "é",
    ",,,",
];

const RANGES: &[&str] = &[
    "bytes=0-0",
    "bytes=-1",
    "bytes=1-99999999999999999999",
    "bytes=99999999999999999999-",
    "bytes=999999-",
    "bytes=-0",
    "bytes=5-2",
    "bytes=0-0,1-1",
    "bytes=",
    "items=0-1",
    "é",
];

const BAD_QUERIES: &[&str] = &[
    "",
    "0",
    "-1",
    "1e3",
    "99999999999999999999",
    "%zz",
    "%ff",
    "%00",
    "%F0%9F%A6%80",
    "CANCELLED,queued",
    "EXECUTE",
    "DONE",
    "%",
    "a=b",
    "no-id",
    "01890a5d-ac96-774b-bcce-b302099a8057",
    "%22%27%3Cb%3E",
];

const BAD_BODIES: &[&[u8]] = &[
    b"{",
    b"}",
    b"",
    b" ",
    b"null",
    b"true",
    b"[]",
    b"[{}]",
    b"\"text\"",
    b"1",
    b"1e999",
    b"NaN",
    b"{\"type\":}",
    b"{\"type\":\"EXECUTE\"} more",
    b"{\"type\":\"EXECUTE\",\"type\":\"DEFERRED\"}",
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"{\"type\":\"\xff\"}",
    b"{\"type\":\"\\ud800\"}",
    b"{\"priority\":1e400,\"type\":\"EXECUTE\"}",
    b"{'type':1}",
    b"{\"rotate\":\"yes\"}",
    b"{\"key_id\":null}",
];

/// A request for an operation.
pub(super) fn request(dice: &mut Dice, contract: &Contract, operation: (&str, &str), pools: &Pools) -> Made {
    let (method, path) = operation;
    let described = contract.operation(method, path);
    let mut made = Made {
        method: if method == "GET" && dice.chance(5) { "HEAD".into() } else { method.into() },
        path: filled(dice, path, pools),
        headers: Vec::new(),
        body: Vec::new(),
    };
    add_query(dice, described, &mut made);
    if let Some(body) = described.get("requestBody") {
        add_body(dice, contract, body, &mut made);
    }
    add_headers(dice, &mut made);
    let of_parts = |parameter: &Value| parameter["name"] == "Range";
    if described["parameters"].as_array().is_some_and(|parameters| parameters.iter().any(of_parts)) {
        add_parts(dice.clone(), &mut made);
    }
    add_versions(dice.clone(), &mut made);
    made
}

/// The path with good ids, and now and then a bad one.
pub(super) fn filled(dice: &mut Dice, path: &str, pools: &Pools) -> String {
    let mut filled = path.to_owned();
    for (name, good) in pools {
        let value = match dice.roll(10) {
            0 => (*dice.pick(BAD_IDS)).to_owned(),
            1 if dice.chance(20) => "x".repeat(1 + dice.roll(2000)),
            _ => dice.pick(good).clone(),
        };
        filled = filled.replace(&format!("{{{name}}}"), &value);
    }
    filled
}

fn add_query(dice: &mut Dice, described: &Value, made: &mut Made) {
    let parameters = described["parameters"].as_array().unwrap().iter();
    let mut pairs = Vec::new();
    for parameter in parameters.filter(|parameter| parameter["in"] == "query") {
        if dice.chance(60) {
            continue;
        }
        let value = match dice.chance(50) {
            true => encoded(&value(dice, &Value::Null, &parameter["schema"], 0)),
            false => (*dice.pick(BAD_QUERIES)).to_owned(),
        };
        pairs.push(format!("{}={value}", parameter["name"].as_str().unwrap()));
    }
    if dice.chance(3) {
        pairs.push((*dice.pick(&["unknown=1", "%zz", "&&", "=", "limit", "%F0%9F%A6%80=1"])).to_owned());
    }
    if !pairs.is_empty() {
        made.path = format!("{}?{}", made.path, pairs.join("&"));
    }
}

fn encoded(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => encoded.push(byte as char),
            _ => write!(encoded, "%{byte:02X}").unwrap(),
        }
    }
    encoded
}

fn add_body(dice: &mut Dice, contract: &Contract, body: &Value, made: &mut Made) {
    let media = &body["content"]["application/json"];
    let examples: Vec<&Value> =
        media["examples"].as_object().into_iter().flatten().map(|(_, example)| &example["value"]).collect();
    let mut good = match dice.chance(30) && !examples.is_empty() {
        true => (*dice.pick(&examples)).clone(),
        false => value(dice, &contract.document, &media["schema"], 0),
    };
    if dice.chance(40) {
        spoil(dice, &mut good);
    }
    made.body = match dice.roll(12) {
        0 => dice.pick(BAD_BODIES).to_vec(),
        1 if dice.chance(50) => {
            let mut bytes = good.to_string().into_bytes();
            bytes.truncate(dice.roll(bytes.len() + 1));
            bytes
        }
        2 if dice.chance(30) => {
            let depth = 1 + dice.roll(300);
            format!("{{\"type\":\"EXECUTE\",\"payload\":{}{}}}", "[".repeat(depth), "]".repeat(depth)).into()
        }
        3 if dice.chance(40) => format!("{good}{}", " ".repeat(5000)).into(),
        4 if body["required"] != true => Vec::new(),
        _ => good.to_string().into_bytes(),
    };
    let content_type = match dice.roll(12) {
        0 => Some((*dice.pick(BAD_TYPES)).to_owned()),
        1 if dice.chance(30) => None,
        _ => Some("application/json".to_owned()),
    };
    made.headers.extend(content_type.map(|content_type| ("content-type", content_type)));
    if dice.chance(2) {
        made.headers
            .push(("content-encoding", (*dice.pick(&["gzip", "identity", "br, gzip", "é"])).to_owned()));
    }
}

fn add_headers(dice: &mut Dice, made: &mut Made) {
    let bad: [(&'static str, &[&str], usize); 7] = [
        ("if-none-match", &["*", "*", "\"other\"", "W/", "é"], 25),
        ("accept-language", &["de", "de-AT, en;q=0.1", "fr", "*", ";;q=", "é"], 20),
        ("accept", BAD_ACCEPTS, 30),
        ("idempotency-key", BAD_KEYS, 15),
        ("prefer", BAD_PREFERS, 8),
        ("x-correlation-id", &["a-1", "", "é\u{1F980}", "<script>", "a b c"], 10),
        (
            "traceparent",
            &["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0-0-0", "", "é"],
            10,
        ),
    ];
    draw_headers(dice, made, &bad);
}

/// Parts and copies, for what can be had in parts. Dice of their own: what others draw stays as it
/// was.
fn add_parts(mut dice: Dice, made: &mut Made) {
    let parts: [(&'static str, &[&str], usize); 3] = [
        ("range", RANGES, 75),
        ("if-range", &["\"x\"", "W/\"x\"", "", "é"], 5),
        ("if-none-match", &["*", "*", "*", "\"x\"", "W/\"x\", \"y\"", "", "é"], 50),
    ];
    draw_headers(&mut dice, made, &parts);
}

/// A version of what is changed or read, mostly not the present one. Dice of their own, as above.
fn add_versions(mut dice: Dice, made: &mut Made) {
    let versions = &["\"other\"", "\"other\"", "*", "W/\"x\", \"y\"", "", "é"];
    draw_headers(&mut dice, made, &[("if-match", versions, 6)]);
}

fn draw_headers(dice: &mut Dice, made: &mut Made, from: &[(&'static str, &[&str], usize)]) {
    for &(name, values, percent) in from {
        if !dice.chance(percent) {
            continue;
        }
        let value = match dice.chance(5) {
            true => "x".repeat(1 + dice.roll(1500)),
            false => (*dice.pick(values)).to_owned(),
        };
        made.headers.push((name, value));
    }
}

/// A value that the schema allows.
fn value(dice: &mut Dice, document: &Value, schema: &Value, depth: usize) -> Value {
    if let Some(target) = schema["$ref"].as_str() {
        return value(dice, document, document.pointer(target.trim_start_matches('#')).unwrap(), depth);
    }
    for choices in ["enum", "examples"] {
        if let Some(choices) = schema[choices].as_array() {
            return dice.pick(choices).clone();
        }
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        Value::String(one) => vec![one],
        _ => vec!["string", "integer", "boolean", "array", "object"],
    };
    match *dice.pick(&types) {
        "object" => object(dice, document, schema, depth),
        "array" => (0..dice.roll(3)).map(|_| value(dice, document, &schema["items"], depth + 1)).collect(),
        "integer" => {
            let (least, most) =
                (schema["minimum"].as_i64().unwrap_or(0), schema["maximum"].as_i64().unwrap_or(1000));
            json!(least + dice.roll((most - least + 1) as usize) as i64)
        }
        "boolean" => json!(dice.chance(50)),
        "null" => Value::Null,
        _ => text(dice, schema),
    }
}

fn object(dice: &mut Dice, document: &Value, schema: &Value, depth: usize) -> Value {
    let mut members = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten().filter(|_| depth < 4) {
        let required = schema["required"].as_array().is_some_and(|names| names.contains(&json!(name)));
        if required || dice.chance(30) {
            members.insert(name.clone(), value(dice, document, property, depth + 1));
        }
    }
    Value::Object(members)
}

fn text(dice: &mut Dice, schema: &Value) -> Value {
    let choices: &[&str] = match schema["format"].as_str() {
        Some("uuid") => &["01890a5d-ac96-774b-bcce-b302099a8057"],
        Some("date-time") => &["2999-01-31T12:00:00Z", "2999-01-31T12:00:00.123456+05:30"],
        Some("uri") => &["https://client.example/hooks", "http://client.example:8080/a?b=c"],
        _ => &["default", "reports", "Größe 🦀", "a", "x-1"],
    };
    json!(dice.pick(choices))
}

/// Makes one member wrong, missing or too much.
fn spoil(dice: &mut Dice, body: &mut Value) {
    let Some(members) = body.as_object_mut() else { return };
    let names: Vec<String> = members.keys().cloned().collect();
    let name = if names.is_empty() { "type".into() } else { dice.pick(&names).clone() };
    match dice.roll(4) {
        0 => drop(members.remove(&name)),
        1 => drop(members.insert("unknown \u{1F980}".into(), nasty(dice))),
        _ => drop(members.insert(name, nasty(dice))),
    }
}

fn nasty(dice: &mut Dice) -> Value {
    let choices = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1.5),
        json!(1e308),
        json!(""),
        json!(" "),
        json!("\u{0}"),
        json!("\u{202e}\u{fffe}\u{1F980}"),
        json!("../../etc"),
        json!([]),
        json!({}),
        json!([[]]),
        json!({"type": "EXECUTE"}),
        json!("x".repeat(300)),
        json!("é".repeat(200)),
        json!("x".repeat(1500)),
        json!("x".repeat(5000)),
        json!("ftp://client.example/"),
        json!("http://127.0.0.1/"),
        json!("http://[::1]/"),
        json!("1970-01-01T00:00:00Z"),
        json!("9999-12-31T23:59:59Z"),
        json!("2999-02-30T25:61:61Z"),
        json!("0000-01-01T00:00:00+23:59"),
        json!("9999-12-31T23:59:59-23:59"),
    ];
    dice.pick(&choices).clone()
}
