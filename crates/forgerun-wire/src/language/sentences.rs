//! What the server says about one occurrence, in German.
//!
//! The English sentence is the key, so whoever refuses something writes English and nothing else. Its variable parts are
//! holes: `{1}` to `{9}`. Only sentences of our own are here; what a worker or a client says is never matched by chance,
//! since every sentence has fixed words around its holes.

use super::Language;

/// The sentence in the language; `None` if there is no translation.
pub fn sentence(english: &str, language: Language) -> Option<String> {
    match language {
        Language::English => Some(english.to_owned()),
        Language::German => {
            let query = "The query parameter `{1}` {2}.";
            if let Some(holes) = matched(query, english)
                && let Some(clause) = look_up(CLAUSES, holes[1])
            {
                return Some(format!("Der Anfrageparameter `{}` {clause}.", holes[0]));
            }
            look_up(SENTENCES, english)
        }
    }
}

/// What is wrong with a member, as it follows the member's name. Where there is no translation, the rule that is broken
/// says enough.
pub fn clause(english: &str, constraint: &str, language: Language) -> String {
    match language {
        Language::English => english.to_owned(),
        Language::German => {
            look_up(CLAUSES, english).unwrap_or_else(|| format!("verletzt die Regel `{constraint}`"))
        }
    }
}

type SentenceTable = &'static [(&'static str, &'static str)];

const SENTENCES: SentenceTable = &[
    // Requests as a whole.
    ("There is nothing at this address.", "Unter dieser Adresse gibt es nichts."),
    (
        "There is nothing at this address; try it without the slash at its end.",
        "Unter dieser Adresse gibt es nichts; versuchen Sie es ohne den Schrägstrich am Ende.",
    ),
    ("Allowed here: {1}.", "Hier erlaubt: {1}."),
    ("The answer can only be {1}.", "Die Antwort kann nur {1} sein."),
    ("The body must not be compressed.", "Der Inhalt darf nicht komprimiert sein."),
    ("The body broke off.", "Der Inhalt brach ab."),
    (
        "If-Match names a version, and there are none here; leave it out.",
        "If-Match nennt eine Fassung, und hier gibt es keine; lassen Sie es weg.",
    ),
    (
        "If-Match names another version; the ETag is {1} now.",
        "If-Match nennt eine andere Fassung; das ETag ist jetzt {1}.",
    ),
    (
        "The client's limit `{1}` is {2}, and {3} are used.",
        "Die Grenze `{1}` des Clients ist {2}, und {3} sind belegt.",
    ),
    ("The body is not a JSON object.", "Der Inhalt ist kein JSON-Objekt."),
    (
        "The body is not JSON: {1} at line {2} column {3}.",
        "Der Inhalt ist kein JSON (Zeile {2}, Spalte {3}).",
    ),
    (
        "The Content-Type of a body must be application/json.",
        "Der Content-Type eines Inhalts muss application/json sein.",
    ),
    ("The body is larger than {1} bytes.", "Der Inhalt ist größer als {1} Bytes."),
    ("The query is not percent-encoded UTF-8.", "Die Anfrageparameter sind kein prozentkodiertes UTF-8."),
    (
        "The query parameter `{1}` is unknown; expected one of {2}.",
        "Der Anfrageparameter `{1}` ist unbekannt; erwartet wird einer von {2}.",
    ),
    ("The request took longer than the server waits.", "Die Anfrage dauerte länger, als der Server wartet."),
    (
        "The database took longer than the server waits.",
        "Die Datenbank brauchte länger, als der Server wartet.",
    ),
    (
        "Registering needs the admin token, and the server has none: auth.admin_token is not set.",
        "Zum Registrieren braucht es das Verwaltungs-Token, und der Server hat keines: auth.admin_token ist nicht gesetzt.",
    ),
    (
        "The Idempotency-Key header is not one key in UTF-8.",
        "Der Idempotency-Key-Header ist nicht ein einzelner Schlüssel in UTF-8.",
    ),
    // Who asks, and how often.
    (
        "The request has no API key; send `Authorization: Bearer <api_key>`.",
        "Die Anfrage hat keinen API-Schlüssel; senden Sie `Authorization: Bearer <api_key>`.",
    ),
    (
        "The request has no admin token; send `Authorization: Bearer <admin_token>`.",
        "Die Anfrage hat kein Verwaltungs-Token; senden Sie `Authorization: Bearer <admin_token>`.",
    ),
    (
        "Registering needs the admin token; send `Authorization: Bearer <admin_token>`.",
        "Zum Registrieren braucht es das Verwaltungs-Token; senden Sie `Authorization: Bearer <admin_token>`.",
    ),
    (
        "There is no such operation on this server; /openapi.json lists those there are.",
        "Diesen Vorgang gibt es auf diesem Server nicht; /openapi.json nennt die vorhandenen.",
    ),
    (
        "The Authorization header is not `Bearer <api_key>`.",
        "Der Authorization-Header ist nicht `Bearer <api_key>`.",
    ),
    ("The API key is not known.", "Der API-Schlüssel ist nicht bekannt."),
    ("The API key was revoked.", "Der API-Schlüssel wurde widerrufen."),
    (
        "The API key has expired; all it can still do is renew itself.",
        "Der API-Schlüssel ist abgelaufen; er kann sich nur noch selbst erneuern.",
    ),
    (
        "The API key has expired; ask the operator for another.",
        "Der API-Schlüssel ist abgelaufen; bitten Sie den Betreiber um einen anderen.",
    ),
    (
        "The admin token owns no jobs; use an API key.",
        "Dem Verwaltungs-Token gehören keine Aufträge; verwenden Sie einen API-Schlüssel.",
    ),
    ("Registering needs the admin token.", "Zum Registrieren braucht es das Verwaltungs-Token."),
    ("This is another client.", "Das ist ein anderer Client."),
    ("There is no such client.", "Diesen Client gibt es nicht."),
    ("The client has no such key.", "Einen solchen Schlüssel hat der Client nicht."),
    (
        "The client has had a key before; a valid key of the client is needed now.",
        "Der Client hatte schon einen Schlüssel; jetzt braucht es einen gültigen Schlüssel des Clients.",
    ),
    (
        "The client has no valid key that could be renewed.",
        "Der Client hat keinen gültigen Schlüssel, der erneuert werden könnte.",
    ),
    ("More requests in a minute than allowed.", "Mehr Anfragen in einer Minute als erlaubt."),
    ("More registrations in a minute than allowed.", "Mehr Registrierungen in einer Minute als erlaubt."),
    (
        "Too many requests for what does not exist or belongs to others.",
        "Zu viele Anfragen nach etwas, das es nicht gibt oder das anderen gehört.",
    ),
    ("The quota of {1} requests is spent.", "Das Kontingent von {1} Anfragen ist verbraucht."),
    // Webhooks.
    ("There is no such webhook.", "Diesen Webhook gibt es nicht."),
    (
        "The webhook was changed since; its ETag is another one now.",
        "Der Webhook wurde inzwischen geändert und hat jetzt ein anderes ETag.",
    ),
    ("The webhook belongs to another client.", "Der Webhook gehört einem anderen Client."),
    ("The client has a webhook with this URL already.", "Der Client hat schon einen Webhook mit dieser URL."),
    (
        "The client has {1} webhooks, and may have no more.",
        "Der Client hat {1} Webhooks, mehr dürfen es nicht sein.",
    ),
    (
        "The webhook is disabled; nothing is sent to it until it is enabled again.",
        "Der Webhook ist abgeschaltet; bis er wieder eingeschaltet ist, wird nichts an ihn gesendet.",
    ),
    ("There is no such schedule.", "Diesen Zeitplan gibt es nicht."),
    (
        "The schedule was changed at the same time; try again.",
        "Der Zeitplan wurde gleichzeitig geändert; versuchen Sie es noch einmal.",
    ),
    ("There is no such delivery, or no longer.", "Diese Zustellung gibt es nicht oder nicht mehr."),
    ("The delivery is another sender's by now.", "Die Zustellung hat inzwischen ein anderer Absender."),
    // Jobs.
    ("There is no such job.", "Diesen Auftrag gibt es nicht."),
    ("There is no job {1}.", "Es gibt keinen Auftrag {1}."),
    ("The job belongs to another client.", "Der Auftrag gehört einem anderen Client."),
    (
        "The job is {1}, and this cannot be done to it now.",
        "Der Auftrag ist {1}, und das geht jetzt nicht mit ihm.",
    ),
    (
        "The job is {1}; only an ended job can be deleted, so cancel it first.",
        "Der Auftrag ist {1}; löschen lässt sich nur ein beendeter, also brechen Sie ihn zuerst ab.",
    ),
    (
        "Jobs cannot be deleted by their owners on this server.",
        "Auf diesem Server können Aufträge nicht von ihren Besitzern gelöscht werden.",
    ),
    ("The job has ended and is {1}.", "Der Auftrag ist beendet und ist {1}."),
    ("The job was cancelled.", "Der Auftrag wurde abgebrochen."),
    ("The worker does not hold the job, or no longer.", "Der Worker hat den Auftrag nicht oder nicht mehr."),
    (
        "The job is no dead letter, so it cannot be revived; it can be retried only while it has retries left.",
        "Der Auftrag ist nicht liegen geblieben und lässt sich daher nicht wiederbeleben; wiederholen lässt er sich nur, solange Wiederholungen übrig sind.",
    ),
    ("No retry is left after {1} attempts.", "Nach {1} Versuchen ist keine Wiederholung mehr übrig."),
    (
        "The idempotency key was used for a request with another content.",
        "Der Idempotenzschlüssel wurde für eine Anfrage mit anderem Inhalt verwendet.",
    ),
    (
        "The Idempotency-Key header and the idempotency_key of the body differ.",
        "Der Header Idempotency-Key und der idempotency_key des Inhalts sind verschieden.",
    ),
    ("There is such a job already.", "Einen solchen Auftrag gibt es schon."),
    (
        "The queue {1} holds as many jobs as it may.",
        "Die Warteschlange {1} enthält so viele Aufträge, wie sie darf.",
    ),
    (
        "The job is not finished; its report is written when it is.",
        "Der Auftrag ist nicht beendet; sein Bericht wird geschrieben, wenn er es ist.",
    ),
    (
        "The job is {1}; only a job that SUCCEEDED has a result.",
        "Der Auftrag ist {1}; ein Ergebnis hat nur ein Auftrag, der SUCCEEDED ist.",
    ),
    (
        "This job is no longer available. It was kept for {1} days after its end.",
        "Diesen Auftrag gibt es nicht mehr. Er wurde nach seinem Ende {1} Tage aufbewahrt.",
    ),
    ("This job is no longer available.", "Diesen Auftrag gibt es nicht mehr."),
    ("The job left no result.", "Der Auftrag hat kein Ergebnis hinterlassen."),
    ("The content of the result was removed.", "Der Inhalt des Ergebnisses wurde entfernt."),
    (
        "The result was kept until {1}, which is {2} d after the end of the job.",
        "Das Ergebnis wurde bis {1} aufbewahrt, das ist {2} d nach dem Ende des Auftrags.",
    ),
    (
        "The result has {1} bytes, and the range begins beyond them.",
        "Das Ergebnis hat {1} Bytes, und der Bereich beginnt dahinter.",
    ),
    (
        "More results are being downloaded than the server takes on.",
        "Es werden mehr Ergebnisse abgerufen, als der Server zugleich bedient.",
    ),
    ("No worker of this server would end the job.", "Kein Worker dieses Servers würde den Auftrag beenden."),
    (
        "More requests are waiting to be written than the server takes in.",
        "Es warten mehr Anfragen darauf, geschrieben zu werden, als der Server aufnimmt.",
    ),
    ("The server is stopping.", "Der Server fährt herunter."),
    (
        "The job has {1} items, and each must be told once.",
        "Der Auftrag hat {1} Teile, und jeder ist einmal zu nennen.",
    ),
    ("The job is no batch; it has no items.", "Der Auftrag ist kein Stapel; er hat keine Teile."),
    // How jobs ended.
    ("{1} of {2} items completed successfully.", "{1} von {2} Teilen sind gelungen."),
    (
        "{1} of {2} items completed successfully. Only failed items are listed; see itemsUrl for all.",
        "{1} von {2} Teilen sind gelungen. Nur fehlgeschlagene Teile sind aufgeführt; alle stehen unter itemsUrl.",
    ),
    (
        "{1} of {2} items completed successfully. Only the first failed items are listed; see itemsUrl for all.",
        "{1} von {2} Teilen sind gelungen. Nur die ersten fehlgeschlagenen Teile sind aufgeführt; alle stehen unter itemsUrl.",
    ),
    (
        "The job was cancelled by user: the client asked for it.",
        "Der Auftrag wurde abgebrochen: Der Client wünschte es.",
    ),
    (
        "The job was cancelled by system: replaced by a newer job with the same unique key.",
        "Der Auftrag wurde abgebrochen: Ein neuerer Auftrag mit demselben eindeutigen Schlüssel ersetzt ihn.",
    ),
    (
        "The job was cancelled by system: not begun before it expired.",
        "Der Auftrag wurde abgebrochen: Er hatte bis zu seinem Ablauf nicht begonnen.",
    ),
    (
        "The job was cancelled by system: not ended before its deadline.",
        "Der Auftrag wurde abgebrochen: Er war bis zu seiner Frist nicht beendet.",
    ),
    (
        "the attempt was stopped by the job's `deadline`, {1} after its submission",
        "Der Versuch wurde durch die `deadline` des Auftrags beendet, {1} nach dessen Einreichung.",
    ),
    (
        "the attempt ran longer than {1}, which is the job's own `timeout`",
        "Der Versuch lief länger als {1}; das ist der eigene `timeout` des Auftrags.",
    ),
    (
        "the attempt ran longer than {1}, which is {2} of the server",
        "Der Versuch lief länger als {1}; das ist {2} des Servers.",
    ),
    ("the worker gave no sign of life", "Der Worker gab kein Lebenszeichen."),
    ("the job does not say what to do", "Der Auftrag sagt nicht, was zu tun ist."),
    ("the store rejected the result", "Der Speicher hat das Ergebnis abgelehnt."),
    ("the store has no room for the result", "Der Speicher hat keinen Platz für das Ergebnis."),
    ("the result is larger than {1} bytes", "Das Ergebnis ist größer als {1} Bytes."),
    ("{1} fails in attempt {2}, as it is meant to", "{1} schlägt in Versuch {2} fehl, wie es soll."),
];

const CLAUSES: SentenceTable = &[
    ("is unknown; did you mean `{1}`?", "ist unbekannt; war `{1}` gemeint?"),
    ("is unknown; no members are expected", "ist unbekannt; es wird kein Feld erwartet"),
    ("is unknown; expected one of {1}", "ist unbekannt; erwartet wird einer von {1}"),
    ("is unknown; expected {1}", "ist unbekannt; erwartet wird {1}"),
    ("is unknown", "ist unbekannt"),
    ("is there twice", "ist zweimal da"),
    (
        "has {1}, half of a pair of surrogates, which is no character",
        "enthält {1}, ein halbes Surrogatpaar; das ist kein Zeichen",
    ),
    (
        "has the number {1}, which is too large for a double",
        "enthält die Zahl {1}, die für eine Gleitkommazahl zu groß ist",
    ),
    ("is nested deeper than {1} levels", "ist tiefer als {1} Ebenen verschachtelt"),
    ("is required", "ist eine Pflichtangabe"),
    ("is required for a DEFERRED job", "ist eine Pflichtangabe für einen Auftrag vom Typ DEFERRED"),
    ("must be a string", "muss eine Zeichenkette sein"),
    ("must be an integer", "muss eine ganze Zahl sein"),
    ("must be EXECUTE, DEFERRED or EMIT_EVENT", "muss EXECUTE, DEFERRED oder EMIT_EVENT sein"),
    ("must be a time like 2030-01-31T12:00:00Z", "muss ein Zeitpunkt wie 2030-01-31T12:00:00Z sein"),
    (
        "is only for DEFERRED jobs; leave it out to run at once",
        "gibt es nur für Aufträge vom Typ DEFERRED; lassen Sie es weg, um sofort zu laufen",
    ),
    (
        "asks for a payload that is not valid, so it is refused",
        "verlangt ungültige Nutzdaten und wird daher abgelehnt",
    ),
    (
        "must be a kind of work, not `{1}`; did you mean `{2}`?",
        "muss eine Arbeitsart sein, nicht `{1}`; war `{2}` gemeint?",
    ),
    (
        "must be one of the kinds of work that /openapi.json lists, not `{1}`",
        "muss eine der Arbeitsarten sein, die /openapi.json nennt, nicht `{1}`",
    ),
    ("must be {1}, not `{2}`", "muss {1} sein, nicht `{2}`"),
    ("must name {1}, not `{2}`", "muss {1} nennen, nicht `{2}`"),
    ("must lie between {1} and {2}", "muss zwischen {1} und {2} liegen"),
    ("must be manual or auto", "muss manual oder auto sein"),
    ("{1} is switched off on this server", "{1} ist auf diesem Server abgeschaltet"),
    (
        "must have 1 to {1} lower-case letters, digits, hyphens and dots, and begin with a letter or a digit",
        "muss aus 1 bis {1} Kleinbuchstaben, Ziffern, Bindestrichen und Punkten bestehen und mit einem Buchstaben oder einer Ziffer beginnen",
    ),
    (
        "must have at most {1} bytes and no control characters",
        "darf höchstens {1} Bytes und keine Steuerzeichen haben",
    ),
    ("is larger than {1} KB", "ist größer als {1} KB"),
    ("lies in the past", "liegt in der Vergangenheit"),
    (
        "lies before the moment at which the job is to begin",
        "liegt vor dem Zeitpunkt, zu dem der Auftrag beginnen soll",
    ),
    (
        "must be a duration above zero, such as 30s or 1h30m, or a time like 2030-01-31T12:00:00Z",
        "muss eine Dauer über null sein, etwa 30s oder 1h30m, oder ein Zeitpunkt wie 2030-01-31T12:00:00Z",
    ),
    ("must be a duration: it is counted from each run", "muss eine Dauer sein: Sie zählt ab jedem Lauf"),
    ("must be a list of strings", "muss eine Liste von Texten sein"),
    ("must be at most {1}", "dürfen höchstens {1} sein"),
    (
        "must have 1 to {1} of the characters a-z, 0-9, `.`, `_`, `:` and `-`",
        "muss 1 bis {1} der Zeichen a-z, 0-9, `.`, `_`, `:` und `-` haben",
    ),
    ("is longer than {1} bytes", "ist länger als {1} Bytes"),
    ("must be an http:// or https:// URL", "muss eine URL mit http:// oder https:// sein"),
    ("must name a host", "muss einen Host nennen"),
    ("must name a valid host", "muss einen gültigen Host nennen"),
    ("names a port that does not exist", "nennt einen Port, den es nicht gibt"),
    ("must not lead to a link-local address", "darf nicht zu einer link-lokalen Adresse führen"),
    ("must not lead to a private address", "darf nicht zu einer privaten Adresse führen"),
    ("must not lead to this machine", "darf nicht zu diesem Rechner führen"),
    ("must have 1 to {1} items; it has {2}", "muss 1 bis {1} Teile haben; es sind {2}"),
    ("must be EXECUTE or DEFERRED for a batch", "muss für einen Stapel EXECUTE oder DEFERRED sein"),
    ("must be an array", "muss eine Liste sein"),
    ("must be an object", "muss ein Objekt sein"),
    ("is the id of an item before it", "ist schon die Kennung eines Teils davor"),
    ("names no execution of this job", "nennt keine Ausführung dieses Auftrags"),
    ("names a status that no item ends in", "nennt einen Status, in dem kein Teil endet"),
    ("is no cursor of this list", "ist kein Cursor dieser Liste"),
    ("is no name of a queue", "ist kein Name einer Warteschlange"),
    ("must be a whole number from 1 to {1}", "muss eine ganze Zahl von 1 bis {1} sein"),
    ("must be true or false", "muss true oder false sein"),
];

fn look_up(table: SentenceTable, english: &str) -> Option<String> {
    table.iter().find_map(|(pattern, german)| {
        let holes = matched(pattern, english)?;
        Some(filled(german, &holes))
    })
}

/// The pattern with its holes filled. What is put in is not looked at again, whatever it looks like.
fn filled(pattern: &str, holes: &[&str]) -> String {
    let mut text = String::new();
    let mut rest = pattern;
    while let Some(hole) = rest.find('{') {
        text.push_str(&rest[..hole]);
        let place = usize::from(rest.as_bytes()[hole + 1] - b'1');
        text.push_str(holes[place]);
        rest = &rest[hole + 3..];
    }
    text + rest
}

/// What stands in the holes of the pattern, if the text is made by it. A hole ends where the words after it begin first,
/// and the last words must end the text.
fn matched<'a>(pattern: &str, text: &'a str) -> Option<Vec<&'a str>> {
    let mut parts = split_at_holes(pattern).into_iter();
    let mut rest = text.strip_prefix(parts.next()?)?;
    let mut holes = Vec::new();
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let end = match parts.peek() {
            Some(_) => rest.find(part)?,
            // The last hole goes as far as it can.
            None => rest.len().checked_sub(part.len()).filter(|end| rest.get(*end..) == Some(part))?,
        };
        holes.push(&rest[..end]);
        rest = &rest[end + part.len()..];
    }
    rest.is_empty().then_some(holes)
}

fn split_at_holes(pattern: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some(hole) = rest.find('{') {
        parts.push(&rest[..hole]);
        // Holes are written `{1}`: three bytes.
        rest = &rest[hole + 3..];
    }
    parts.push(rest);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(english: &str, german: Option<&str>) {
        assert_eq!(sentence(english, Language::German).as_deref(), german, "{english}");
        assert_eq!(sentence(english, Language::English).as_deref(), Some(english));
    }

    #[test]
    fn sentences_are_translated_with_what_stands_in_their_holes() {
        check("The server is stopping.", Some("Der Server fährt herunter."));
        check("The body is larger than 1048576 bytes.", Some("Der Inhalt ist größer als 1048576 Bytes."));
        check(
            "The body is not JSON: EOF while parsing an object at line 1 column 1.",
            Some("Der Inhalt ist kein JSON (Zeile 1, Spalte 1)."),
        );
        check(
            "FAIL_IMMEDIATE fails in attempt 2, as it is meant to",
            Some("FAIL_IMMEDIATE schlägt in Versuch 2 fehl, wie es soll."),
        );
        check(
            "The query parameter `limit` must be a whole number from 1 to 200.",
            Some("Der Anfrageparameter `limit` muss eine ganze Zahl von 1 bis 200 sein."),
        );
        check(
            "The query parameter `nope` is unknown; expected one of limit, cursor.",
            Some("Der Anfrageparameter `nope` ist unbekannt; erwartet wird einer von limit, cursor."),
        );
    }

    #[test]
    fn what_others_say_is_not_translated() {
        for text in
            ["", "it went wrong", "The server is stopping", "The server is stopping. Or is it?", "{1}"]
        {
            check(text, None);
        }
    }

    #[test]
    fn a_hole_keeps_what_looks_like_one() {
        check(
            "The queue {2}.{1} holds as many jobs as it may.",
            Some("Die Warteschlange {2}.{1} enthält so viele Aufträge, wie sie darf."),
        );
        check(
            "{2} fails in attempt {1}, as it is meant to",
            Some("{2} schlägt in Versuch {1} fehl, wie es soll."),
        );
        check("Allowed here: ä.", Some("Hier erlaubt: ä."));
    }

    #[test]
    fn a_clause_without_translation_names_the_rule() {
        assert_eq!(clause("lies in the past", "future", Language::German), "liegt in der Vergangenheit");
        assert_eq!(clause("is odd", "multipleOf", Language::German), "verletzt die Regel `multipleOf`");
        assert_eq!(clause("is odd", "multipleOf", Language::English), "is odd");
    }

    #[test]
    fn every_entry_is_found_by_itself_and_has_the_holes_of_its_english() {
        for (english, german) in SENTENCES.iter().chain(CLAUSES) {
            for hole in 1..=9 {
                let hole = format!("{{{hole}}}");
                assert!(english.contains(&hole) || !german.contains(&hole), "{german}");
            }
            let given = english.replace("{1}", "one").replace("{2}", "two").replace("{3}", "three");
            let table = if SENTENCES.iter().any(|(known, _)| known == english) { SENTENCES } else { CLAUSES };
            let wanted = german.replace("{1}", "one").replace("{2}", "two").replace("{3}", "three");
            assert_eq!(look_up(table, &given), Some(wanted));
        }
    }
}
