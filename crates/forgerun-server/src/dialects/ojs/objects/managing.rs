//! Bodies and objects of routes for operators and their tools.

use forgerun_wire::request_body;

request_body! {
    /// Which jobs to change.
    pub(in crate::dialects::ojs) BULK_CHANGE = "OjsBulkChange" {
        /// The jobs.
        "job_ids": list(text()),
        /// Instead of ids: `state`, `queue`, `type`, `since`, `until`, `older_than`.
        "filter": object(),
        /// Must be true under `/admin`.
        "confirm": truth(),
    }
    ; examples {"of a queue": {"value": {"filter": {"queue": "mail"}, "confirm": true}}}
}

request_body! {
    /// Which jobs to delete.
    pub(in crate::dialects::ojs) PURGE = "OjsPurge" {
        /// Of `completed`, `cancelled` and `discarded`; all three if absent.
        "states": list(text()),
        /// Only those from before this time, or from longer ago than this, such as `7d`.
        "older_than": text(),
        /// Must be true under `/admin` and to delete dead letters.
        "confirm": truth(),
    }
    ; examples {"old": {"value": {"states": ["completed"], "older_than": "7d", "confirm": true}}}
}

request_body! {
    /// What workers are told.
    pub(in crate::dialects::ojs) DIRECTIVE = "OjsDirective" {
        /// `quiet`, `terminate` or `resume`.
        "directive": text(),
    }
    ; required &["directive"]
}

request_body! {
    /// Whether there is maintenance.
    pub(in crate::dialects::ojs) MAINTENANCE = "OjsMaintenance" {
        /// Only `false` is supported.
        "enabled": truth(),
    }
    ; required &["enabled"]
}

request_body! {
    /// A list.
    pub(in crate::dialects::ojs) ITEMS = "OjsItems" {
        /// The entries.
        "items": list(object()),
        /// Where the page stands.
        "pagination": object(),
    }
    ; required &["items", "pagination"]
}
