"""Workflows: jobs that wait for each other.

    chain(step("order.reserve", {...}), step("order.charge", {...}), step("order.ship", {...}))
    group(step("image.resize", {...}), step("image.resize", {...}))
    workflow(
        step("order.reserve", order, id="reserve", compensate=step("order.release", order)),
        step("order.charge", order, id="charge", depends_on=["reserve"]),
    )

Chains and groups can be steps of chains and groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Literal

from ._submission import NewJob

When = Literal["all_succeeded", "all_ended", "any_failed"]
FailurePolicy = Literal["continue", "stop", "compensate"]


@dataclass(frozen=True)
class Step:
    """A job of a workflow."""

    job: NewJob
    id: str | None = None
    depends_on: Sequence[str] = ()
    when: When | None = None
    compensate: Step | None = None

    def body(self) -> dict[str, Any]:
        members: dict[str, Any] = {
            "id": self.id,
            **self.job.envelope(datetime.now(timezone.utc)),
            "depends_on": list(self.depends_on) or None,
            "when": self.when,
            "compensate": self.compensate and self.compensate.body(),
        }
        return {name: value for name, value in members.items() if value is not None}


def step(
    type: str,
    args: Any = None,
    *,
    id: str | None = None,
    depends_on: Sequence[str] = (),
    when: When | None = None,
    compensate: Step | None = None,
    **options: Any,
) -> Step:
    """A job of a workflow. `options` are those of `Client.submit`: `queue`, `max_retries`, `timeout`, …"""
    return Step(NewJob(type, args, **options), id, depends_on, when, compensate)


@dataclass(frozen=True)
class Workflow:
    """The description of a workflow, for `Client.submit_workflow`."""

    type: Literal["chain", "group"] | None
    steps: Sequence[Step | Workflow]
    name: str | None = None
    failure_policy: FailurePolicy | None = None

    def named(self, name: str) -> Workflow:
        return replace(self, name=name)

    def body(self) -> dict[str, Any]:
        members = {
            "type": self.type,
            "name": self.name,
            "failure_policy": self.failure_policy,
            "jobs" if self.type == "group" else "steps": [step.body() for step in self.steps],
        }
        return {name: value for name, value in members.items() if value is not None}


def chain(*steps: Step | Workflow, name: str | None = None, failure_policy: FailurePolicy | None = None) -> Workflow:
    """One after the other."""
    return Workflow("chain", steps, name, failure_policy)


def group(*steps: Step | Workflow, name: str | None = None, failure_policy: FailurePolicy | None = None) -> Workflow:
    """All at once."""
    return Workflow("group", steps, name, failure_policy)


def workflow(*steps: Step, name: str | None = None, failure_policy: FailurePolicy | None = None) -> Workflow:
    """Each step after those that it names in `depends_on`."""
    return Workflow(None, steps, name, failure_policy)
