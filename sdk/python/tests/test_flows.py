"""Logs, pauses, signals, lists and steps, against the real server."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.request
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import forgerun
from conftest import NO_RATE, Running
from forgerun import AsyncClient, AsyncContext, Client, Context, Worker, chain, for_each, nested, step, wait, workflow
from forgerun._logs import LINE_BYTES_MAX
from forgerun._session import Session
from forgerun._steps import Recorded, load_steps
from forgerun.context import JobInfo
from forgerun.testing import DevServer

Run = Callable[[Worker], Running]


def until(what: str, holds: Callable[[], Any], timeout: float = 20.0) -> Any:
    deadline = time.monotonic() + timeout
    while not (found := holds()):
        assert time.monotonic() < deadline, what
        time.sleep(0.005)
    return found


@pytest.fixture
def worker(server: DevServer, queue: str) -> Worker:
    worker = Worker(server.url, queues=[queue])

    @worker.job("echo")
    def echo(value: object) -> object:
        return value

    @worker.job("parents")
    def parents(ctx: Context, _: object) -> object:
        return ctx.parents

    return worker


def put(url: str, body: object, token: str) -> int:
    headers = {"content-type": "application/json", "lease-token": token}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="PUT")
    with urllib.request.urlopen(request) as answer:
        return int(answer.status)


def test_every_line_arrives_in_its_order_however_many_and_long(
    client: Client, worker: Worker, queue: str, run_worker: Run
) -> None:
    long = "x" + "😀" * 10_000

    @worker.job("sync")
    def sync(ctx: Context, n: int) -> None:
        for k in range(n):
            ctx.log(f"line {k}")
        ctx.log(long, level="warn", stream="output")
        ctx.log("")
        ctx.log("half of a pair: \ud800")

    @worker.job("async")
    async def both(ctx: AsyncContext, n: int) -> None:
        for k in range(n):
            ctx.log(f"line {k}")
        ctx.log(long, level="warn", stream="output")
        ctx.log("")
        ctx.log("half of a pair: \ud800")

    run_worker(worker)
    for kind in ("sync", "async"):
        job = client.submit(kind, 3000, queue=queue)
        job.wait(30)
        lines = list(job.logs())
        assert [line.seq for line in lines] == list(range(1, len(lines) + 1))
        assert [line.text for line in lines[:3000]] == [f"line {k}" for k in range(3000)]
        pieces = [line for line in lines if line.stream == "output"]
        assert all(len(line.text.encode()) <= LINE_BYTES_MAX and line.level == "warn" for line in pieces)
        assert "".join(line.text for line in pieces) == long and len(pieces) == 3
        assert [line.text for line in lines[-2:]] == ["", "half of a pair: ?"]


def test_a_line_with_a_name_that_no_server_takes_is_refused_at_once(
    client: Client, worker: Worker, queue: str, run_worker: Run
) -> None:
    @worker.job("t")
    def say(ctx: Context, stream: str) -> None:
        ctx.log("good")
        ctx.log("bad", stream=stream)

    run_worker(worker)
    for stream in ("", "a b", "x" * 33):
        job = client.submit("t", stream, queue=queue, max_retries=0)
        with pytest.raises(forgerun.JobFailed, match="levels and streams"):
            job.result(20)
        assert [line.text for line in job.logs()] == ["good"]


def test_logs_are_read_by_stream_attempt_and_place(
    client: Client, worker: Worker, queue: str, run_worker: Run, server: DevServer
) -> None:
    @worker.job("t")
    def twice(ctx: Context, _: object) -> None:
        ctx.log(f"try {ctx.job.attempt}")
        ctx.log("token", stream="output")
        if ctx.job.attempt == 1:
            raise forgerun.RetryLater(0.01)

    run_worker(worker)
    job = client.submit("t", queue=queue)
    job.wait(20)

    def texts(**how: Any) -> list[str]:
        return [f"{line.seq} {line.attempt} {line.text}" for line in job.logs(**how)]

    assert texts() == ["1 1 try 1", "2 1 token", "3 2 try 2", "4 2 token"]
    assert texts(stream="output") == ["2 1 token", "4 2 token"]
    assert texts(attempt=2) == ["3 2 try 2", "4 2 token"]
    assert texts(after=3) == ["4 2 token"]
    assert texts(after=4) == []
    for how in ({}, {"stream": "output"}, {"attempt": 2}, {"after": 3}, {"after": 4}):
        assert texts(follow=True, **how) == texts(**how), how

    async def asynchronously() -> list[int]:
        async with AsyncClient(server.url) as client:
            return [line.seq async for line in client.job(job.id).logs(stream="log")]

    assert asyncio.run(asynchronously()) == [1, 3]
    assert next(job.logs()).at.tzinfo is not None
    with pytest.raises(forgerun.ResourceError):
        list(client.job("01890a5d-ac96-7001-bcce-b302099a8057").logs())


def test_logs_are_followed_while_the_job_runs_and_over_a_restart(tmp_path: Path, run_worker: Run) -> None:
    env = {"FORGERUN_AUTH__MODE": "open", **NO_RATE}
    with DevServer("--data", str(tmp_path), command="serve", env=env) as server:
        go = threading.Event()
        worker = Worker(server.url)

        @worker.job("t")
        def slow(ctx: Context, _: object) -> None:
            ctx.log("before")
            go.wait(30)
            ctx.log("after")

        run_worker(worker)
        client = Client(server.url)
        job = client.submit("t")
        lines = job.logs(follow=True)
        assert next(lines).text == "before"
        server.kill()
        address = server.url.removeprefix("http://")
        with DevServer("--data", str(tmp_path), "--listen", address, command="serve", env=env):
            go.set()
            assert [line.text for line in lines] == ["after"]
            job.wait(20)


def test_a_paused_job_waits_until_it_is_resumed(client: Client, worker: Worker, queue: str, run_worker: Run) -> None:
    job = client.submit("echo", 1, queue=queue)
    assert not job.status().is_paused
    assert job.pause().is_paused and job.status().is_paused
    assert job.pause().is_paused, "a second pause changes nothing"
    run_worker(worker)
    assert client.submit("echo", 2, queue=queue).result(20) == 2
    assert job.status().state == "QUEUED"
    assert not job.resume().is_paused
    assert job.result(20) == 1
    with pytest.raises(forgerun.ValidationError):
        job.pause()


def test_a_paused_workflow_starts_no_step(client: Client, worker: Worker, queue: str, run_worker: Run) -> None:
    flow = client.submit_workflow(chain(step("echo", 1, queue=queue), step("echo", 2, queue=queue)))
    assert client.pause_workflow(flow.id)["paused"] is True
    run_worker(worker)
    assert client.submit("echo", 2, queue=queue).result(20) == 2
    assert [step["state"] for step in client.workflow(flow.id)["steps"]] == ["QUEUED", "WAITING"]
    assert not client.resume_workflow(flow.id).get("paused")
    assert flow.wait(20).state == "SUCCEEDED"


def test_a_signal_ends_a_wait_and_is_its_result(client: Client, worker: Worker, queue: str, run_worker: Run) -> None:
    run_worker(worker)
    schema = {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}
    order = workflow(
        wait(signal="approved", timeout="1d", schema=schema, id="approval"),
        wait(for_=0.05, id="cool-off", depends_on=["approval"]),
        wait(until=datetime.now(timezone.utc) + timedelta(milliseconds=50), id="late"),
        step("parents", id="ship", queue=queue, depends_on=["approval", "cool-off"]),
        deadline="7d",
    )
    flow = client.submit_workflow(order)
    with pytest.raises(forgerun.ValidationError):
        client.signal(flow.id, "approved", {"ok": "maybe"})
    with pytest.raises(forgerun.ResourceError):
        client.signal(flow.id, "denied", True)
    client.signal(flow.id, "approved", {"ok": True})
    client.signal(flow.id, "approved", {"ok": True})
    with pytest.raises(forgerun.ConflictError):
        client.signal(flow.id, "approved", {"ok": False})
    assert flow.wait(20).state == "SUCCEEDED"
    view = client.workflow(flow.id)
    assert client.job(view["steps"][-1]["job_id"]).result(20) == {"approval": {"ok": True}, "cool-off": None}
    assert view["deadline"]


def test_a_workflow_ends_at_its_deadline(client: Client) -> None:
    flow = client.submit_workflow(chain(wait(signal="never", timeout=60), deadline=timedelta(milliseconds=50)))
    with pytest.raises(forgerun.ExecutionError):
        flow.result(20)
    assert client.workflow(flow.id)["state"] == "FAILED"


def test_waits_and_lists_that_contradict_themselves_are_refused() -> None:
    for how in ({}, {"for_": 1, "until": "2030-01-01T00:00:00Z"}, {"signal": "s"}, {"for_": 1, "timeout": 1}):
        with pytest.raises(ValueError):
            wait(**how)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        wait(for_=1, schema={})
    with pytest.raises(TypeError):
        for_each("t", args="$item")


def test_each_element_of_a_list_has_a_job(client: Client, worker: Worker, queue: str, run_worker: Run) -> None:
    run_worker(worker)
    images = {"images": [{"n": n} for n in range(5)]}
    album = workflow(
        step("echo", images, id="list", queue=queue),
        for_each("echo", over="list", pointer="/images", args=["$item", "$index"], parallel=2, id="both", queue=queue),
        for_each("echo", over="list", pointer="/images", id="one", queue=queue),
        step("parents", id="report", depends_on=["both", "one"], queue=queue),
    )
    flow = client.submit_workflow(album)
    assert flow.wait(20).state == "SUCCEEDED"
    steps = {step["id"]: step for step in client.workflow(flow.id)["steps"]}
    assert steps["both"]["elements"]["succeeded"] == 5
    assert client.job(steps["report"]["job_id"]).result(20) == {
        "both": [[{"n": n}, n] for n in range(5)],
        "one": [{"n": n} for n in range(5)],
    }


def test_a_workflow_is_a_step(client: Client, worker: Worker, queue: str, run_worker: Run) -> None:
    run_worker(worker)
    inner = workflow(step("echo", 1, id="a", queue=queue), step("echo", 2, id="b", queue=queue, depends_on=["a"]))
    outer = workflow(nested(inner, id="in"), step("parents", id="out", queue=queue, depends_on=["in"]))
    flow = client.submit_workflow(outer)
    assert flow.wait(20).state == "SUCCEEDED"
    last = client.workflow(flow.id)["steps"][-1]
    assert client.job(last["job_id"]).result(20) == {"in": {"a": 1, "b": 2}}


def test_large_results_of_parents_are_fetched(client: Client, worker: Worker, queue: str, run_worker: Run) -> None:
    large = "y" * 100_000

    @worker.job("large")
    def make(_: object) -> str:
        return large

    @worker.job("bytes")
    def raw(_: object) -> bytes:
        return b"\x00\xff"

    def lengths(parents: Any) -> dict[str, Any]:
        assert parents.pop("bytes") is None and all(text == large for text in parents["each"])
        return {name: len(value) for name, value in parents.items()}

    @worker.job("sync")
    def sync(ctx: Context, _: object) -> object:
        return lengths(ctx.parents)

    @worker.job("async")
    async def both(ctx: AsyncContext, _: object) -> object:
        return lengths(ctx.parents)

    run_worker(worker)
    names = ["large", "bytes", "each"]
    flow = client.submit_workflow(
        workflow(
            step("large", id="large", queue=queue),
            step("bytes", id="bytes", queue=queue),
            step("echo", {"list": list(range(20))}, id="list", queue=queue),
            for_each("large", over="list", pointer="/list", id="each", queue=queue),
            step("sync", id="sync", queue=queue, depends_on=names),
            step("async", id="async", queue=queue, depends_on=names),
        )
    )
    assert flow.wait(30).state == "SUCCEEDED", [step["error"] for step in client.workflow(flow.id)["steps"]]
    for last in client.workflow(flow.id)["steps"][-2:]:
        assert client.job(last["job_id"]).result(20) == {"large": 100_000, "each": 20}


def test_the_first_result_of_a_step_counts(
    client: Client, worker: Worker, queue: str, run_worker: Run, server: DevServer
) -> None:
    @worker.job("t")
    def twice(ctx: Context, name: str) -> list[object]:
        def beaten() -> str:
            # Another worker records the step just before this one.
            path = f"{server.url}/ojs/v1/jobs/{ctx.job.id}/checkpoint/charge%2F1"
            assert put(path, {"result": "first"}, ctx.job.lease_token) == 201
            return "second"

        return [ctx.step("charge/1", beaten), ctx.step("charge/1", lambda: "third"), ctx.step("none", lambda: None)]

    run_worker(worker)
    assert client.submit("t", queue=queue).result(20) == ["first", "first", None]


def test_steps_that_were_saved_as_a_whole_are_still_read(
    client: Client, worker: Worker, queue: str, run_worker: Run, server: DevServer
) -> None:
    @worker.job("t")
    def old_then_new(ctx: Context, _: object) -> object:
        if ctx.job.attempt == 1:
            state = {"state": {"a": "old", "b": "old"}}
            assert put(f"{server.url}/ojs/v1/checkpoints/{ctx.job.id}", state, ctx.job.lease_token) < 300
            raise forgerun.RetryLater(0.01)
        return [ctx.step(name, lambda: "new") for name in ("a", "b", "c")]

    run_worker(worker)
    assert client.submit("t", queue=queue).result(20) == ["old", "old", "new"]


def test_a_step_of_more_than_the_whole_checkpoint_may_have_is_recorded(
    client: Client, worker: Worker, queue: str, run_worker: Run
) -> None:
    @worker.job("t")
    def three(ctx: Context, _: object) -> int:
        texts = [ctx.step(name, lambda: "x" * 200_000) for name in ("a", "b", "c")]
        if ctx.job.attempt == 1:
            raise forgerun.RetryLater(0.01)
        return sum(map(len, texts))

    run_worker(worker)
    assert client.submit("t", queue=queue).result(20) == 600_000


def test_a_server_that_knows_no_single_steps_keeps_them_as_a_whole(
    client: Client, worker: Worker, queue: str, run_worker: Run, server: DevServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def of_old_server(session: Session, job: JobInfo) -> Recorded:
        return Recorded((await load_steps(session, job)).results, one_by_one=False)

    monkeypatch.setattr("forgerun._run.load_steps", of_old_server)

    @worker.job("t")
    def twice(ctx: Context, _: object) -> list[str]:
        found = [ctx.step(name, lambda: f"{name} {ctx.job.attempt}") for name in ("a", "b")]
        if ctx.job.attempt == 1:
            with urllib.request.urlopen(f"{server.url}/ojs/v1/checkpoints/{ctx.job.id}/resume") as answer:
                saved = json.load(answer)
            assert (saved["state"], saved["steps"]) == ({"a": "a 1", "b": "b 1"}, {})
            raise forgerun.RetryLater(0.01)
        return found

    run_worker(worker)
    assert client.submit("t", queue=queue).result(20) == ["a 1", "b 1"]
