//! Normalises failure messages: removes what differs between occurrences (ids, numbers, addresses,
//! quotations), so that failures with the same reason have the same text.
//!
//! It errs on the side of merging too much: a group too large is read, a thousand groups of one are
//! not.

use alloc::string::String;

use crate::limits::FAILURE_MESSAGE_BYTES_MAX;

const NUMBER: &str = "<n>";
const ID: &str = "<id>";
const TEXT: &str = "<text>";
const ADDRESS: &str = "<address>";

/// Bytes of a message that are examined. The rest is hardly ever the reason.
const LOOKED_AT_MAX: usize = 1024;

/// Minimum length of a run of letters and digits, with at least one digit, that counts as an id.
const ID_CHARS_MIN: usize = 20;

/// Minimum length of a run of hexadecimal digits, with at least one decimal one, that counts as an
/// id.
const HEX_CHARS_MIN: usize = 8;

/// The normalised message, cut to a line.
pub fn normalised(message: &str) -> String {
    let end = (0..=message.len().min(LOOKED_AT_MAX)).rev().find(|&at| message.is_char_boundary(at));
    let mut rest = &message[..end.unwrap_or(0)];
    let mut out = String::new();
    // Whether the last character written belongs to a word: a quote behind it is an apostrophe.
    let mut in_word = false;
    while let Some(first) = rest.chars().next() {
        if out.len() >= FAILURE_MESSAGE_BYTES_MAX {
            break;
        }
        let n_taken = if first.is_whitespace() || first.is_control() {
            if !out.is_empty() && !out.ends_with(' ') {
                out.push(' ');
            }
            first.len_utf8()
        } else if let Some(n) = quoted(rest).filter(|_| !in_word) {
            out.push_str(TEXT);
            n
        } else if is_of_token(first) {
            let token = token(rest);
            put_token(token, &mut out);
            token.len()
        } else {
            out.push(first);
            first.len_utf8()
        };
        in_word = first.is_alphanumeric();
        rest = &rest[n_taken..];
    }
    let out = crate::job::cut(out, FAILURE_MESSAGE_BYTES_MAX);
    String::from(out.trim_end())
}

/// Length of the quotation at the beginning of the text, marks included.
fn quoted(text: &str) -> Option<usize> {
    let mark = text.chars().next()?;
    let end = match mark {
        '"' | '\'' | '`' => mark,
        '“' => '”',
        '‘' => '’',
        '«' => '»',
        _ => return None,
    };
    let inside = &text[mark.len_utf8()..];
    let at = inside.find(end)?;
    Some(mark.len_utf8() + at + end.len_utf8())
}

/// Whether a character can be part of words, ids and addresses.
fn is_of_token(c: char) -> bool {
    c.is_alphanumeric()
        || matches!(c, '.' | ':' | '/' | '-' | '_' | '@' | '%' | '+' | '#' | '&' | '?' | '~' | '$')
}

/// The word, id or address at the beginning of the text, without trailing punctuation.
fn token(text: &str) -> &str {
    let end = text.find(|c: char| !is_of_token(c) && c != '=').unwrap_or(text.len());
    let token = text[..end].trim_end_matches(['.', ':', '?', '-', '=']);
    // Nothing but punctuation.
    if token.is_empty() { &text[..text.chars().next().map_or(0, char::len_utf8)] } else { token }
}

fn put_token(token: &str, out: &mut String) {
    if is_address(token) {
        out.push_str(ADDRESS);
    } else if is_long_id(token) {
        out.push_str(ID);
    } else {
        put_parts(token, out);
    }
}

fn is_address(token: &str) -> bool {
    let is_url = token.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty()
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || c == '+')
            && !rest.is_empty()
    });
    let is_mail = token.split_once('@').is_some_and(|(user, host)| !user.is_empty() && host.contains('.'));
    is_url || is_mail || is_ip4(token) || is_ip6(token)
}

/// Four numbers with dots, perhaps with a port or a prefix length.
fn is_ip4(token: &str) -> bool {
    let host = token.split([':', '/']).next().unwrap_or_default();
    let is_number = |part: &str| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    host.split('.').count() == 4 && host.split('.').all(is_number)
}

/// Groups of hexadecimal digits with colons. A time of day does not match: an address has a letter,
/// a `::` or more than four groups.
fn is_ip6(token: &str) -> bool {
    let groups = || token.split(':');
    groups().count() >= 3
        && groups().all(|group| group.len() <= 4 && group.bytes().all(|b| b.is_ascii_hexdigit()))
        && (token.contains("::") || groups().count() == 8)
}

/// A long run of letters and digits, as in keys and tokens.
fn is_long_id(token: &str) -> bool {
    token.len() >= ID_CHARS_MIN
        && token.bytes().any(|b| b.is_ascii_digit())
        && token.bytes().any(|b| b.is_ascii_alphabetic())
        && token.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'+' | b'='))
}

/// Replaces ids and numbers part by part; words and separators stay.
fn put_parts(mut token: &str, out: &mut String) {
    while !token.is_empty() {
        if let Some(rest) = after_uuid(token) {
            out.push_str(ID);
            token = rest;
            continue;
        }
        let end = token.find(|c: char| !c.is_alphanumeric()).unwrap_or(token.len());
        if end == 0 {
            let first = token.chars().next().unwrap_or(' ');
            out.push(first);
            token = &token[first.len_utf8()..];
            continue;
        }
        let (part, rest) = token.split_at(end);
        token = rest;
        if is_hex_id(part) || is_long_id(part) {
            out.push_str(ID);
        } else {
            token = put_digits(part, token, out);
        }
    }
}

/// The rest after a UUID at the beginning of the text.
fn after_uuid(text: &str) -> Option<&str> {
    let candidate = text.get(..36)?;
    let is_uuid = candidate.bytes().enumerate().all(|(at, b)| match at {
        8 | 13 | 18 | 23 => b == b'-',
        _ => b.is_ascii_hexdigit(),
    });
    let rest = &text[36..];
    let ends = !rest.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    (is_uuid && ends).then_some(rest)
}

fn is_hex_id(part: &str) -> bool {
    let digits = part.strip_prefix("0x").unwrap_or(part);
    let is_marked = digits.len() < part.len();
    (is_marked || digits.len() >= HEX_CHARS_MIN)
        && !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_hexdigit())
        // All decimal is a number, and all letters may be a word.
        && (is_marked
            || digits.bytes().any(|b| b.is_ascii_digit()) && digits.bytes().any(|b| b.is_ascii_alphabetic()))
}

/// Writes a part with its digits replaced, including decimal points and colons between digits.
/// Returns the unread rest.
fn put_digits<'a>(part: &str, mut rest: &'a str, out: &mut String) -> &'a str {
    let mut in_number = false;
    for c in part.chars() {
        let is_digit = c.is_ascii_digit();
        if is_digit && !in_number {
            out.push_str(NUMBER);
        } else if !is_digit {
            out.push(c);
        }
        in_number = is_digit;
    }
    if in_number {
        while let Some(more) = after_digits(rest) {
            rest = more;
        }
    }
    rest
}

/// The rest after a point or colon and digits.
fn after_digits(text: &str) -> Option<&str> {
    let digits = text.strip_prefix(['.', ':'])?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    (end > 0).then(|| &digits[end..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(message: &str, expected: &str) {
        assert_eq!(normalised(message), expected, "{message}");
        // Idempotent: groups do not change when their message is normalised again.
        assert_eq!(normalised(&normalised(message)).contains("<id>"), expected.contains("<id>"), "{message}");
    }

    #[test]
    fn ids_are_taken_out() {
        check("job 01890a5d-ac96-774b-bcce-b302099a8057 is gone", "job <id> is gone");
        check("order-01890a5d-ac96-774b-bcce-b302099a8057: no", "order-<id>: no");
        check("commit 9f86d081884c7d65 not found", "commit <id> not found");
        check("segfault at 0x7ffe", "segfault at <id>");
        check("key AKIAIOSFODNN7EXAMPLE123 was refused", "key <id> was refused");
        check("no deadbeef in cafe", "no deadbeef in cafe");
    }

    #[test]
    fn numbers_are_taken_out() {
        check("timed out after 30000 ms", "timed out after <n> ms");
        check("timed out after 1.5s", "timed out after <n>s");
        check("row 17 of 4711: bad value", "row <n> of <n>: bad value");
        check("at 12:00:03.250 in line 7.", "at <n> in line <n>.");
        check("2026-05-28T12:00:00Z is over", "<n>-<n>-<n>T<n>Z is over");
        check("worker-12 and worker_7", "worker-<n> and worker_<n>");
        check("the status was -1", "the status was -<n>");
        check("sha256 differs", "sha<n> differs");
    }

    #[test]
    fn addresses_are_taken_out() {
        check("could not reach 10.0.0.17:5432: refused", "could not reach <address>: refused");
        check("no route to fe80::1 from 192.168.0.0/16", "no route to <address> from <address>");
        check("GET https://a.example/x?id=7&b=c failed", "GET <address> failed");
        check("mail to jane.doe@example.org bounced", "mail to <address> bounced");
        check("db.example.com:5432 is down", "db.example.com:<n> is down");
        check("no such file /var/spool/in-17/a.csv", "no such file /var/spool/in-<n>/a.csv");
    }

    #[test]
    fn what_stands_in_quotes_is_taken_out() {
        check(r#"column "total" of 'orders' is missing"#, "column <text> of <text> is missing");
        check("unknown field `colour`", "unknown field <text>");
        check("missing “a” and «b»", "missing <text> and <text>");
        check("it can't and it won't", "it can't and it won't");
        check("an open \" stays", "an open \" stays");
    }

    #[test]
    fn words_stay_and_space_is_one() {
        check("", "");
        check("  it   went\n\twrong  ", "it went wrong");
        check("Grüße: ümläut 7", "Grüße: ümläut <n>");
        check("a = b, c(d) [e] {f}; g!", "a = b, c(d) [e] {f}; g!");
        check("... --- ???", "... --- ???");
    }

    #[test]
    fn two_occurrences_of_one_reason_say_the_same() {
        let one =
            r#"user 4711 ("jane@example.org") at 10.1.2.3 hit 01890a5d-ac96-774b-bcce-b302099a8057 twice"#;
        let other = r#"user 9 ("joe@example.org") at 203.0.113.200:80 hit 6f1b7b46-5d6e-4a2f-9c0b-3f1f8d1f2a10 twice"#;
        assert_eq!(normalised(one), normalised(other));
        assert_ne!(normalised("disk is full"), normalised("disk is gone"));
    }

    proptest! {
        #[test]
        fn any_text_is_bounded_and_never_a_panic(text in "\\PC{0,3000}") {
            prop_assert!(normalised(&text).len() <= FAILURE_MESSAGE_BYTES_MAX);
        }

        #[test]
        fn a_number_makes_no_difference(a in 0u64.., b in 0u64.., words in "[a-z ]{0,40}") {
            let said = |n: u64| normalised(&alloc::format!("{words} {n} {words}"));
            prop_assert_eq!(said(a), said(b));
        }
    }
}
