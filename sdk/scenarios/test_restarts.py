"""What each language promises when the server goes away and comes back."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from conftest import World
from server import until

N_JOBS = 1000
BY = pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])


@BY
def test_events_and_results_outlive_the_server(own_world: World, by: signal.Signals) -> None:
    world = own_world
    world.work()
    job_id = world.sdk.submit("sleep", {"ms": 1500}, queue=world.queue)
    followed = world.sdk.begin("events", job_id=job_id, timeout_ms=40_000)
    awaited = world.sdk.begin("result", job_id=job_id, timeout_ms=40_000)
    until("it runs", lambda: world.sdk.phases(job_id) == ["begin 1"])
    world.server.restart(by)
    assert awaited.result(60)["value"] == "slept"
    seen = followed.result(60)["events"]
    events = world.server.call("GET", f"/v1/jobs/{job_id}/events")["events"]
    assert [event["id"] for event in seen] == [event["event_id"] for event in events], "none missing, none twice"
    assert world.sdk.phases(job_id) == ["begin 1", "end 1"], "a living worker does it once"
    # The worker goes on with the server that came back.
    assert world.sdk.result(world.sdk.submit("echo", 1, queue=world.queue), timeout_ms=40_000) == 1


def test_a_thousand_jobs_outlive_a_server_that_is_killed(own_world: World) -> None:
    world = own_world
    jobs = [{"type": "sleep", "args": {"ms": 30}, "queue": world.queue} for _ in range(N_JOBS)]
    job_ids = world.sdk.do("submit_many", jobs=jobs)["job_ids"]
    # Longer than the server is away, so that no lease of a living worker ends.
    world.work(concurrency=16, lease_ms=12_000)
    n_ended = lambda: sum(line.phase == "end" for line in world.sdk.lines())  # noqa: E731
    until("a third is done", lambda: n_ended() >= N_JOBS // 3, pause_s=0.005)
    world.server.end(signal.SIGKILL)
    assert n_ended() < N_JOBS, "the server was killed in the midst of it"
    world.server.start()
    until("all are done", lambda: n_ended() >= N_JOBS, timeout_s=60)
    succeeded = lambda: set(Counter(world.server.states(world.queue).values())) == {"SUCCEEDED"}  # noqa: E731
    until("the server knows of all", succeeded, timeout_s=60, pause_s=0.1)
    assert world.server.states(world.queue).keys() == set(job_ids), "none lost, none made up"
    runs = Counter(line.job_id for line in world.sdk.lines() if line.phase == "begin")
    assert runs == Counter(job_ids), "none done twice by a living worker"
