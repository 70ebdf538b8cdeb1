"""Workers against the real server, and against one that is told what to answer."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forgerun
from conftest import NO_RATE, SDK, Running
from forgerun import (
    AsyncContext,
    Client,
    ConflictError,
    Context,
    Fatal,
    ForgeRunError,
    NewJob,
    Output,
    RetryLater,
    SignalTimeout,
    Worker,
)
from forgerun._handler import Handler
from forgerun._held import Held
from forgerun._run import Run, Settings
from forgerun.context import JobInfo
from forgerun.testing import DevServer

RunWorker = Callable[[Worker], Running]


def new_worker(server: DevServer, queue: str, **options: Any) -> Worker:
    return Worker(server.url, queues=[queue], **options)


def until(what: str, condition: Callable[[], bool], timeout: float = 20.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


@pytest.mark.parametrize(
    ("pattern", "job_type", "fits"),
    [
        ("image.resize", "image.resize", True),
        ("image.resize", "image.resize2", False),
        ("*", "anything", True),
        ("image.*", "image.resize", True),
        ("image.*", "images.resize", False),
        ("*.resize", "image.resize", True),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("ab*ba", "aba", False),
        ("a.b", "axb", False),
    ],
)
def test_a_star_stands_for_any_text(pattern: str, job_type: str, fits: bool) -> None:
    worker = Worker()
    worker.job(pattern)(lambda value: value)
    assert (worker.handler(job_type) is not None) == fits


def test_what_cannot_work_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="a handler"):
        Worker().run()
    for wrong in ({"queues": "mails"}, {"queues": []}, {"concurrency": 0}, {"concurrency": 1001}, {"lease": 0.5}):
        with pytest.raises(ValueError):
            Worker(**wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="3 arguments"):
        Worker().job("t")(lambda a, b, c: None)


def test_handlers_take_what_they_name(client: Client, server: DevServer, queue: str, run_worker: RunWorker) -> None:
    worker = new_worker(server, queue)

    class Callable:
        async def __call__(self, ctx: AsyncContext, value: Any) -> Any:
            return [ctx.job.type, value]

    worker.job("none")(lambda: "none")
    worker.job("input")(lambda value: value)
    worker.job("both")(lambda ctx, value, default=7: [ctx.job.queue, value, default])
    worker.job("object")(Callable())
    run_worker(worker)
    jobs = [client.submit(name, 1, queue=queue) for name in ("none", "input", "both", "object")]
    assert [job.result(20) for job in jobs] == ["none", 1, [queue, 1, 7], ["object", 1]]


def test_a_context_knows_its_job(client: Client, server: DevServer, queue: str, run_worker: RunWorker) -> None:
    worker = new_worker(server, queue)

    @worker.job("t")
    def describe(ctx: Context, _: object) -> list[object]:
        job = ctx.job
        return [job.id, job.type, job.queue, job.attempt, list(job.tags), job.traceparent, ctx.cancelled, ctx.parents]

    run_worker(worker)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    job = client.submit("t", queue=queue, tags=["a"], traceparent=trace)
    *facts, traced, cancelled, parents = job.result(20)
    assert facts == [job.id, "t", queue, 1, ["a"]]
    assert traced.split("-")[1] == trace.split("-")[1]
    assert (cancelled, parents) == (False, {})


def test_an_exception_is_a_failure_with_its_class_message_and_trace(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker
) -> None:
    worker = new_worker(server, queue)

    @worker.job("fail")
    def fail(message: str) -> None:
        raise LookupError(message)

    run_worker(worker)
    job = client.submit(
        "fail", "half of a pair: \ud83d".encode("utf-8", "replace").decode(), queue=queue, max_retries=0
    )
    with pytest.raises(forgerun.JobFailed, match="half of a pair"):
        job.result(20)
    view = client._async._session
    found = forgerun._blocking.run(view.fetch("GET", f"/ojs/v1/jobs/{job.id}"))["job"]  # type: ignore[attr-defined]
    assert found["error"]["type"] == "LookupError"
    assert any("raise LookupError(message)" in line for line in found["error"]["backtrace"])


@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_decides_about_retries(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker, is_async: bool
) -> None:
    worker = new_worker(server, queue)
    begun: list[float] = []

    def later(ctx: Context | AsyncContext, _: object) -> int:
        begun.append(time.monotonic())
        if ctx.job.attempt == 1:
            raise RetryLater(0.5)
        return ctx.job.attempt

    def fatal(_: object) -> None:
        raise Fatal("never")

    async def later_async(ctx: AsyncContext, value: object) -> int:
        return later(ctx, value)

    async def fatal_async(value: object) -> None:
        fatal(value)

    worker.job("later")(later_async if is_async else later)
    worker.job("fatal")(fatal_async if is_async else fatal)
    run_worker(worker)
    assert client.submit("later", queue=queue).result(20) == 2
    assert 0.5 <= begun[1] - begun[0] < 5
    job = client.submit("fatal", queue=queue, max_retries=5)
    with pytest.raises(forgerun.JobFailed, match="never"):
        job.result(20)
    assert job.status().attempt == 1


def test_a_result_that_is_no_json_is_a_failure(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker
) -> None:
    worker = new_worker(server, queue)
    values: dict[str, Any] = {"set": {1}, "nan": float("nan"), "half": "\ud83d"}
    worker.job("give")(lambda name: values[name])
    run_worker(worker)
    for name in values:
        with pytest.raises(forgerun.JobFailed, match="the result is no JSON") as failed:
            client.submit("give", name, queue=queue, max_retries=5).result(20)
        assert not failed.value.retryable


def test_large_results_and_bytes_are_uploaded(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker, tmp_path: Path
) -> None:
    worker = new_worker(server, queue)
    path = tmp_path / "report.pdf"
    path.write_bytes(b"%PDF" * 1_000_000)
    outputs: dict[str, Any] = {
        "bytes": b"\x00\x01",
        "large": "x" * 2_000_000,
        "file": Output(path, "application/pdf", 'a"b.pdf'),
        "stream": Output(io.BytesIO(b"abc" * 400_000), "text/plain"),
        "nothing": None,
    }
    worker.job("give")(lambda name: outputs[name])
    run_worker(worker)
    results = {name: client.submit("give", name, queue=queue).result(30) for name in outputs}
    assert results["bytes"] == b"\x00\x01"
    assert results["large"] == "x" * 2_000_000
    assert results["file"] == path.read_bytes()
    assert results["stream"] == b"abc" * 400_000
    assert results["nothing"] is None


def test_an_output_that_cannot_be_read_is_a_failure(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker, tmp_path: Path
) -> None:
    worker = new_worker(server, queue)
    worker.job("give")(lambda _: Output(tmp_path / "missing"))
    run_worker(worker)
    with pytest.raises(forgerun.JobFailed, match="missing"):
        client.submit("give", queue=queue, max_retries=0).result(20)


def test_steps_that_are_recorded_are_not_done_again(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker
) -> None:
    worker = new_worker(server, queue)
    done: list[str] = []

    def do(name: str) -> str:
        done.append(f"{name} on {threading.current_thread().name}")
        return name

    @worker.job("sync")
    def sync(ctx: Context, _: object) -> list[str]:
        here = threading.current_thread().name
        first = ctx.step("a", lambda: do("a"))
        assert done[-1].endswith(here), "a step runs on the thread of its handler"
        if ctx.job.attempt == 1:
            raise RuntimeError("between the steps")
        return [first, ctx.step("b", lambda: do("b"))]

    @worker.job("async")
    async def both(ctx: AsyncContext, _: object) -> list[str]:
        async def slowly(name: str) -> str:
            await asyncio.sleep(0)
            return do(name)

        first = await asyncio.gather(ctx.step("a", lambda: slowly("a")), ctx.step("b", lambda: do("b")))
        if ctx.job.attempt == 1:
            raise RuntimeError("between the steps")
        return [*first, await ctx.step("c", lambda: slowly("c"))]

    run_worker(worker)
    assert client.submit("sync", queue=queue).result(30) == ["a", "b"]
    assert client.submit("async", queue=queue).result(30) == ["a", "b", "c"]
    assert sorted(text.split()[0] for text in done) == ["a", "a", "b", "b", "c"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_long_sleep_gives_the_job_back_and_counts_no_attempt(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("forgerun._run.PAUSE_HELD", 0.2)
    worker = new_worker(server, queue)
    runs: list[int] = []

    @worker.job("sync")
    def sync(ctx: Context, _: object) -> list[int]:
        runs.append(ctx.job.attempt)
        ctx.sleep(0.05)
        try:
            ctx.sleep(1.0, name="cool-off")
        except Exception:
            pytest.fail("a sleep must not look like a failure")
        return runs

    @worker.job("async")
    async def both(ctx: AsyncContext, _: object) -> list[int]:
        runs.append(ctx.job.attempt)
        await ctx.sleep(0.05)
        await ctx.sleep(1.0, name="cool-off")
        return runs

    run_worker(worker)
    job = client.submit(kind, queue=queue)
    assert job.result(30) == [1, 1]
    assert len(runs) == 2, "the handler ran again, behind its recorded sleeps"


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("early", [False, True])
def test_a_handler_waits_for_a_signal_without_its_worker(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker, kind: str, early: bool
) -> None:
    worker = new_worker(server, queue)
    runs: list[int] = []

    @worker.job("sync")
    def sync(ctx: Context, _: object) -> object:
        runs.append(ctx.job.attempt)
        return ctx.wait_for("approved", timeout=60)

    @worker.job("async")
    async def both(ctx: AsyncContext, _: object) -> object:
        runs.append(ctx.job.attempt)
        return await ctx.wait_for("approved")

    job = client.submit(kind, queue=queue)
    if early:
        job.signal("approved", {"by": "kim"})
    run_worker(worker)
    if not early:
        until("it waits", lambda: job.status().view.get("awaited_signal") == "approved")
        job.signal("approved", {"by": "kim"})
    assert job.result(30) == {"by": "kim"}
    assert runs == ([1] if early else [1, 1])
    job.signal("approved", {"by": "kim"})
    with pytest.raises(ConflictError):
        job.signal("approved", {"by": "lee"})


def test_a_wait_for_a_signal_times_out_once_for_all(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker
) -> None:
    worker = new_worker(server, queue)

    @worker.job("t")
    def ask(ctx: Context, _: object) -> str:
        try:
            return str(ctx.wait_for("approved", timeout=0.2))
        except SignalTimeout:
            with pytest.raises(ForgeRunError):
                client.job(ctx.job.id).signal("approved", "too late")
            return "nobody answered"

    run_worker(worker)
    assert client.submit("t", queue=queue).result(30) == "nobody answered"


def test_a_step_adds_steps_to_its_workflow(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker
) -> None:
    worker = new_worker(server, queue)

    @worker.job("plan")
    def plan(ctx: Context, names: list[str]) -> None:
        added = [forgerun.step("greet", name, id=name, queue=queue, depends_on=["plan"]) for name in names]
        ctx.add_steps(*added, forgerun.step("join", id="join", queue=queue, depends_on=names))

    worker.job("greet")(lambda name: f"hello {name}")

    @worker.job("join")
    def join(ctx: Context, _: object) -> object:
        return ctx.parents

    run_worker(worker)
    flow = forgerun.workflow(forgerun.step("plan", ["kim", "lee"], id="plan", queue=queue))
    started = client.submit_workflow(flow)
    started.wait(30)
    last = client.workflow(started.id)["steps"][-1]
    assert client.job(last["job_id"]).result(30) == {"kim": "hello kim", "lee": "hello lee"}


def test_progress_must_make_sense(client: Client, server: DevServer, queue: str, run_worker: RunWorker) -> None:
    worker = new_worker(server, queue)

    @worker.job("t")
    def report(ctx: Context, percent: float) -> None:
        ctx.progress(percent)

    run_worker(worker)
    with pytest.raises(forgerun.JobFailed, match="progress is 0 to 100, not 101"):
        client.submit("t", 101, queue=queue, max_retries=0).result(20)
    client.submit("t", 99.5, queue=queue).result(20)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_cancelled_job_stops_its_handler(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker, is_async: bool
) -> None:
    worker = new_worker(server, queue, lease=1.0)
    began, ended = threading.Event(), threading.Event()

    @worker.job("thread")
    def on_a_thread(ctx: Context, _: object) -> None:
        began.set()
        if ctx.wait_cancelled(30) and ctx.cancelled:
            ended.set()

    @worker.job("task")
    async def as_a_task(_: object) -> None:
        began.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.set()
            raise

    running = run_worker(worker)
    job = client.submit("task" if is_async else "thread", queue=queue)
    assert began.wait(20)
    job.cancel()
    assert ended.wait(20)
    with pytest.raises(forgerun.JobCancelled):
        job.result(20)
    stopped = running.stop()
    assert (stopped.lost, stopped.succeeded, stopped.failed) == (1, 0, 0)


def test_a_lease_is_kept_while_the_handler_runs(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker
) -> None:
    worker = new_worker(server, queue, lease=1.0)
    worker.job("slow")(lambda ctx, _: [ctx.wait_cancelled(2.5), ctx.job.attempt])
    run_worker(worker)
    assert client.submit("slow", queue=queue).result(30) == [False, 1]


def test_a_job_without_a_handler_goes_back_and_that_is_said_once(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker = new_worker(server, queue)
    worker.job("known")(lambda value: value)
    running = run_worker(worker)
    others = client.submit_many(NewJob("other", n, queue) for n in range(2))
    assert client.submit("known", 1, queue=queue).result(20) == 1
    until("both are back", lambda: all(job.status().state == "QUEUED" for job in others))
    assert running.stop().handed_back == 2
    said = [record.message for record in caplog.records if "no handler" in record.message]
    assert said == ["no handler for jobs of type other; they go back to their queue"]
    assert [job.status().attempt for job in others] == [1, 1], "no attempt is counted"


def test_a_worker_that_stops_finishes_what_it_has(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker
) -> None:
    worker = new_worker(server, queue, concurrency=2)
    began, go_on = threading.Event(), threading.Event()

    @worker.job("slow")
    def slow(_: object) -> str:
        began.set()
        go_on.wait(20)
        return "done"

    running = run_worker(worker)
    job = client.submit("slow", queue=queue)
    assert began.wait(20)
    worker.stop()
    go_on.set()
    stopped = running.join()
    assert (stopped.succeeded, stopped.handed_back) == (1, 0)
    assert job.status().state == "SUCCEEDED"
    assert client.submit("slow", queue=queue).status().state == "QUEUED"


@pytest.mark.parametrize("is_async", [False, True])
def test_what_does_not_end_in_time_goes_back(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker, is_async: bool
) -> None:
    worker = new_worker(server, queue, drain=0.1, grace=0.3)
    began, release = threading.Event(), threading.Event()

    @worker.job("thread")
    def stubborn(_: object) -> None:
        began.set()
        release.wait(30)

    @worker.job("task")
    async def patient(_: object) -> None:
        began.set()
        await asyncio.sleep(30)

    running = run_worker(worker)
    job = client.submit("task" if is_async else "thread", queue=queue)
    assert began.wait(20)
    stopped = running.stop()
    release.set()
    assert stopped.handed_back == 1
    status = job.status()
    assert status.state == "QUEUED", "it waits for another worker"


def test_signals_stop_a_worker(client: Client, server: DevServer, queue: str, tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(
        "import sys, time, forgerun\n"
        "worker = forgerun.Worker(queues=[sys.argv[1]], drain=60)\n"
        "@worker.job('quick')\n"
        "def quick(value): return value\n"
        "@worker.job('slow')\n"
        "def slow(ctx, value):\n"
        "    ctx.progress(1)\n"
        "    ctx.wait_cancelled(60)\n"
        "    raise RuntimeError('stopped')\n"
        "print(worker.run().handed_back)\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(SDK / "src"), "FORGERUN_URL": server.url}
    command = [sys.executable, str(script), queue]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert client.submit("quick", 1, queue=queue).result(30) == 1
        job = client.submit("slow", queue=queue)
        until("it runs", lambda: job.status().progress == 1)
        process.send_signal(signal.SIGTERM)
        # A worker that drains says so in its heartbeat; the second signal does not wait for it.
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0] == "1\n"
        assert process.returncode == 0
    assert job.status().state == "QUEUED"


def test_jobs_outlive_a_server_that_is_killed(
    tmp_path: Path, run_worker: RunWorker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    keeping: dict[str, Any] = {"command": "serve", "env": {"FORGERUN_AUTH__MODE": "open", **NO_RATE}}
    runs: list[str] = []
    n_jobs = 300
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(DevServer("--data", str(tmp_path), **keeping))
        worker = new_worker(server, "q", concurrency=8, lease=5.0)

        @worker.job("short")
        async def short(ctx: AsyncContext, _: object) -> None:
            runs.append(ctx.job.id)
            await asyncio.sleep(0.005)

        client = Client(server.url)
        jobs = client.submit_many(NewJob("short", n, "q") for n in range(n_jobs))
        running = run_worker(worker)
        until("a third is done", lambda: len(runs) > n_jobs // 3)
        server.kill()
        address = server.url.removeprefix("http://")
        stack.enter_context(DevServer("--data", str(tmp_path), "--listen", address, **keeping))
        until("all are done", lambda: len(runs) >= n_jobs, 60)
        assert {job.wait(30).state for job in jobs} == {"SUCCEEDED"}
        stopped = running.stop()
    assert len(runs) == len(set(runs)) == n_jobs, "none twice"
    assert stopped.failed == 0
    assert any("the server is away" in record.message for record in caplog.records)


def test_a_worker_that_dies_is_replaced(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker, tmp_path: Path
) -> None:
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, sys, forgerun\n"
        "worker = forgerun.Worker(queues=[sys.argv[1]], lease=1.0)\n"
        "@worker.job('crash')\n"
        "def crash(value): os._exit(7)\n"
        "worker.run()\n"
    )
    job = client.submit("crash", queue=queue)
    environ = {**os.environ, "PYTHONPATH": str(SDK / "src"), "FORGERUN_URL": server.url}
    assert subprocess.run([sys.executable, str(script), queue], env=environ, timeout=60).returncode == 7
    worker = new_worker(server, queue)
    worker.job("crash")(lambda ctx, _: ctx.job.attempt)
    run_worker(worker)
    assert job.result(30) == 2


def test_a_worker_that_the_server_refuses_ends_with_the_reason(run_worker: RunWorker) -> None:
    with DevServer(env={"FORGERUN_AUTH__MODE": "keys"}) as server:
        worker = Worker(server.url, "frk_wrong")
        worker.job("t")(lambda value: value)
        with pytest.raises(forgerun.AuthError):
            run_worker(worker).join()


def test_the_operator_quiets_resumes_and_ends_a_worker(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker
) -> None:
    worker = new_worker(server, queue, lease=1.0)
    worker.job("echo")(lambda value: value)
    running = run_worker(worker)
    assert client.submit("echo", 1, queue=queue).result(20) == 1
    fetch = lambda *call: forgerun._blocking.run(client._async._session.fetch(*call))  # type: ignore[attr-defined]  # noqa: E731

    def mine() -> dict[str, Any]:
        listed = fetch("GET", "/ojs/v1/workers?per_page=200")["workers"]
        [found] = [one for one in listed if one.get("queues") == [queue]]
        return dict(found)

    until(
        "it is listed", lambda: any(one.get("queues") == [queue] for one in fetch("GET", "/ojs/v1/workers")["workers"])
    )
    worker_id = mine().get("id") or mine()["worker_id"]
    fetch("POST", f"/ojs/v1/workers/{worker_id}/quiet")
    run = worker._run
    assert run is not None
    until("it is quiet", lambda: run.directive == "quiet")
    fetch("POST", f"/ojs/v1/workers/{worker_id}/resume")
    until("it goes on", lambda: run.directive == "running")
    assert client.submit("echo", 2, queue=queue).result(20) == 2
    fetch("POST", f"/ojs/v1/workers/{worker_id}/terminate")
    running.join()


@pytest.mark.parametrize(
    ("concurrency", "mean", "n_running", "expected"),
    [
        (8, None, 0, 8),
        (8, None, 8, 0),
        (8, 0.001, 8, 56),
        (8, 0.025, 8, 16),
        (8, 0.05, 8, 0),
        (8, 0.05, 3, 5),
        (8, 1.0, 7, 1),
        (400, 0.001, 0, 1000),
        (1000, 0.001, 1000, 0),
    ],
)
def test_short_jobs_are_taken_ahead_and_long_ones_are_not(
    concurrency: int, mean: float | None, n_running: int, expected: int
) -> None:
    async def room() -> int:
        run = new_run(concurrency)
        run.mean, run.n_running = mean, n_running
        return run._room()

    assert asyncio.run(room()) == expected


def new_run(concurrency: int = 8, handler: Handler | None = None) -> Run:
    """A run without a server."""
    session = forgerun.AsyncClient("http://127.0.0.1:1")._session
    return Run(Settings(lambda _: handler, ["q"], concurrency, 30, 30, 10), session)


def test_a_task_that_is_cancelled_before_its_first_step_gives_its_place_back() -> None:
    async def nothing(_: object) -> None:
        pass

    async def play() -> int:
        run = new_run(handler=Handler.of("t", nothing))
        run.not_before = float("inf")  # Nothing is sent.
        held = Held(
            JobInfo("1", "t", "q", 1, lease_token="a"),
            None,
            AsyncContext(JobInfo("1", "t", "q", 1), {}, run),
            Handler.of("t", nothing),
            0.0,
        )
        run.held["a"] = held
        run._start(held)
        run._cancel(held, "stop")
        assert run.n_running == 1 and held.task is not None
        await asyncio.gather(held.task, return_exceptions=True)
        return run.n_running

    assert asyncio.run(play()) == 0


def test_a_job_that_was_taken_ahead_does_not_wait_long(
    client: Client, server: DevServer, queue: str, run_worker: RunWorker
) -> None:
    worker = new_worker(server, queue, concurrency=1)
    release = threading.Event()
    began = threading.Event()
    worker.job("quick")(lambda value: value)

    @worker.job("slow")
    def slow(_: object) -> None:
        began.set()
        release.wait(30)

    running = run_worker(worker)
    assert [job.result(20) for job in client.submit_many(NewJob("quick", n, queue) for n in range(20))] == list(
        range(20)
    )
    jobs = [client.submit("slow", queue=queue), *client.submit_many(NewJob("quick", n, queue) for n in range(3))]
    assert began.wait(20)
    until("the others are free for other workers", lambda: all(job.status().state == "QUEUED" for job in jobs[1:]))
    release.set()
    assert [job.result(20) for job in jobs[1:]] == [0, 1, 2]
    running.stop()
