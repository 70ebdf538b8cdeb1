"""Submits a job inside a transaction of the application's own PostgreSQL: `forgerun outbox` sends it after the commit."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from ._session import to_json
from ._submission import NewJob

_SUBMIT = "SELECT CAST(forgerun.submit({}, CAST({} AS jsonb), CAST({} AS jsonb)) AS text)"


def submit_in(connection: Any, type: str, args: Any = None, **options: Any) -> str:
    """Submits a job that exists if the transaction commits, and returns its id. `options` are those of `NewJob`.

    `connection` is a connection of psycopg or Django, or a session or connection of SQLAlchemy. With an `AsyncSession`, use
    `await session.run_sync(submit_in, type, args)`.
    """
    envelope = NewJob(type, args, **options).envelope(datetime.now(timezone.utc))
    values = [type, *(to_json(envelope[member]).decode() for member in ("args", "options"))]
    if hasattr(connection, "cursor"):
        with connection.cursor() as cursor:
            cursor.execute(_SUBMIT.format("%s", "%s", "%s"), values)
            return str(cursor.fetchone()[0])
    from sqlalchemy import text

    named = dict(zip(("type", "args", "options"), values, strict=True))
    return str(connection.execute(text(_SUBMIT.format(":type", ":args", ":options")), named).scalar_one())
