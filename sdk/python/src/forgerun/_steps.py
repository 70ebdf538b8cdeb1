"""Results of named steps, which the server keeps between the attempts of a job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import errors
from ._session import segment

if TYPE_CHECKING:
    from ._session import Session
    from .context import JobInfo


@dataclass
class Recorded:
    """What attempts of a job have recorded."""

    results: dict[str, Any] = field(default_factory=dict)
    """Results by the names of steps."""
    one_by_one: bool = True
    """Whether the server records each step by itself. Otherwise all go into the checkpoint, as one object."""


async def load_steps(session: Session, job: JobInfo) -> Recorded:
    answer = await session.fetch("GET", f"/ojs/v1/checkpoints/{segment(job.id)}/resume")
    state = answer.get("state") if answer.get("has_checkpoint") else {}
    if not isinstance(state, dict):
        raise ValueError("the checkpoint of the job is no object of steps")
    steps = answer.get("steps")
    # What was saved as a whole counts too, unless a step was recorded by itself.
    return Recorded({**state, **(steps or {})}, steps is not None)


async def save_step(session: Session, job: JobInfo, recorded: Recorded, name: str, result: Any) -> Any:
    """Records the result of a step. Returns the result that counts: the first that was recorded."""
    headers = {"lease-token": job.lease_token}
    if not recorded.one_by_one:
        state = {**recorded.results, name: result}
        await session.fetch("PUT", f"/ojs/v1/checkpoints/{segment(job.id)}", {"state": state}, headers=headers)
        return result
    path = f"/ojs/v1/jobs/{segment(job.id)}/checkpoint/{segment(name)}"
    try:
        await session.fetch("PUT", path, {"result": result}, headers=headers)
    except errors.ForgeRunError as error:
        if error.details.get("reason") != "step_recorded":
            raise
        return (await load_steps(session, job)).results[name]
    return result
