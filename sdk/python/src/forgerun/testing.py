"""For the tests of programs that use ForgeRun.

client = FakeClient()                         # records what is submitted
sign_up(client, "ada@example.com")
assert_submitted(client, "mail.welcome", {"to": "ada@example.com"})

assert run_inline(worker, "mail.welcome", {"to": "ada@example.com"}).result == "sent"

with DevServer() as server:                   # the real one, on a free port, which keeps nothing
    client = Client(server.url)
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sysconfig
import threading
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from . import errors
from ._lines import LogLine
from ._steps import Recorded
from ._submission import NewJob
from .context import AsyncContext, Context, JobInfo
from .job import RESULT_TIMEOUT, Status
from .worker import Worker
from .workflows import AnyStep, Workflow

_UNSET: Any = object()


class FakeJob:
    """A handle that `FakeClient` returns. Say how it ends with `succeed` or `fail`."""

    def __init__(self, job: NewJob) -> None:
        self.id = str(uuid.uuid4())
        self.job = job
        self.state = "QUEUED"
        self.paused = False
        self.signals: dict[str, Any] = {}
        """Payloads of the signals that were sent to it, by name."""
        self.log: list[LogLine] = []
        """What `logs` returns; add lines to it."""
        self._result: Any = None

    def succeed(self, result: Any = None) -> None:
        self.state, self._result = "SUCCEEDED", result

    def fail(self, message: str = "failed", *, retryable: bool = False) -> None:
        self.state, self._result = "FAILED", errors.JobFailed(message, code="RFA_EXEC_JOB_FAILED", retryable=retryable)

    def status(self) -> Status:
        return Status.of({"job_id": self.id, "state": self.state, "attempt": 1, "paused": self.paused})

    def wait(self, timeout: float = RESULT_TIMEOUT) -> Status:
        if self.state == "QUEUED":
            raise TimeoutError(f"nothing ends the fake job {self.id}: call succeed or fail")
        return self.status()

    def result(self, timeout: float = RESULT_TIMEOUT) -> Any:
        self.wait(timeout)
        if self.state == "CANCELED":
            raise errors.JobCancelled("the job was cancelled", code="RFA_JOB_CONFLICT")
        if isinstance(self._result, errors.JobFailed):
            raise self._result
        return self._result

    def cancel(self) -> Status:
        if self.state == "QUEUED":
            self.state = "CANCELED"
        return self.status()

    def retry(self) -> Status:
        if self.state != "FAILED":
            raise errors.ValidationError("the job has not failed", code="INVALID_STATE_TRANSITION")
        self.state = "QUEUED"
        return self.status()

    def pause(self) -> Status:
        return self._set_paused(True)

    def resume(self) -> Status:
        return self._set_paused(False)

    def signal(self, name: str, payload: Any = True) -> None:
        if self.signals.setdefault(name, payload) != payload:
            raise errors.ConflictError("another signal of this name was sent", code="RFA_JOB_CONFLICT")

    def _set_paused(self, paused: bool) -> Status:
        if paused and self.status().has_ended:
            raise errors.ValidationError("the job has ended", code="INVALID_STATE_TRANSITION")
        self.paused = paused
        return self.status()

    def logs(
        self, *, follow: bool = False, stream: str | None = None, attempt: int | None = None, after: int = 0
    ) -> Iterator[LogLine]:
        wanted = [line for line in self.log if stream in (None, line.stream) and attempt in (None, line.attempt)]
        return iter([line for line in wanted if line.seq > after or not line.seq])


class FakeClient:
    """Takes the place of a `Client`: records what is submitted and sends nothing."""

    def __init__(self) -> None:
        self.jobs: list[FakeJob] = []
        self.workflows: list[Workflow] = []
        self.signals: list[tuple[str, str, Any]] = []
        """Signals that were sent: the id of the workflow, the name, the payload."""
        self._flows: dict[str, FakeJob] = {}
        self.results: dict[str, Any] = {}
        """Results by type: jobs of that type have succeeded as soon as they are submitted."""

    def submit(self, type: str, args: Any = None, **options: Any) -> FakeJob:
        return self.submit_job(NewJob(type, args, **options))

    def submit_job(self, job: NewJob) -> FakeJob:
        key = job.idempotency_key
        known = [fake for fake in self.jobs if key is not None and fake.job.idempotency_key == key]
        if known:
            return known[0]
        fake = FakeJob(job)
        if job.type in self.results:
            fake.succeed(self.results[job.type])
        self.jobs.append(fake)
        return fake

    def submit_many(self, jobs: Iterable[NewJob]) -> list[FakeJob]:
        return [self.submit_job(job) for job in jobs]

    def submit_workflow(self, workflow: Workflow, *, idempotency_key: str | None = None) -> FakeJob:
        self.workflows.append(workflow)
        fake = FakeJob(NewJob(workflow.name or workflow.type or "workflow"))
        self._flows[fake.id] = fake
        return fake

    def signal(self, workflow_id: str, name: str, payload: Any = True) -> None:
        self._flow(workflow_id)
        self.signals.append((workflow_id, name, payload))

    def pause_workflow(self, workflow_id: str) -> dict[str, Any]:
        return dict(self._flow(workflow_id).pause().view)

    def resume_workflow(self, workflow_id: str) -> dict[str, Any]:
        return dict(self._flow(workflow_id).resume().view)

    def _flow(self, workflow_id: str) -> FakeJob:
        if workflow_id not in self._flows:
            raise errors.ResourceError(f"no workflow {workflow_id} was submitted", code="NOT_FOUND")
        return self._flows[workflow_id]

    def job(self, job_id: str) -> FakeJob:
        for fake in self.jobs:
            if fake.id == job_id:
                return fake
        raise errors.ResourceError(f"no job {job_id} was submitted", code="NOT_FOUND")


def assert_submitted(
    client: FakeClient, type: str, args: Any = _UNSET, *, times: int | None = None, **options: Any
) -> list[FakeJob]:
    """The jobs of a type that were submitted, with these arguments and options if any are given; an `AssertionError` if there are none,
    or not as many as `times`."""
    wanted = dict(options) if args is _UNSET else {"args": args, **options}
    of_type = [fake for fake in client.jobs if fake.job.type == type]
    found = [fake for fake in of_type if all(getattr(fake.job, name) == value for name, value in wanted.items())]
    if (not found and times != 0) or (times is not None and len(found) != times):
        expected = "at least one" if times is None else str(times)
        others = "".join(f"\n  {fake.job}" for fake in of_type or client.jobs) or " nothing"
        raise AssertionError(f"{len(found)} jobs of type {type} fit {wanted}, expected {expected}; submitted:{others}")
    return found


@dataclass
class Inline:
    """How a handler ran."""

    result: Any = None
    progress: list[tuple[float, str | None]] = field(default_factory=list)
    steps: dict[str, Any] = field(default_factory=dict)
    logs: list[LogLine] = field(default_factory=list)
    sleeps: list[float] = field(default_factory=list)
    """Seconds that it slept; nothing waits for them."""
    added: list[AnyStep] = field(default_factory=list)
    """Steps that it added to its workflow."""


class _Recorder:
    """The `Backend` of a context without a server."""

    def __init__(self, inline: Inline) -> None:
        self._inline = inline

    async def progress(self, job: JobInfo, percent: float, message: str | None) -> None:
        self._inline.progress.append((percent, message))

    async def load_steps(self, job: JobInfo) -> Recorded:
        return Recorded(dict(self._inline.steps))

    async def save_step(self, job: JobInfo, recorded: Recorded, name: str, result: Any) -> Any:
        return self._inline.steps.setdefault(name, result)

    def log(self, job: JobInfo, line: LogLine) -> None:
        self._inline.logs.append(line)

    async def pause(self, job: JobInfo, seconds: float) -> None:
        self._inline.sleeps.append(seconds)

    async def suspend(self, job: JobInfo, signal: str, seconds: float | None) -> None:
        if seconds is None:
            raise LookupError(f"the handler would wait for ever: run_inline got no signal {signal}")

    async def add_steps(self, job: JobInfo, steps: Sequence[AnyStep]) -> None:
        self._inline.added.extend(steps)


def run_inline(
    worker: Worker,
    type: str,
    input: Any = None,
    *,
    attempt: int = 1,
    parents: Mapping[str, Any] | None = None,
    steps: Mapping[str, Any] | None = None,
    signals: Mapping[str, Any] | None = None,
    cancelled: bool = False,
) -> Inline:
    """Runs the handler of a worker without a server. Its exceptions are raised. `steps`: what attempts before recorded.

    `signals`: payloads by name, for `wait_for`; a wait with a timeout for another one times out.
    """
    handler = worker.handler(type)
    if handler is None:
        raise LookupError(f"the worker has no handler for jobs of type {type}")
    sent = {f"signal:{name}": {"signal": payload} for name, payload in (signals or {}).items()}
    inline = Inline(steps={**(steps or {}), **sent})
    job = JobInfo(str(uuid.uuid4()), type, worker.queues[0], attempt)
    context = AsyncContext(job, dict(parents or {}), _Recorder(inline))
    if cancelled:
        context._cancelled.set()
    if handler.is_async:
        inline.result = asyncio.run(handler.call(context, input))
        return inline
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        inline.result = handler.call(Context(context, loop), input)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    return inline


class DevServer:
    """A server for tests, on a free port, which keeps nothing and wants no keys. Use it as `with`.

    The binary is `FORGERUN_BIN`, or `forgerun` beside this Python, or `forgerun` in the PATH.
    """

    def __init__(
        self, *arguments: str, command: str = "dev", env: Mapping[str, str] | None = None, timeout: float = 30.0
    ) -> None:
        """`arguments` go behind `forgerun dev`; `env` may hold settings such as `FORGERUN_LIMITS__RATE_PER_MINUTE`. With the command
        `serve` and `--data FOLDER` it keeps its jobs."""
        self._arguments = (command, *arguments)
        self._env = env or {}
        self._timeout = timeout
        self._process: subprocess.Popen[str] | None = None
        self._readers: list[threading.Thread] = []
        self.url = ""

    def __enter__(self) -> DevServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        # The server refuses variables that look like settings and are none.
        env = {name: value for name, value in os.environ.items() if not name.startswith("FORGERUN_")} | dict(self._env)
        listen = () if "--listen" in self._arguments else ("--listen", "127.0.0.1:0")
        command = [find_binary(), *self._arguments, *listen]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self._process = process
        assert process.stdout is not None and process.stderr is not None
        said: deque[str] = deque(maxlen=20)
        self._read(process.stderr, said)
        timer = threading.Timer(self._timeout, process.kill)
        timer.start()
        try:
            line = process.stdout.readline()
        finally:
            timer.cancel()
        if " listening on " not in line:
            self.stop()
            raise RuntimeError(f"the server did not start: {' '.join(command)}\n{''.join(said)}")
        self.url = line.split(" listening on ")[1].strip()
        self._read(process.stdout, deque(maxlen=0))

    def _read(self, pipe: IO[str], lines: deque[str]) -> None:
        """Reads what the server prints, which must not fill the pipe."""

        def read() -> None:
            with pipe:
                lines.extend(pipe)

        self._readers.append(threading.Thread(target=read, daemon=True))
        self._readers[-1].start()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    def kill(self) -> None:
        """Ends it like a crash."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            while self._readers:
                self._readers.pop().join(5)
            if process.stdout is not None:
                process.stdout.close()


def find_binary() -> str:
    """The `forgerun` binary."""
    beside = Path(sysconfig.get_path("scripts"), "forgerun")
    found = os.environ.get("FORGERUN_BIN") or (str(beside) if beside.is_file() else shutil.which("forgerun"))
    if not found:
        raise RuntimeError("no forgerun binary: set FORGERUN_BIN, or put it in the PATH")
    return found
