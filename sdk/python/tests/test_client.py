"""Clients against the real server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import forgerun
from conftest import NO_RATE, Running
from forgerun import AsyncClient, Client, NewJob, Worker, chain, group, step, workflow
from forgerun.testing import DevServer

Run = Callable[[Worker], Running]


def echo_worker(server: DevServer, queue: str) -> Worker:
    worker = Worker(server.url, queues=[queue], concurrency=4)

    @worker.job("echo")
    def echo(value: object) -> object:
        return value

    @worker.job("fail")
    def fail(message: str) -> None:
        raise ValueError(message)

    return worker


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2], 7, 0.1, "Ada ü 😀", False, None, 2**70], ids=repr)
def test_what_goes_in_comes_out(client: Client, server: DevServer, queue: str, run_worker: Run, value: object) -> None:
    run_worker(echo_worker(server, queue))
    assert client.submit("echo", value, queue=queue).result(20) == value


def test_many_jobs_become_handles_in_their_order(
    client: Client, server: DevServer, queue: str, run_worker: Run
) -> None:
    run_worker(echo_worker(server, queue))
    jobs = client.submit_many(NewJob("echo", {"n": n}, queue) for n in range(1100))
    assert [jobs[n].result(20) for n in (0, 1, 999, 1000, 1099)] == [{"n": n} for n in (0, 1, 999, 1000, 1099)]
    assert len({job.id for job in jobs}) == 1100
    assert client.submit_many([]) == []


def test_large_jobs_are_sent_in_several_requests(client: Client, queue: str) -> None:
    text = "x" * 200_000
    jobs = client.submit_many(NewJob("echo", text, queue) for _ in range(50))
    assert jobs[-1].status().state == "QUEUED"


def test_options_arrive(client: Client, queue: str) -> None:
    at = datetime.now(timezone.utc) + timedelta(hours=1)
    job = client.submit("echo", 1, queue=queue, priority=3, tags=["a", "b:c"], deadline=timedelta(hours=2), at=at)
    view = job.status().view
    assert (view["type"], view["state"], view["queue"], view["tags"]) == ("DEFERRED", "CREATED", queue, ["a", "b:c"])
    due = datetime.fromisoformat(view["execution_at"].replace("Z", "+00:00"))
    assert abs(due - at) < timedelta(milliseconds=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delay": 1, "at": "2030-01-01T00:00:00Z"}, "a delay or a time"),
        ({"at": datetime(2030, 1, 1)}, "no time zone"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    client: Client, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        client.submit("echo", 1, **options)  # type: ignore[arg-type]


def test_what_json_cannot_hold_is_refused_before_it_is_sent(client: Client) -> None:
    for value in (float("nan"), {1, 2}, "\ud83d"):
        with pytest.raises((ValueError, TypeError)):
            client.submit("echo", value)
    with pytest.raises(ValueError, match="unique_key"):
        client.submit_many([NewJob("echo", 1, unique_key="k")])


def test_failures_have_their_class(client: Client, server: DevServer, queue: str, run_worker: Run) -> None:
    run_worker(echo_worker(server, queue))
    job = client.submit("fail", "no paper", queue=queue, max_retries=0)
    with pytest.raises(forgerun.JobFailed, match="no paper") as failed:
        job.result(20)
    assert failed.value.job_id == job.id
    assert failed.value.problem["title"] == "Job Failed"
    assert isinstance(failed.value, forgerun.ExecutionError)
    cancelled = client.submit("echo", 1, queue=queue, delay=60)
    assert cancelled.cancel().state == "CANCELED"
    with pytest.raises(forgerun.JobCancelled):
        cancelled.result(20)
    with pytest.raises(forgerun.ResourceError) as missing:
        client.job("019a0000-0000-7000-8000-000000000001").status()
    assert missing.value.request_id
    with pytest.raises(forgerun.ValidationError) as invalid:
        client.submit("echo", 1, priority=1000)
    assert not invalid.value.retryable and invalid.value.problem["errors"]
    for bad in ("", "..", "."):
        with pytest.raises(ValueError):
            client.job(bad).status()


def test_a_job_that_runs_too_long_times_out(client: Client, server: DevServer, queue: str, run_worker: Run) -> None:
    worker = Worker(server.url, queues=[queue], lease=1.0)
    stopped = threading.Event()

    @worker.job("slow")
    async def slow(_: object) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    run_worker(worker)
    with pytest.raises(forgerun.JobTimedOut):
        client.submit("slow", queue=queue, timeout=0.2, max_retries=0).result(20)
    assert stopped.wait(10), "its handler is cancelled"


def test_a_wait_ends_in_time(client: Client, queue: str) -> None:
    job = client.submit("echo", 1, queue=queue)
    for timeout in (0.0, 0.2, 1.2):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            job.result(timeout)
        assert timeout <= time.monotonic() - began < timeout + 5


def test_a_failed_job_is_retried_by_hand(client: Client, server: DevServer, queue: str, run_worker: Run) -> None:
    worker = Worker(server.url, queues=[queue])

    @worker.job("flaky")
    def flaky(ctx: forgerun.Context, _: object) -> int:
        if ctx.job.attempt == 1:
            raise forgerun.Fatal("once")
        return ctx.job.attempt

    run_worker(worker)
    job = client.submit("flaky", queue=queue, max_retries=1)
    with pytest.raises(forgerun.JobFailed):
        job.result(20)
    assert job.retry().state == "QUEUED"
    assert job.result(20) == 2
    assert job.report()["attempts"] == 2


def test_events_are_followed_to_the_end(client: Client, server: DevServer, queue: str, run_worker: Run) -> None:
    worker = Worker(server.url, queues=[queue])
    go_on = threading.Event()

    @worker.job("report")
    def report(ctx: forgerun.Context, _: object) -> None:
        go_on.wait(20)
        ctx.progress(40, "half of it")

    run_worker(worker)
    job = client.submit("report", queue=queue)
    seen = []
    for event in job.events():
        seen.append(event)
        if event.name == "job-started":
            go_on.set()
    names = [event.name for event in seen]
    assert names[:2] == ["job-created", "job-queued"] and names[-1] == "job-completed"
    assert "job-progress" in names and seen[-1].is_end
    assert [event.name for event in job.events(after=seen[-2].id)][-1:] in ([], ["job-completed"])


def test_the_same_key_is_the_same_job(client: Client, queue: str) -> None:
    first = client.submit("echo", {"n": 1}, queue=queue, idempotency_key=queue)
    assert client.submit("echo", {"n": 1}, queue=queue, idempotency_key=queue).id == first.id
    with pytest.raises(forgerun.ConflictError):
        client.submit("echo", {"n": 2}, queue=queue, idempotency_key=queue)


def test_workflows_hand_on_results(client: Client, server: DevServer, queue: str, run_worker: Run) -> None:
    worker = echo_worker(server, queue)

    @worker.job("parents")
    def parents(ctx: forgerun.Context, _: object) -> object:
        return ctx.parents

    run_worker(worker)
    graph = workflow(
        step("echo", [1, 2], id="a", queue=queue),
        step("echo", {"x": 1}, id="b", queue=queue),
        step("parents", id="c", queue=queue, depends_on=["a", "b"]),
        name="graph",
    )
    started = client.submit_workflow(graph)
    assert started.wait(20).state == "SUCCEEDED"
    last = client.workflow(started.id)["steps"][-1]
    assert client.job(last["job_id"]).result(20) == {"a": [1, 2], "b": {"x": 1}}
    nested = chain(step("echo", 1, queue=queue), group(step("echo", 2, queue=queue), step("echo", 3, queue=queue)))
    assert client.submit_workflow(nested.named("nested")).wait(20).state == "SUCCEEDED"


def test_a_workflow_that_fails_is_undone(client: Client, server: DevServer, queue: str, run_worker: Run) -> None:
    run_worker(echo_worker(server, queue))
    undone = step("echo", "undone", queue=queue)
    broken = workflow(
        step("echo", 1, id="a", queue=queue, compensate=undone),
        step("fail", "no", id="b", queue=queue, depends_on=["a"], max_retries=0),
        failure_policy="compensate",
    )
    started = client.submit_workflow(broken)
    assert started.wait(20).state == "FAILED"
    first = client.workflow(started.id)["steps"][0]
    assert client.job(first["compensation"]["job_id"]).result(20) == "undone"
    assert client.retry_workflow(started.id)["state"] == "RUNNING"
    assert client.cancel_workflow(started.id, compensate=False)["workflow_id"] == started.id


def test_schedules_come_and_go(client: Client, server: DevServer, queue: str, run_worker: Run) -> None:
    run_worker(echo_worker(server, queue))
    client.schedule(queue, "* * * * * *", "echo", {"tick": True}, queue=queue, catch_up="none")

    def last_job() -> str | None:
        [found] = [schedule for schedule in client.schedules() if schedule["name"] == queue]
        job_id: str | None = found["last_job_id"]
        return job_id

    deadline = time.monotonic() + 20
    while (job_id := last_job()) is None:
        assert time.monotonic() < deadline
    assert client.job(job_id).result(20) == {"tick": True}
    client.unschedule(queue)
    assert queue not in [schedule["name"] for schedule in client.schedules()]


def test_the_asynchronous_client_does_the_same(server: DevServer, queue: str, run_worker: Run) -> None:
    run_worker(echo_worker(server, queue))

    async def play() -> None:
        async with AsyncClient(server.url) as client:
            jobs = await asyncio.gather(*(client.submit("echo", n, queue=queue) for n in range(50)))
            assert await asyncio.gather(*(job.result(30) for job in jobs)) == list(range(50))
            assert [event.name async for event in jobs[0].events()][-1] == "job-completed"
            assert b"".join([piece async for piece in jobs[7].stream()]) == b"7"

    asyncio.run(play())


def test_one_asynchronous_client_serves_several_loops(server: DevServer, queue: str) -> None:
    client = AsyncClient(server.url)
    for _ in range(2):
        job = asyncio.run(client.submit("echo", 1, queue=queue))
        assert asyncio.run(job.status()).state == "QUEUED"


def test_threads_share_a_client(client: Client, queue: str) -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.extend(client.submit("echo", 1, queue=queue).id for _ in range(20)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 160


def test_a_wait_outlives_a_restart_of_the_server(tmp_path: Path, run_worker: Run) -> None:
    keeping = {"command": "serve", "env": {"FORGERUN_AUTH__MODE": "open", **NO_RATE}}
    with DevServer("--data", str(tmp_path), **keeping) as server:  # type: ignore[arg-type]
        address = server.url.removeprefix("http://")
        client = Client(server.url)
        job = client.submit("echo", {"a": 1})
        got: list[object] = []
        waiting = threading.Thread(target=lambda: got.append(job.result(60)))
        waiting.start()
        while not client._async._holds:
            time.sleep(0.001)
        server.kill()
        with DevServer("--data", str(tmp_path), "--listen", address, **keeping) as again:  # type: ignore[arg-type]
            run_worker(echo_worker(again, "default"))
            waiting.join(60)
    assert got == [{"a": 1}]


def test_a_key_opens_a_server_that_wants_keys() -> None:
    with DevServer(env={"FORGERUN_AUTH__MODE": "keys"}) as server:
        with pytest.raises(forgerun.AuthError):
            Client(server.url, "frk_wrong").submit("echo", 1)
