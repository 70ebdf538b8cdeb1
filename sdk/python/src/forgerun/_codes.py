"""Words and codes that the server's API documents define. `tests/test_codes.py` compares them with the server and the vectors."""

from __future__ import annotations

STATES = ("CREATED", "QUEUED", "ASSIGNED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED")
FINAL_STATES = frozenset({"SUCCEEDED", "FAILED", "CANCELED"})

FINAL_EVENTS = frozenset({"job-completed", "job-failed", "job-timed-out", "job-completed-with-errors", "job-cancelled"})
"""Names of events after which a job's stream ends."""

CODES: dict[str, tuple[str, bool]] = {
    code: (category, code in retryable)
    for category, retryable, codes in [
        (
            "validation",
            "",
            "INVALID_PAYLOAD INVALID_JOB_TYPE INVALID_QUEUE INVALID_ARGS INVALID_METADATA INVALID_STATE_TRANSITION"
            " INVALID_RETRY_POLICY INVALID_CRON_EXPRESSION SCHEMA_VALIDATION_FAILED",
        ),
        ("conflict", "", "DUPLICATE_JOB JOB_ALREADY_COMPLETED JOB_ALREADY_CANCELLED"),
        ("auth", "", "UNAUTHENTICATED PERMISSION_DENIED TOKEN_EXPIRED TENANT_ACCESS_DENIED"),
        (
            "resource",
            "QUEUE_PAUSED QUEUE_FULL RATE_LIMITED",
            "NOT_FOUND QUEUE_PAUSED QUEUE_FULL RATE_LIMITED PAYLOAD_TOO_LARGE METADATA_TOO_LARGE QUEUE_NAME_TOO_LONG"
            " JOB_TYPE_TOO_LONG CHECKSUM_MISMATCH UNSUPPORTED_FEATURE UNSUPPORTED_COMPRESSION",
        ),
        (
            "execution",
            "HANDLER_ERROR HANDLER_TIMEOUT HANDLER_PANIC",
            "HANDLER_ERROR HANDLER_TIMEOUT HANDLER_PANIC NON_RETRYABLE_ERROR JOB_CANCELLED",
        ),
        (
            "backend",
            "BACKEND_ERROR BACKEND_UNAVAILABLE REPLICATION_LAG BACKEND_TIMEOUT",
            "BACKEND_ERROR BACKEND_UNAVAILABLE REPLICATION_LAG BACKEND_TIMEOUT",
        ),
    ]
    for code in codes.split()
}
"""The canonical codes of the Open Job Spec: category, and whether a repetition is worth it if the server does not say."""

CANONICAL_OF_RFA = {
    "RFA_REQUEST_MALFORMED": "INVALID_PAYLOAD",
    "RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE": "INVALID_PAYLOAD",
    "RFA_REQUEST_PAYLOAD_TOO_LARGE": "PAYLOAD_TOO_LARGE",
    "RFA_REQUEST_ROUTE_NOT_FOUND": "NOT_FOUND",
    "RFA_REQUEST_RATE_LIMITED": "RATE_LIMITED",
    "RFA_JOB_VALIDATION_FAILED": "INVALID_ARGS",
    "RFA_JOB_CONFLICT": "INVALID_STATE_TRANSITION",
    "RFA_JOB_NOT_FOUND": "NOT_FOUND",
    "RFA_EXEC_IDEMPOTENCY_CONFLICT": "DUPLICATE_JOB",
    "RFA_EXEC_QUEUE_FULL": "QUEUE_FULL",
    "RFA_EXEC_WORKER_UNAVAILABLE": "BACKEND_UNAVAILABLE",
    "RFA_EXEC_TIMEOUT": "BACKEND_TIMEOUT",
    "RFA_EXEC_JOB_FAILED": "HANDLER_ERROR",
    "RFA_AUTH_INVALID_CREDENTIALS": "UNAUTHENTICATED",
    "RFA_AUTH_TOKEN_EXPIRED": "TOKEN_EXPIRED",
    "RFA_AUTH_API_KEY_DISABLED": "PERMISSION_DENIED",
    "RFA_AUTH_FORBIDDEN": "PERMISSION_DENIED",
    "RFA_DEPENDENCY_TIMEOUT": "BACKEND_TIMEOUT",
    "RFA_STORAGE_DB_ERROR": "BACKEND_ERROR",
    "RFA_STORAGE_UNAVAILABLE": "BACKEND_UNAVAILABLE",
    "RFA_CONFIG_INVALID": "BACKEND_UNAVAILABLE",
    "RFA_INTERNAL": "BACKEND_ERROR",
}
"""What stands behind a code of ForgeRun's own where the body names no canonical one."""

_ALIASES = {
    "invalid_request": "INVALID_PAYLOAD",
    "validation_error": "INVALID_RETRY_POLICY",
    "schema_validation": "SCHEMA_VALIDATION_FAILED",
    "conflict": "INVALID_STATE_TRANSITION",
    "duplicate": "DUPLICATE_JOB",
    "unsupported": "UNSUPPORTED_FEATURE",
    "timeout": "HANDLER_TIMEOUT",
    "cancelled": "JOB_CANCELLED",
    "internal_error": "BACKEND_ERROR",
}
"""Names of other Open Job Spec servers that are not the lower case of a canonical code."""


def canonical(code: str) -> str | None:
    """The canonical code that `code` stands for; `None` for a code that is not known."""
    if code in CODES:
        return code
    upper = code.upper()
    return upper if upper in CODES else CANONICAL_OF_RFA.get(code) or _ALIASES.get(code)
