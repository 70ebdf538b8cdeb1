//! `Content-Disposition`: the file name of a result. Workers choose it, so it is made safe: no
//! folders, control characters or quotes.

use std::fmt::Write;

use axum::http::HeaderValue;
use forgerun_core::id::JobId;

/// Usual maximum of file systems.
const NAME_BYTES_MAX: usize = 255;

/// Extensions for common types; everything else is plain bytes.
const ENDINGS: [(&str, &str); 12] = [
    ("application/json", "json"),
    ("application/pdf", "pdf"),
    ("application/xml", "xml"),
    ("application/zip", "zip"),
    ("application/gzip", "gz"),
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/plain", "txt"),
    ("text/xml", "xml"),
];

/// The worker's file name, made safe; or one made of job and type.
pub(super) fn name(given: Option<&str>, job: JobId, media_type: &str) -> String {
    let harmless = given.map(harmless).filter(|name| !name.is_empty());
    harmless.unwrap_or_else(|| {
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        let ending = ENDINGS.iter().find(|(known, _)| essence.eq_ignore_ascii_case(known));
        format!("{job}.{}", ending.map_or("bin", |(_, ending)| ending))
    })
}

/// The file name in a worker's `Content-Disposition`; `None` if it has no readable one.
pub(crate) fn file_name(field: &str) -> Option<String> {
    let mut plain = None;
    for part in field.split(';').skip(1) {
        let (key, value) = part.split_once('=')?;
        let value = value.trim();
        match key.trim().to_ascii_lowercase().as_str() {
            "filename*" => {
                let encoded = value.get(..7).filter(|start| start.eq_ignore_ascii_case("UTF-8''"))?;
                let text =
                    percent_encoding::percent_decode_str(&value[encoded.len()..]).decode_utf8().ok()?;
                return Some(text.into_owned()).filter(|name| !name.is_empty());
            }
            "filename" => plain = Some(value.trim_matches('"').replace("\\", "")),
            _ => {}
        }
    }
    plain.filter(|name| !name.is_empty())
}

fn harmless(given: &str) -> String {
    let last = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let visible: String = last.chars().filter(|c| !c.is_control() && !is_override(*c)).collect();
    // `..` and hidden names have other meanings on most systems.
    let plain = visible.trim().trim_start_matches('.').trim_start();
    let end = (0..=plain.len().min(NAME_BYTES_MAX)).rev().find(|&at| plain.is_char_boundary(at)).unwrap_or(0);
    plain[..end].to_owned()
}

/// Characters that make a name look like another one (`gpj.exe`).
const fn is_override(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// To be saved under this name, never shown inline. Old clients read the first form, others the
/// second (RFC 6266).
pub(super) fn attachment(name: &str) -> HeaderValue {
    let plain: String =
        name.chars().map(|c| if c.is_ascii() && !matches!(c, '"' | '\\' | '%') { c } else { '_' }).collect();
    let mut field = format!("attachment; filename=\"{plain}\"");
    if plain != name {
        field.push_str("; filename*=UTF-8''");
        for byte in name.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    field.push(byte.into())
                }
                _ => write!(field, "%{byte:02X}").expect("a string takes all"),
            }
        }
    }
    HeaderValue::try_from(field).unwrap_or(HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(given: Option<&str>, media_type: &str) -> String {
        let name = name(given, JobId::from_u128(1), media_type);
        attachment(&name).to_str().unwrap().to_owned()
    }

    #[test]
    fn a_plain_name_stands_as_it_is() {
        assert_eq!(
            field(Some("market analysis-2025.pdf"), ""),
            "attachment; filename=\"market analysis-2025.pdf\""
        );
    }

    #[test]
    fn a_name_in_any_script_comes_in_both_forms() {
        assert_eq!(
            field(Some("Übersicht 5%.csv"), ""),
            "attachment; filename=\"_bersicht 5_.csv\"; filename*=UTF-8''%C3%9Cbersicht%205%25.csv"
        );
        assert_eq!(
            field(Some("a\"; x=\"b"), ""),
            "attachment; filename=\"a_; x=_b\"; filename*=UTF-8''a%22%3B%20x%3D%22b"
        );
    }

    #[test]
    fn a_name_cannot_lead_out_of_its_folder_or_hide() {
        for (given, saved) in [
            ("../../etc/passwd", "passwd"),
            ("C:\\temp\\a.txt", "a.txt"),
            (".bashrc", "bashrc"),
            ("a\r\nSet-Cookie: b", "aSet-Cookie: b"),
            ("photo\u{202e}gpj.exe", "photogpj.exe"),
        ] {
            assert_eq!(field(Some(given), ""), format!("attachment; filename=\"{saved}\""), "{given:?}");
        }
        let long = name(Some(&"ä".repeat(300)), JobId::from_u128(1), "");
        assert_eq!(long, "ä".repeat(127));
    }

    #[test]
    fn without_a_name_the_job_and_the_type_make_one() {
        let id = JobId::from_u128(1);
        for (given, media_type, ending) in [
            (None, "application/pdf", "pdf"),
            (None, "Text/CSV; charset=utf-8", "csv"),
            (None, "x/y", "bin"),
            (None, "", "bin"),
            (Some(""), "image/png", "png"),
            (Some("../.."), "image/png", "png"),
        ] {
            assert_eq!(name(given, id, media_type), format!("{id}.{ending}"), "{given:?} {media_type}");
        }
    }
}
