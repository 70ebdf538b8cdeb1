//! The catalog in German.

use forgerun_core::catalog::Kind;

use super::Words;

const fn say(title: &'static str, meaning: &'static str, remedy: &'static str) -> Words {
    Words { title, meaning, remedy }
}

const LATER: &str = "Versuchen Sie es später noch einmal.";
const LATER_WITH_KEY: &str =
    "Versuchen Sie es später noch einmal, mit einem Idempotenzschlüssel, falls die Anfrage etwas anlegt.";
const TELL_THE_OPERATOR: &str =
    "Versuchen Sie es später noch einmal und nennen Sie dem Betreiber die Anfragekennung, wenn es so bleibt.";
const LOOK_AT_THE_REPORT: &str =
    "Suchen Sie den Grund im Bericht und ändern Sie den Auftrag, bevor Sie ihn erneut einreichen.";

const INVALID_JOB_TYPE: &str = "Ungültiger Auftragstyp";
const INVALID_QUEUE: &str = "Ungültige Warteschlange";
const VALIDATION_FAILED: &str = "Auftrag abgelehnt";
const FORBIDDEN: &str = "Zugriff verweigert";
const TOO_MANY_REQUESTS: &str = "Zu viele Anfragen";

/// The German words of a kind.
pub(super) const fn words(kind: Kind) -> Words {
    match kind {
        Kind::MalformedRequest => say(
            "Fehlerhafte Anfrage",
            "Die Anfrage ist nicht lesbar: Ihr JSON ist fehlerhaft, eine Pflichtangabe fehlt, oder ein Wert hat den falschen Typ oder das falsche Format.",
            "Vergleichen Sie die Anfrage mit dem dokumentierten Schema, berichtigen Sie sie und senden Sie sie erneut.",
        ),
        Kind::UnsupportedMediaType => say(
            "Medientyp nicht unterstützt",
            "Der Inhalt ist als ein Format angegeben, das hier nicht gelesen wird.",
            "Senden Sie den Inhalt als JSON und geben Sie das als seinen Typ an.",
        ),
        Kind::UnsupportedCompression => say(
            "Komprimierung nicht unterstützt",
            "Der Inhalt oder die Nutzdaten sind mit einem Verfahren komprimiert, das der Server nicht kennt.",
            "Senden Sie den Inhalt unkomprimiert oder mit einem Verfahren, das der Server anbietet.",
        ),
        Kind::MethodNotAllowed => say(
            "Methode nicht erlaubt",
            "Die Adresse gibt es, aber nicht mit dieser Methode.",
            "Verwenden Sie eine der Methoden, die die Antwort als erlaubt nennt.",
        ),
        Kind::NotAcceptable => say(
            "Kein annehmbares Format",
            "Keines der Formate, die der Aufrufer annimmt, kann hier erzeugt werden.",
            "Nehmen Sie JSON an oder überlassen Sie dem Server die Wahl.",
        ),
        Kind::RangeNotSatisfiable => say(
            "Bereich nicht erfüllbar",
            "Der verlangte Teil des Ergebnisses liegt hinter dessen Ende.",
            "Verlangen Sie einen Bereich innerhalb der Größe, die Content-Range nennt, oder das Ganze.",
        ),
        Kind::PreconditionFailed => say(
            "Vorbedingung nicht erfüllt",
            "Die Anfrage nennt mit If-Match eine Fassung, und was sie ändern würde, hat eine andere oder keine.",
            "Lesen Sie die Ressource neu, entscheiden Sie neu und senden Sie ihr jetziges ETag, oder lassen Sie If-Match weg.",
        ),
        Kind::BodyTooLarge => say(
            "Inhalt zu groß",
            "Der Inhalt der Anfrage ist größer, als der Server liest.",
            "Verkleinern Sie den Inhalt oder teilen Sie ihn auf mehrere Anfragen auf.",
        ),
        Kind::JobPayloadTooLarge => say(
            "Nutzdaten zu groß",
            "Die Anfrage als Ganzes ist klein genug, aber die Nutzdaten des Auftrags überschreiten ihre eigene Grenze.",
            "Verkleinern Sie die Nutzdaten, oder legen Sie sie anderswo ab und übergeben Sie einen Verweis.",
        ),
        Kind::MetadataTooLarge => say(
            "Metadaten zu groß",
            "Die Metadaten des Auftrags überschreiten ihre Größengrenze.",
            "Behalten Sie nur, was zum Wiederfinden des Auftrags nötig ist, und verschieben Sie den Rest in die Argumente.",
        ),
        Kind::UnknownJobType => say(
            INVALID_JOB_TYPE,
            "Der Typ des Auftrags steht nicht im Katalog oder ist auf diesem Server abgeschaltet.",
            "Wählen Sie einen der Auftragstypen, die dieser Server erlaubt.",
        ),
        Kind::JobTypeTooLong => say(
            INVALID_JOB_TYPE,
            "Der Name des Auftragstyps ist länger als erlaubt.",
            "Verwenden Sie einen kürzeren Namen für den Auftragstyp.",
        ),
        Kind::InvalidArgs => say(
            VALIDATION_FAILED,
            "Die Anfrage ist lesbar, aber ein Wert darin verletzt eine Regel für Aufträge.",
            "Berichtigen Sie den genannten Wert und reichen Sie den Auftrag erneut ein.",
        ),
        Kind::ScheduleInPast => say(
            VALIDATION_FAILED,
            "Der Zeitpunkt, zu dem der Auftrag laufen soll, ist schon vorbei oder widerspricht seinem Typ.",
            "Geben Sie einen Zeitpunkt in der Zukunft an oder lassen Sie den Auftrag sofort laufen.",
        ),
        Kind::InvalidCallbackUrl => say(
            VALIDATION_FAILED,
            "Die Rückrufadresse ist keine, die dieser Server aufrufen darf.",
            "Geben Sie eine vollständige Webadresse an, die vom Server erreichbar und von ihm erlaubt ist.",
        ),
        Kind::InvalidQueue => say(
            INVALID_QUEUE,
            "Der Name der Warteschlange enthält unerlaubte Zeichen oder benennt keine Warteschlange.",
            "Verwenden Sie den Namen einer vorhandenen Warteschlange.",
        ),
        Kind::QueueNameTooLong => say(
            INVALID_QUEUE,
            "Der Name der Warteschlange ist länger als erlaubt.",
            "Verwenden Sie einen kürzeren Namen für die Warteschlange.",
        ),
        Kind::InvalidMetadata => say(
            "Ungültige Metadaten",
            "Die Metadaten des Auftrags sind fehlerhaft.",
            "Senden Sie die Metadaten als Objekt mit erlaubten Schlüsseln.",
        ),
        Kind::InvalidRetryPolicy => say(
            "Ungültige Wiederholungsregel",
            "Die Wiederholungsregel enthält einen Wert, der außerhalb seiner Grenzen liegt oder einem anderen widerspricht.",
            "Berichtigen Sie die genannte Angabe oder lassen Sie die Regel weg, dann gilt die übliche.",
        ),
        Kind::InvalidCron => say(
            "Ungültiger Cron-Ausdruck",
            "Der Cron-Ausdruck ist nicht verständlich.",
            "Prüfen Sie die Zahl der Felder, ihre Wertebereiche und die Zeitzone.",
        ),
        Kind::SchemaMismatch => say(
            "Schema nicht eingehalten",
            "Die Argumente passen nicht zu dem Schema, das für diesen Auftragstyp und diese Version hinterlegt ist.",
            "Passen Sie die Argumente dem Schema an oder nennen Sie die Version, für die sie geschrieben wurden.",
        ),
        Kind::ChecksumMismatch => say(
            "Prüfsumme stimmt nicht",
            "Der gesendete oder genannte Inhalt hat nicht die angegebene Prüfsumme.",
            "Berechnen Sie die Prüfsumme neu aus den gesendeten Bytes oder laden Sie den Inhalt erneut hoch.",
        ),
        Kind::UnsupportedFeature => say(
            "Funktion nicht vorhanden",
            "Die Anfrage verlangt etwas, das dieser Server nicht anbietet.",
            "Sehen Sie im Manifest nach, was der Server anbietet, und verzichten Sie auf den Rest.",
        ),
        Kind::IllegalTransition => say(
            "Unzulässiger Zustandswechsel",
            "In dem Zustand, in dem der Auftrag jetzt ist, geht das nicht.",
            "Lesen Sie den Auftrag erneut und wählen Sie etwas, das sein Zustand erlaubt.",
        ),
        Kind::RetryLimitReached => say(
            "Keine Wiederholung mehr übrig",
            "Der Auftrag hat alle seine Wiederholungen verbraucht.",
            "Finden Sie heraus, warum er fehlschlägt, und reichen Sie dann einen neuen Auftrag ein.",
        ),
        Kind::ResultNotReady => say(
            "Noch kein Ergebnis",
            "Der Auftrag hat kein Ergebnis, weil er noch nicht beendet oder nicht gelungen ist.",
            "Beobachten Sie den Zustand des Auftrags und fragen Sie nach dem Ergebnis, sobald er gelungen ist.",
        ),
        Kind::AlreadyCompleted => say(
            "Auftrag schon beendet",
            "Der Auftrag ist beendet, sein Ausgang kann nicht mehr gemeldet oder geändert werden.",
            "Behalten Sie den festgehaltenen Ausgang und verwerfen Sie diesen.",
        ),
        Kind::AlreadyCancelled => say(
            "Auftrag schon abgebrochen",
            "Der Auftrag wurde abgebrochen, bevor sein Ausgang gemeldet wurde.",
            "Verwerfen Sie den Ausgang und beenden Sie die Arbeit an dem Auftrag.",
        ),
        Kind::IdempotencyConflict => say(
            "Idempotenzschlüssel schon verwendet",
            "Der Idempotenzschlüssel wurde schon für eine andere Anfrage verwendet.",
            "Wiederholen Sie die erste Anfrage unverändert oder wählen Sie für die neue einen neuen Schlüssel.",
        ),
        Kind::Duplicate => say(
            "Konflikt",
            "Was es schon gibt, verhindert, dass dies angelegt oder erneuert wird.",
            "Verwenden Sie das Vorhandene, entfernen Sie es, oder machen Sie das Neue davon verschieden.",
        ),
        Kind::Unauthenticated => say(
            "Nicht angemeldet",
            "Die Anfrage hat keine Zugangsdaten, oder sie sind ungültig.",
            "Senden Sie einen gültigen API-Schlüssel.",
        ),
        Kind::KeyExpired => say(
            "API-Schlüssel abgelaufen",
            "Der API-Schlüssel war einmal gültig, aber seine Zeit ist vorbei.",
            "Erneuern Sie den Schlüssel und verwenden Sie den neuen.",
        ),
        Kind::KeyRevoked => say(
            "API-Schlüssel gesperrt",
            "Der API-Schlüssel wurde widerrufen oder abgeschaltet.",
            "Verwenden Sie einen anderen Schlüssel oder bitten Sie um einen neuen.",
        ),
        Kind::Forbidden => say(
            FORBIDDEN,
            "Der Aufrufer ist bekannt, hat aber nicht das Recht dazu.",
            "Bitten Sie um das Recht oder verwenden Sie Zugangsdaten, die es haben.",
        ),
        Kind::ForeignResource => say(
            FORBIDDEN,
            "Das Gesuchte gehört einem anderen Client.",
            "Prüfen Sie die Kennung oder verwenden Sie die Zugangsdaten des Eigentümers.",
        ),
        Kind::RouteNotFound => say(
            "Adresse nicht gefunden",
            "Unter dieser Adresse gibt es nichts, mit welcher Methode auch immer.",
            "Vergleichen Sie die Adresse mit denen im API-Dokument, auch einen Schrägstrich am Ende.",
        ),
        Kind::JobNotFound => say(
            "Auftrag nicht gefunden",
            "Es gibt keinen Auftrag mit dieser Kennung.",
            "Vergleichen Sie die Kennung mit der Antwort auf die Einreichung.",
        ),
        Kind::ClientNotFound => say(
            "Client nicht gefunden",
            "Es gibt keinen Client mit dieser Kennung.",
            "Vergleichen Sie die Kennung mit der Antwort auf die Registrierung.",
        ),
        Kind::KeyNotFound => say(
            "API-Schlüssel nicht gefunden",
            "Der Client hat keinen API-Schlüssel mit dieser Kennung.",
            "Lassen Sie sich die Schlüssel des Clients auflisten und wählen Sie einen davon.",
        ),
        Kind::WebhookNotFound => say(
            "Webhook nicht gefunden",
            "Es gibt keinen Webhook mit dieser Kennung.",
            "Lassen Sie sich die registrierten Webhooks auflisten und wählen Sie einen davon.",
        ),
        Kind::ScheduleNotFound => say(
            "Zeitplan nicht gefunden",
            "Es gibt keinen Zeitplan mit diesem Namen.",
            "Lassen Sie sich die Zeitpläne auflisten und wählen Sie einen davon.",
        ),
        Kind::WorkerNotFound => say(
            "Worker nicht gefunden",
            "Es gibt keinen Worker mit dieser Kennung: Er hat sich nie gemeldet oder schweigt schon zu lange.",
            "Lassen Sie sich die Worker auflisten und wählen Sie einen davon.",
        ),
        Kind::DeliveryNotFound => say(
            "Zustellung nicht gefunden",
            "Es gibt keine Zustellung mit dieser Kennung.",
            "Lassen Sie sich die Zustellungen des Webhooks auflisten; erledigte werden nur eine Weile aufbewahrt.",
        ),
        Kind::ReportNotFound => say(
            "Bericht nicht gefunden",
            "Es gibt keinen Bericht mit dieser Kennung, oder sein Auftrag hat noch keinen geschrieben.",
            "Prüfen Sie die Kennung und warten Sie das Ende des Auftrags ab, bevor Sie nach seinem Bericht fragen.",
        ),
        Kind::ResultNotFound => say(
            "Ergebnis nicht gefunden",
            "Es gibt kein Ergebnis mit dieser Kennung, oder der Auftrag hat keines hinterlassen.",
            "Vergleichen Sie die Kennung mit der Antwort, die das Ergebnis angekündigt hat.",
        ),
        Kind::Expired => say(
            "Auftrag nicht mehr aufbewahrt",
            "Den Auftrag gab es, aber die Zeit, für die er und sein Ergebnis aufbewahrt werden, ist vorbei.",
            "Reichen Sie den Auftrag erneut ein, wenn das Ergebnis noch gebraucht wird.",
        ),
        Kind::ResultExpired => say(
            "Ergebnis nicht mehr aufbewahrt",
            "Der Auftrag hat kein Ergebnis mehr: Die Zeit, für die dessen Inhalt aufbewahrt wird, ist vorbei.",
            "Reichen Sie den Auftrag erneut ein, wenn sein Ergebnis noch gebraucht wird.",
        ),
        Kind::RateLimited => say(
            TOO_MANY_REQUESTS,
            "Der Client sendet Anfragen schneller, als er darf.",
            "Warten Sie so lange, wie die Antwort sagt, und senden Sie weniger Anfragen auf einmal.",
        ),
        Kind::QuotaExceeded => say(
            TOO_MANY_REQUESTS,
            "Der Client hat sein Kontingent an Anfragen oder laufenden Aufträgen verbraucht.",
            "Warten Sie, bis das Kontingent erneuert ist oder einige Aufträge beendet sind, oder bitten Sie um ein größeres.",
        ),
        Kind::StorageQuotaExceeded => say(
            "Speicherkontingent erschöpft",
            "Der Client hat so viele Bytes gespeichert, wie er darf.",
            "Löschen Sie Aufträge, die nicht mehr gebraucht werden, oder bitten Sie um mehr Speicher.",
        ),
        Kind::QueueFull => say(
            "Warteschlange voll",
            "Die Warteschlange enthält so viele Aufträge, wie sie darf.",
            "Reichen Sie den Auftrag später erneut ein und verringern Sie die Last, wenn das öfter geschieht.",
        ),
        Kind::QueuePaused => say(
            "Warteschlange angehalten",
            "Die Warteschlange ist angehalten und nimmt zurzeit keine Aufträge an.",
            "Reichen Sie den Auftrag erneut ein, sobald die Warteschlange weiterläuft, oder verwenden Sie eine andere.",
        ),
        Kind::WorkerUnavailable => say(
            "Kein Worker verfügbar",
            "Es gibt keinen Worker, der den Auftrag übernehmen könnte.",
            "Versuchen Sie es später noch einmal oder starten Sie mehr Worker.",
        ),
        Kind::OperationTimeout => say(
            "Zeit überschritten",
            "Der Server ist mit der Anfrage nicht in der dafür gesetzten Zeit fertig geworden.",
            LATER_WITH_KEY,
        ),
        Kind::DependencyTimeout => say(
            "Abhängiger Dienst zu langsam",
            "Ein Dienst, auf den der Server angewiesen ist, hat nicht rechtzeitig geantwortet.",
            LATER,
        ),
        Kind::StorageError => say(
            "Speicherfehler",
            "Der Speicher hat einen Vorgang abgelehnt oder nicht ausgeführt.",
            TELL_THE_OPERATOR,
        ),
        Kind::ContentUnreadable => say(
            "Inhalt nicht lesbar",
            "Der gespeicherte Inhalt ist verschlüsselt, und der Server hat keinen Schlüssel, der ihn öffnet.",
            "Geben Sie dem Betreiber die Nummer der Anfrage: Der Schlüssel fehlt, oder der Inhalt wurde verändert.",
        ),
        Kind::StorageTimeout => {
            say("Speicher zu langsam", "Der Speicher hat nicht rechtzeitig geantwortet.", LATER_WITH_KEY)
        }
        Kind::StorageUnavailable => {
            say("Speicher nicht erreichbar", "Der Speicher ist nicht erreichbar.", LATER)
        }
        Kind::ReplicationLag => say(
            "Kopie im Rückstand",
            "Die befragte Kopie der Daten ist noch nicht auf dem neuesten Stand.",
            "Versuchen Sie es gleich noch einmal.",
        ),
        Kind::ConfigInvalid => say(
            "Server falsch eingerichtet",
            "Eine Einstellung des Servers ist ungültig, daher kann er die Anfrage nicht ausführen.",
            "Sagen Sie dem Betreiber, dass er die Einstellungen berichtigen muss, und versuchen Sie es danach noch einmal.",
        ),
        Kind::Internal => say(
            "Interner Serverfehler",
            "Es ist etwas geschehen, womit der Server nicht gerechnet hat.",
            TELL_THE_OPERATOR,
        ),
        Kind::HandlerError => say(
            "Auftrag fehlgeschlagen",
            "Der Auftrag ist gelaufen und fehlgeschlagen und würde es höchstwahrscheinlich wieder.",
            LOOK_AT_THE_REPORT,
        ),
        Kind::HandlerTransient => say(
            "Auftrag vorübergehend fehlgeschlagen",
            "Der Auftrag ist gelaufen und aus einem Grund fehlgeschlagen, der vorübergehen kann.",
            "Wiederholen Sie den Auftrag nach der genannten Zeit, falls er nicht von selbst wiederholt wird.",
        ),
        Kind::HandlerTimeout => say(
            "Laufzeit des Auftrags überschritten",
            "Der Auftrag lief länger, als er durfte, und wurde beendet.",
            "Wiederholen Sie den Auftrag, geben Sie ihm weniger zu tun, oder bitten Sie um eine höhere Grenze.",
        ),
        Kind::RunnerLost => say(
            "Worker des Auftrags verloren",
            "Der Worker, der den Auftrag ausführte, ist abgestürzt oder gab kein Lebenszeichen mehr.",
            "Wiederholen Sie den Auftrag und sehen Sie nach dem Worker, wenn es wieder geschieht.",
        ),
        Kind::NonRetryable => say(
            "Auftrag endgültig fehlgeschlagen",
            "Der Auftrag ist mit einem Fehler fehlgeschlagen, den seine Wiederholungsregel oder sein Worker für endgültig erklärt.",
            LOOK_AT_THE_REPORT,
        ),
        Kind::DefinitionMissing => say(
            "Beschreibung des Auftrags fehlt",
            "Der Auftrag kann nicht laufen, weil die Beschreibung seiner Arbeit fehlt oder unlesbar ist.",
            "Reichen Sie den Auftrag neu ein und nennen Sie dem Betreiber seine Kennung.",
        ),
        Kind::ReportFailed => say(
            "Ergebnis konnte nicht gespeichert werden",
            "Der Auftrag ist gelaufen, aber sein Ergebnis oder Bericht konnte nicht gespeichert werden.",
            "Wiederholen Sie den Auftrag, sobald der Speicher wieder in Ordnung ist.",
        ),
        Kind::Cancelled => say(
            "Auftrag abgebrochen",
            "Der Auftrag wurde abgebrochen, oder seine Frist endete, bevor er laufen konnte.",
            "Reichen Sie den Auftrag erneut ein, wenn er noch gewünscht ist.",
        ),
        Kind::BatchPartial => say(
            "Stapel teilweise fehlgeschlagen",
            "Einige Teile des Stapels sind gelungen und einige fehlgeschlagen.",
            "Sehen Sie sich den Ausgang jedes Teils an und reichen Sie nur die erneut ein, bei denen es sich lohnt.",
        ),
    }
}

/// The German reason phrase of a status that a refusal or a report can have.
pub(super) const fn reason(status: u16) -> Option<&'static str> {
    Some(match status {
        207 => "Mehrere Ergebnisse",
        400 => "Fehlerhafte Anfrage",
        401 => "Nicht angemeldet",
        403 => "Verboten",
        404 => "Nicht gefunden",
        405 => "Methode nicht erlaubt",
        406 => "Nicht annehmbar",
        409 => "Konflikt",
        410 => "Nicht mehr vorhanden",
        412 => "Vorbedingung nicht erfüllt",
        413 => "Inhalt zu groß",
        415 => "Medientyp nicht unterstützt",
        416 => "Bereich nicht erfüllbar",
        422 => "Nicht verarbeitbar",
        429 => "Zu viele Anfragen",
        500 => "Interner Serverfehler",
        503 => "Dienst nicht verfügbar",
        504 => "Zeit überschritten",
        507 => "Nicht genügend Speicherplatz",
        _ => return None,
    })
}
