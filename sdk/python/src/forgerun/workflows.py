"""Workflows: jobs that wait for each other.

    chain(step("order.reserve", {...}), step("order.charge", {...}), step("order.ship", {...}))
    group(step("image.resize", {...}), step("image.resize", {...}))
    workflow(
        step("images.list", id="list"),
        for_each("image.resize", over="list", args=["$item", 800], id="resize"),
        wait(signal="approved", timeout="2d", id="approval", depends_on=["resize"]),
        step("album.publish", depends_on=["approval"]),
        deadline="7d",
    )

Chains and groups can be steps of chains and groups. `nested` makes any workflow a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Literal

from ._submission import NewJob, Seconds, moment, span

When = Literal["all_succeeded", "all_ended", "any_failed"]
FailurePolicy = Literal["continue", "stop", "compensate"]
Deadline = Seconds | datetime | str


def _body(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


@dataclass(frozen=True)
class Step:
    """A job of a workflow."""

    job: NewJob
    id: str | None = None
    depends_on: Sequence[str] = ()
    when: When | None = None
    compensate: Step | None = None

    def body(self) -> dict[str, Any]:
        return _body(
            id=self.id,
            **self.job.envelope(datetime.now(timezone.utc)),
            depends_on=list(self.depends_on) or None,
            when=self.when,
            compensate=self.compensate and self.compensate.body(),
        )


@dataclass(frozen=True)
class ForEach(Step):
    """A job for each element of a list, as one step."""

    over: str | None = None
    pointer: str | None = None
    parallel: int | None = None

    def body(self) -> dict[str, Any]:
        each = _body(step=self.over, pointer=self.pointer)
        members = {**super().body(), "args": self.job.args}
        return _body(**members, for_each=each, parallel=self.parallel)


@dataclass(frozen=True)
class Wait:
    """A step that waits instead of working."""

    wait: Mapping[str, Any]
    id: str | None = None
    depends_on: Sequence[str] = ()
    when: When | None = None

    def body(self) -> dict[str, Any]:
        return _body(id=self.id, wait=dict(self.wait), depends_on=list(self.depends_on) or None, when=self.when)


@dataclass(frozen=True)
class Nested:
    """A workflow as a step of another."""

    workflow: Workflow
    id: str | None = None
    depends_on: Sequence[str] = ()
    when: When | None = None

    def body(self) -> dict[str, Any]:
        depends_on = list(self.depends_on) or None
        return _body(id=self.id, workflow=self.workflow.body(), depends_on=depends_on, when=self.when)


AnyStep = Step | Wait | Nested
"""A step of a workflow."""


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


def for_each(
    type: str,
    *,
    over: str | None = None,
    pointer: str | None = None,
    args: Sequence[Any] | None = None,
    parallel: int | None = None,
    id: str | None = None,
    depends_on: Sequence[str] = (),
    when: When | None = None,
    compensate: Step | None = None,
    **options: Any,
) -> ForEach:
    """A job for each element of the list that a JSON pointer finds in the result of the step `over`; without `pointer`, the whole result.

    `args` is the list of arguments, in which `"$item"` and `"$index"` stand for the element and its position: `["$item"]` unless told
    otherwise. At most `parallel` jobs run at once. The result is the list of their results. In a chain `over` may be left out.
    """
    if args is not None and (isinstance(args, str) or not isinstance(args, Sequence)):
        raise TypeError('args of for_each is the list of arguments, such as ["$item"]')
    job = NewJob(type, None if args is None else list(args), **options)
    return ForEach(job, id, depends_on, when, compensate, over, pointer, parallel)


def wait(
    *,
    for_: Seconds | str | None = None,
    until: datetime | str | None = None,
    signal: str | None = None,
    timeout: Seconds | str | None = None,
    schema: Mapping[str, Any] | bool | None = None,
    id: str | None = None,
    depends_on: Sequence[str] = (),
    when: When | None = None,
) -> Wait:
    """A step that ends after some time, at a time, or when a signal arrives (`Client.signal`), whose payload is its result.

    A wait for a signal has a `timeout`, after which the step fails, and may have a JSON Schema for the payload.
    """
    if [for_, until, signal].count(None) != 2:
        raise ValueError("a wait has one of for_, until and signal")
    if (signal is None) != (timeout is None) or (signal is None and schema is not None):
        raise ValueError("a wait for a signal has a timeout; other waits have neither timeout nor schema")
    members = {"for": span(for_), "until": moment(until), "signal": signal, "timeout": span(timeout), "schema": schema}
    return Wait(_body(**members), id, depends_on, when)


def nested(
    workflow: Workflow, *, id: str | None = None, depends_on: Sequence[str] = (), when: When | None = None
) -> Nested:
    """A workflow as a step of another. Its result is an object with the results of its steps."""
    return Nested(workflow, id, depends_on, when)


@dataclass(frozen=True)
class Workflow:
    """The description of a workflow, for `Client.submit_workflow`."""

    type: Literal["chain", "group"] | None
    steps: Sequence[AnyStep | Workflow]
    name: str | None = None
    failure_policy: FailurePolicy | None = None
    deadline: Deadline | None = None

    def named(self, name: str) -> Workflow:
        return replace(self, name=name)

    def body(self) -> dict[str, Any]:
        members = {
            "type": self.type,
            "name": self.name,
            "failure_policy": self.failure_policy,
            "deadline": moment(self.deadline),
            "jobs" if self.type == "group" else "steps": [step.body() for step in self.steps],
        }
        return _body(**members)


def chain(
    *steps: AnyStep | Workflow,
    name: str | None = None,
    failure_policy: FailurePolicy | None = None,
    deadline: Deadline | None = None,
) -> Workflow:
    """One after the other. `deadline`: when all must have ended, a span after the submission or a time."""
    return Workflow("chain", steps, name, failure_policy, deadline)


def group(
    *steps: AnyStep | Workflow,
    name: str | None = None,
    failure_policy: FailurePolicy | None = None,
    deadline: Deadline | None = None,
) -> Workflow:
    """All at once."""
    return Workflow("group", steps, name, failure_policy, deadline)


def workflow(
    *steps: AnyStep,
    name: str | None = None,
    failure_policy: FailurePolicy | None = None,
    deadline: Deadline | None = None,
) -> Workflow:
    """Each step after those that it names in `depends_on`."""
    return Workflow(None, steps, name, failure_policy, deadline)
