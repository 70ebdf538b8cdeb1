"""Results that the server names by an address, `{"$ref": URL}`, because they are too large to come with a job, or are no JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from . import errors
from ._session import from_json, segment

if TYPE_CHECKING:
    from ._session import Session

DEPTH_MAX = 12
"""References within references that are followed: as deep as workflows are nested, and some more."""

# Only the ids of an address count: the key goes to the client's own server alone.
_OF_JOB = re.compile(r"/ojs/v1/jobs/([^/]+)/result$")
_OF_WORKFLOW = re.compile(r"/v1/workflows/([^/]+)/results$")


def address(value: Any) -> str | None:
    """The address that a value consists of; `None` for any other value."""
    url = value.get("$ref") if isinstance(value, dict) and len(value) == 1 else None
    return url if isinstance(url, str) and (_OF_JOB.search(url) or _OF_WORKFLOW.search(url)) else None


async def fetch_parents(session: Session, parents: dict[str, Any]) -> None:
    """Puts results in the place of references."""
    for name, value in parents.items():
        if address(value) is not None:
            parents[name] = await _whole(session, value, 0)


async def _whole(session: Session, value: Any, depth: int) -> Any:
    url = address(value)
    if url is None or depth >= DEPTH_MAX:
        return value
    if job := _OF_JOB.search(url):
        return await _of_job(session, job[1])
    workflow = _OF_WORKFLOW.search(url)
    assert workflow
    return await _of_workflow(session, workflow[1], depth)


async def _of_job(session: Session, job_id: str) -> Any:
    response = await session.send("GET", f"/ojs/v1/jobs/{segment(job_id)}/result", headers={"accept": "*/*"})
    try:
        body = await response.body()
    except OSError as error:
        raise errors.Unreachable(session.http.authority, str(error), maybe_sent=True) from error
    is_json = response.content_type == "application/json" or response.content_type.endswith("+json")
    return from_json(body) if is_json else body


async def _of_workflow(session: Session, workflow_id: str, depth: int) -> Any:
    """The results of the elements of a list, or of the steps of a workflow by their ids."""
    found: dict[str, Any] = {}
    cursor = ""
    while True:
        page = await session.fetch("GET", f"/v1/workflows/{segment(workflow_id)}/results?limit=100{cursor}")
        for entry in page["results"]:
            found[entry["id"]] = await _whole(session, entry.get("result"), depth + 1)
        if not page.get("next_cursor"):
            return list(found.values()) if page["type"] == "for_each" else found
        cursor = f"&cursor={segment(page['next_cursor'])}"
