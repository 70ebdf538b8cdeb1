"""What each language promises, on a server that stays up."""

from __future__ import annotations

import time

import pytest

from adapter import Refused
from conftest import World
from server import until

NO_JOB = "019a0000-0000-7000-8000-000000000001"


@pytest.mark.parametrize(
    "value", [{"a": 1}, [1, 2], [5], [[5]], [], 7, 0.1, "Ada ü 😀", False, None], ids=lambda value: repr(value)
)
def test_a_handler_gets_what_was_submitted_and_its_result_comes_back(world: World, value: object) -> None:
    world.work()
    alone = world.sdk.submit("echo", value, queue=world.queue)
    many = world.sdk.do("submit_many", jobs=[{"type": "echo", "args": value, "queue": world.queue}])
    assert world.sdk.result(alone) == value
    assert [world.sdk.result(job_id) for job_id in many["job_ids"]] == [value]


def test_many_jobs_come_back_in_order(world: World) -> None:
    world.work(concurrency=32)
    jobs = [{"type": "add", "args": [n, 1], "queue": world.queue, "options": {"priority": n % 3}} for n in range(300)]
    job_ids = world.sdk.do("submit_many", jobs=jobs)["job_ids"]
    assert len(set(job_ids)) == 300
    asked = [world.sdk.begin("result", job_id=job_id, timeout_ms=20_000) for job_id in job_ids]
    assert [answer.result(60)["value"] for answer in asked] == [n + 1 for n in range(300)]


def test_a_failed_job_is_not_retried_without_retries(world: World) -> None:
    world.work()
    job_id = world.sdk.submit("fail", {"message": "no paper"}, queue=world.queue, max_retries=0)
    with pytest.raises(Refused) as refused:
        world.sdk.result(job_id)
    assert (refused.value.error_class, refused.value.message) == ("JobFailed", "no paper")
    assert world.sdk.do("status", job_id=job_id)["state"] == "FAILED"
    assert world.sdk.phases(job_id) == ["begin 1", "end 1"]


def test_retries_bring_a_flaky_job_to_its_end(world: World) -> None:
    world.work()
    job_id = world.sdk.submit("flaky", {"failures": 2}, queue=world.queue)
    assert world.sdk.result(job_id) == 3
    assert world.sdk.phases(job_id) == ["begin 1", "end 1", "begin 2", "end 2", "begin 3", "end 3"]


def test_retries_are_used_up(world: World) -> None:
    world.work()
    job_id = world.sdk.submit("fail", {"message": "again and again"}, queue=world.queue, max_retries=2)
    with pytest.raises(Refused) as refused:
        world.sdk.result(job_id)
    assert refused.value.error_class == "JobFailed"
    assert [line.attempt for line in world.sdk.lines(job_id) if line.phase == "begin"] == [1, 2, 3]


def test_a_fatal_failure_is_final_whatever_retries_are_left(world: World) -> None:
    world.work()
    job_id = world.sdk.submit("fail", {"message": "never", "retryable": False}, queue=world.queue, max_retries=3)
    with pytest.raises(Refused) as refused:
        world.sdk.result(job_id)
    assert (refused.value.error_class, refused.value.retryable) == ("JobFailed", False)
    assert world.sdk.phases(job_id) == ["begin 1", "end 1"]


def test_a_failed_job_is_retried_by_hand(world: World) -> None:
    world.work()
    # It asks for no retry by itself, and has one left.
    job_id = world.sdk.submit("fail", {"message": "no paper", "retryable": False}, queue=world.queue, max_retries=1)
    with pytest.raises(Refused):
        world.sdk.result(job_id)
    world.sdk.do("retry", job_id=job_id)
    until("it runs again", lambda: world.sdk.phases(job_id) == ["begin 1", "end 1", "begin 2", "end 2"])
    with pytest.raises(Refused) as refused:
        world.sdk.result(job_id)
    assert refused.value.message == "no paper"


def test_retry_later_comes_back_after_its_time(world: World) -> None:
    world.work()
    job_id = world.sdk.submit("later", queue=world.queue)
    assert world.sdk.result(job_id) == "done"
    assert world.sdk.phases(job_id) == ["begin 1", "end 1", "begin 2", "end 2"]


def test_a_waiting_job_is_cancelled_and_never_begins(world: World) -> None:
    job_id = world.sdk.submit("echo", 1, queue=world.queue)
    world.sdk.do("cancel", job_id=job_id)
    assert world.sdk.do("status", job_id=job_id)["state"] == "CANCELED"
    world.work()
    # The worker has had its turn once a later job is done.
    assert world.sdk.result(world.sdk.submit("echo", 2, queue=world.queue)) == 2
    assert world.sdk.lines(job_id) == []
    with pytest.raises(Refused) as refused:
        world.sdk.result(job_id)
    assert refused.value.error_class == "JobCancelled"


def test_a_running_job_is_cancelled_and_its_handler_learns_of_it(world: World) -> None:
    world.work(lease_ms=1500)
    job_id = world.sdk.submit("sleep", {"ms": 50_000}, queue=world.queue)
    until("it runs", lambda: world.sdk.phases(job_id) == ["begin 1"])
    world.sdk.do("cancel", job_id=job_id)
    until("its handler is cancelled", lambda: world.sdk.phases(job_id) == ["begin 1", "cancelled 1"])
    with pytest.raises(Refused) as refused:
        world.sdk.result(job_id)
    assert refused.value.error_class == "JobCancelled"


def test_progress_is_seen_from_outside(world: World) -> None:
    world.work()

    def seen() -> bool:
        """Whether the stream of a job shows progress; it is kept only until the job ends, and so may be missed."""
        job_id = world.sdk.submit("progress", queue=world.queue, delay_ms=300)
        followed = world.sdk.begin("events", job_id=job_id, timeout_ms=20_000)
        assert world.sdk.result(job_id) == "done"
        return "job-progress" in [event["name"] for event in followed.result(30)["events"]]

    until("progress is seen", seen)


def test_a_wait_that_takes_too_long_is_the_languages_own_timeout(world: World) -> None:
    job_id = world.sdk.submit("echo", 1, queue=world.queue)
    with pytest.raises(Refused) as refused:
        world.sdk.result(job_id, timeout_ms=300)
    assert refused.value.error_class == "TimeoutError"
    assert world.sdk.do("status", job_id=job_id)["state"] == "QUEUED", "the job goes on"


def test_refusals_have_their_classes(world: World) -> None:
    def refusal(verb: str, **members: object) -> tuple[str, bool]:
        with pytest.raises(Refused) as refused:
            world.sdk.do(verb, **members)
        return refused.value.error_class, refused.value.retryable

    echo = {"type": "echo", "queue": world.queue}
    assert refusal("submit", **echo, args=1, options={"priority": 1000}) == ("ValidationError", False)
    assert refusal("status", job_id=NO_JOB) == ("ResourceError", False)
    world.sdk.submit("echo", 1, queue=world.queue, unique_key=world.queue)
    assert refusal("submit", **echo, args=1, options={"unique_key": world.queue}) == ("ConflictError", False)


def test_a_key_of_the_caller_makes_one_job_of_two_submissions(world: World) -> None:
    first = world.sdk.submit("echo", {"n": 1}, queue=world.queue, idempotency_key=world.queue)
    assert world.sdk.submit("echo", {"n": 1}, queue=world.queue, idempotency_key=world.queue) == first
    with pytest.raises(Refused) as refused:
        world.sdk.submit("echo", {"n": 2}, queue=world.queue, idempotency_key=world.queue)
    assert refused.value.error_class == "ConflictError"


def test_a_delayed_job_waits_for_its_time(world: World) -> None:
    world.work()
    submitted_at = time.time()
    job_id = world.sdk.submit("echo", 1, queue=world.queue, delay_ms=800)
    assert world.sdk.result(job_id) == 1
    assert time.time() - submitted_at >= 0.8


def test_options_reach_the_job(world: World) -> None:
    options = {"priority": 7, "tags": ["a", "b:c"], "deadline": "1h"}
    job_id = world.sdk.submit("echo", 1, queue=world.queue, **options)
    job = world.server.job(job_id)
    assert (job["queue"], job["tags"], job["job_type"]) == (world.queue, ["a", "b:c"], "echo")
    assert job["deadline"] > job["created_at"]


def test_a_step_gets_the_results_of_the_steps_before_it(world: World) -> None:
    world.work()
    step = {"queue": world.queue}
    steps = [
        {"id": "a", "type": "add", "args": [1, 2], **step},
        {"id": "b", "type": "echo", "args": {"x": 1}, **step},
        {"id": "c", "type": "parents", "args": None, "depends_on": ["a", "b"], **step},
    ]
    workflow_id = world.sdk.do("workflow", name="graph", steps=steps)["job_id"]
    assert_ends_well(world, workflow_id)
    assert parents_of_last_step(world, workflow_id) == {"a": 3, "b": {"x": 1}}


def test_a_chain_runs_one_after_the_other(world: World) -> None:
    world.work()
    chain = [
        {"type": "add", "args": [1, 2], "queue": world.queue},
        {"type": "parents", "args": None, "queue": world.queue},
    ]
    workflow_id = world.sdk.do("workflow", chain=chain)["job_id"]
    assert_ends_well(world, workflow_id)
    assert parents_of_last_step(world, workflow_id) == {"0": 3}


def test_a_flow_waits_for_a_signal_and_fans_out(world: World) -> None:
    world.work()
    steps = [
        {"id": "approval", "wait": {"signal": "approved", "timeout": "1h"}},
        {
            "id": "each",
            "type": "echo",
            "args": ["$item", "$index"],
            "for_each": {"over": "approval", "pointer": "/words", "parallel": 2},
            "queue": world.queue,
        },
        {"id": "report", "type": "parents", "depends_on": ["approval", "each"], "queue": world.queue},
    ]
    workflow_id = world.sdk.do("workflow", name="flow", steps=steps)["job_id"]
    with pytest.raises(Refused) as refused:
        world.sdk.do("signal", workflow_id=workflow_id, name="denied", payload=True)
    assert refused.value.error_class == "ResourceError"
    answer = {"words": ["a", "b", "c", "d"]}
    world.sdk.do("signal", workflow_id=workflow_id, name="approved", payload=answer)
    world.sdk.do("signal", workflow_id=workflow_id, name="approved", payload=answer)
    with pytest.raises(Refused) as refused:
        world.sdk.do("signal", workflow_id=workflow_id, name="approved", payload={"words": []})
    assert refused.value.error_class == "ConflictError"
    assert_ends_well(world, workflow_id)
    each = [["a", 0], ["b", 1], ["c", 2], ["d", 3]]
    assert parents_of_last_step(world, workflow_id) == {"approval": answer, "each": each}


def test_what_a_handler_logs_is_read_and_followed(world: World) -> None:
    texts = [f"line {n}" for n in range(1500)] + ["", "Ada ü 😀", "x" * 20_000]
    job_id = world.sdk.submit("say", texts, queue=world.queue)
    following = world.sdk.begin("logs", job_id=job_id, follow=True)
    world.work()
    followed = following.result(30)["lines"]
    assert [line["seq"] for line in followed] == list(range(1, len(followed) + 1))
    assert [line["text"] for line in followed[:1502]] == texts[:1502]
    assert "".join(line["text"] for line in followed[1502:]) == texts[1502]
    assert world.sdk.do("logs", job_id=job_id, follow=False)["lines"] == followed


def test_a_handler_waits_for_a_signal_to_its_job(world: World) -> None:
    world.work()
    early, late = (world.sdk.submit("ask", queue=world.queue) for _ in range(2))
    world.sdk.do("signal", job_id=early, name="approved", payload=[1, None])
    assert world.sdk.do("result", job_id=early, timeout_ms=30_000)["value"] == [1, None]

    def awaited() -> object:
        return world.server.call("GET", f"/v1/jobs/{late}").get("awaited_signal")

    until("the handler waits", lambda: awaited() == "approved")
    world.sdk.do("signal", job_id=late, name="approved", payload={"by": "kim"})
    world.sdk.do("signal", job_id=late, name="approved", payload={"by": "kim"})
    with pytest.raises(Refused) as refused:
        world.sdk.do("signal", job_id=late, name="approved", payload={"by": "lee"})
    assert refused.value.error_class == "ConflictError"
    assert world.sdk.do("result", job_id=late, timeout_ms=30_000)["value"] == {"by": "kim"}
    assert world.sdk.do("status", job_id=late)["attempt"] == 1, "a wait is no attempt"


def test_a_step_adds_steps_to_its_workflow(world: World) -> None:
    world.work()
    steps = [{"id": "plan", "type": "plan", "args": {"queue": world.queue, "names": ["a", "b"]}, "queue": world.queue}]
    workflow_id = world.sdk.do("workflow", name="planned", steps=steps)["job_id"]
    assert_ends_well(world, workflow_id)
    assert parents_of_last_step(world, workflow_id) == {"a": "a", "b": "b"}


def assert_ends_well(world: World, workflow_id: str) -> None:
    def state() -> str:
        found: str = world.sdk.do("workflow_status", workflow_id=workflow_id)["state"]
        return found

    until("the workflow ends", lambda: state() != "RUNNING")
    assert state() == "SUCCEEDED"


def parents_of_last_step(world: World, workflow_id: str) -> object:
    last = world.server.call("GET", f"/v1/workflows/{workflow_id}")["steps"][-1]
    return world.sdk.result(last["job_id"])


def test_a_schedule_ticks_until_it_is_removed(world: World) -> None:
    world.work()
    name = f"tick-{world.setting.language}-{world.queue}"
    world.sdk.do("schedule", name=name, cron="* * * * * *", type="echo", args={"tick": True}, queue=world.queue)
    until("it ticked twice", lambda: [line.phase for line in world.sdk.lines()].count("end") >= 2, timeout_s=10)
    world.sdk.do("unschedule", name=name)
    names = [schedule["name"] for schedule in world.server.call("GET", "/v1/schedules")["schedules"]]
    assert name not in names
    job_id = world.sdk.lines()[0].job_id
    assert world.sdk.result(job_id) == {"tick": True}


def test_steps_that_are_recorded_are_not_done_again(world: World) -> None:
    world.work()
    job_id = world.sdk.submit("steps", queue=world.queue)
    assert world.sdk.result(job_id) == [1, 2]
    steps = [phase for phase in world.sdk.phases(job_id) if phase.startswith("step")]
    assert steps == ["step-a 1", "step-b 2"]


def test_a_worker_that_stops_finishes_what_it_has(world: World) -> None:
    world.work(concurrency=2)
    running = world.sdk.submit("sleep", {"ms": 700}, queue=world.queue)
    until("it runs", lambda: world.sdk.phases(running) == ["begin 1"])
    world.sdk.do("stop_worker")
    assert world.sdk.phases(running) == ["begin 1", "end 1"]
    assert world.server.job(running)["state"] == "SUCCEEDED"
    waiting = world.sdk.submit("echo", 1, queue=world.queue)
    assert world.server.job(waiting)["state"] == "QUEUED"
    world.work()
    assert world.sdk.result(waiting) == 1


def test_a_worker_that_dies_is_replaced(world: World) -> None:
    doomed = world.another()
    world.work(doomed, lease_ms=1500)
    job_id = world.sdk.submit("crash", queue=world.queue)
    doomed.process.wait(30)
    assert doomed.process.returncode != 0
    world.work(lease_ms=1500)
    assert world.sdk.result(job_id) == "survived"
    begun = [line.attempt for line in world.sdk.lines(job_id) if line.phase == "begin"]
    assert begun == [1, 2]
