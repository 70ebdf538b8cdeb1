"""Large results: sent before the end of their job is reported."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from pathlib import Path

from . import errors
from ._handler import Output
from ._held import Held
from ._http import Upload
from ._session import Session, segment

TIMEOUT = 600.0
"""Seconds for which a server may take in a result, beside the time of any request."""
AWAY_FIRST, AWAY_LONGEST = 0.2, 5.0


async def upload(session: Session, held: Held, output: Output) -> None:
    """Sends a result until the server has taken it. Raises the refusal of the server, or what keeps the content from being read."""
    tries = 0
    while True:
        try:
            return await _upload_once(session, held, output)
        except errors.ForgeRunError as error:
            if not (error.retryable and _can_repeat(output)):
                raise
        await asyncio.sleep(min(AWAY_LONGEST, AWAY_FIRST * (1 << min(tries, 10))))
        tries += 1


async def _upload_once(session: Session, held: Held, output: Output) -> None:
    headers = {"lease-token": held.job.lease_token, "content-type": output.content_type}
    if output.filename:
        name = re.sub(r'["\\\r\n]', "_", output.filename)
        headers["content-disposition"] = f'attachment; filename="{name}"'
    path = f"/ojs/v1/jobs/{segment(held.job.id)}/result"
    if isinstance(output.content, bytes):
        await session.send("PUT", path, output.content, headers=headers, hold=TIMEOUT)
        return
    with contextlib.ExitStack() as stack:
        stream = output.content
        size = None
        if isinstance(stream, Path):
            stream = stack.enter_context(stream.open("rb"))
            size = os.fstat(stream.fileno()).st_size
        elif stream.seekable():
            stream.seek(0)
        upload = Upload(lambda: stream.read(256 * 1024), size)
        response = await session.send("PUT", path, upload, headers=headers, hold=TIMEOUT)
        await response.body()


def _can_repeat(output: Output) -> bool:
    return isinstance(output.content, (bytes, Path)) or output.content.seekable()
