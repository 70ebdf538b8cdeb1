"""What users have for their own tests."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

import forgerun
from forgerun import AsyncContext, Context, LogLine, NewJob, SignalTimeout, Worker, chain, step, wait
from forgerun.testing import DevServer, FakeClient, assert_submitted, find_binary, run_inline


def test_a_fake_client_records_what_is_submitted() -> None:
    client = FakeClient()
    job = client.submit("mail", {"to": "ada"}, queue="mails", max_retries=1)
    client.submit_many([NewJob("mail", {"to": "bob"}), NewJob("other")])
    client.submit_workflow(chain(step("mail", 1), name="flow"))
    assert assert_submitted(client, "mail", {"to": "ada"}, queue="mails", max_retries=1) == [job]
    assert len(assert_submitted(client, "mail", times=2)) == 2
    assert_submitted(client, "never", times=0)
    assert client.workflows[0].name == "flow"
    assert client.job(job.id) is job
    with pytest.raises(forgerun.ResourceError):
        client.job("7")


def test_a_fake_client_knows_signals_pauses_and_logs() -> None:
    client = FakeClient()
    flow = client.submit_workflow(chain(wait(signal="approved", timeout="1d")))
    client.signal(flow.id, "approved", {"by": "kim"})
    assert client.signals == [(flow.id, "approved", {"by": "kim"})]
    assert client.pause_workflow(flow.id)["paused"] and not client.resume_workflow(flow.id)["paused"]
    with pytest.raises(forgerun.ResourceError):
        client.signal("7", "approved")
    job = client.submit("mail")
    assert job.pause().is_paused and not job.resume().is_paused
    now = datetime.now(timezone.utc)
    job.log += [LogLine(now, "info", "log", "a", 1, 1), LogLine(now, "info", "output", "b", 2, 1)]
    assert [line.text for line in job.logs(after=1)] == ["b"]
    assert [line.text for line in job.logs(stream="log")] == ["a"]
    job.succeed()
    with pytest.raises(forgerun.ValidationError):
        job.pause()


@pytest.mark.parametrize(
    ("type", "args", "options"),
    [
        ("mail", {"to": "bob"}, {}),
        ("mail", {"to": "ada"}, {"queue": "q"}),
        ("mail", {"to": "ada"}, {"times": 2}),
        ("other", {"to": "ada"}, {}),
        ("mail", {"to": "ada"}, {"times": 0}),
    ],
)
def test_an_assertion_that_does_not_hold_says_what_was_submitted(type: str, args: Any, options: dict[str, Any]) -> None:
    client = FakeClient()
    client.submit("mail", {"to": "ada"})
    with pytest.raises(AssertionError, match="submitted:\n  NewJob.type='mail', args={'to': 'ada'}"):
        assert_submitted(client, type, args, **options)


def test_fake_jobs_end_as_the_test_says() -> None:
    client = FakeClient()
    client.results["sum"] = 3
    assert client.submit("sum", [1, 2]).result() == 3
    job = client.submit("mail")
    assert job.status().state == "QUEUED"
    with pytest.raises(TimeoutError):
        job.result(1)
    job.fail("no paper")
    with pytest.raises(forgerun.JobFailed, match="no paper"):
        job.result()
    assert job.retry().state == "QUEUED"
    job.succeed({"a": 1})
    assert job.result() == {"a": 1}
    assert job.cancel().state == "SUCCEEDED", "a job that has ended stays as it is"
    with pytest.raises(forgerun.ValidationError):
        job.retry()
    cancelled = client.submit("mail")
    cancelled.cancel()
    with pytest.raises(forgerun.JobCancelled):
        cancelled.result()


def test_the_same_key_is_the_same_fake_job() -> None:
    client = FakeClient()
    assert client.submit("t", idempotency_key="k") is client.submit("t", idempotency_key="k")
    assert client.submit("t") is not client.submit("t")


def worker() -> Worker:
    worker = Worker(queues=["q"])

    @worker.job("sync")
    def sync(ctx: Context, value: int) -> list[Any]:
        ctx.progress(50, "half")
        return [value, ctx.job.attempt, ctx.parents, ctx.cancelled, ctx.step("a", lambda: "done")]

    @worker.job("async")
    async def both(ctx: AsyncContext, value: int) -> list[Any]:
        await ctx.progress(50, "half")
        return [value, ctx.job.attempt, ctx.parents, ctx.cancelled, await ctx.step("a", lambda: "done")]

    @worker.job("fail")
    def fail(_: object) -> None:
        raise forgerun.Fatal("never")

    return worker


@pytest.mark.parametrize("type", ["sync", "async"])
def test_handlers_run_without_a_server(type: str) -> None:
    ran = run_inline(worker(), type, 7, attempt=2, parents={"p": 1}, cancelled=True)
    assert ran.result == [7, 2, {"p": 1}, True, "done"]
    assert (ran.progress, ran.steps) == ([(50, "half")], {"a": "done"})
    recorded = run_inline(worker(), type, 7, steps={"a": "before"})
    assert recorded.result == [7, 1, {}, False, "before"]


def test_exceptions_of_inline_handlers_are_raised() -> None:
    with pytest.raises(forgerun.Fatal, match="never"):
        run_inline(worker(), "fail")
    with pytest.raises(LookupError, match="no handler for jobs of type missing"):
        run_inline(worker(), "missing")


def test_a_server_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="there is no such key"):
        DevServer(env={"FORGERUN_NO__SUCH": "1"}).start()
    monkeypatch.delenv("FORGERUN_BIN", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("sysconfig.get_path", lambda name: "/nowhere")
    with pytest.raises(RuntimeError, match="set FORGERUN_BIN"):
        find_binary()


def test_signals_and_added_steps_of_a_handler_need_no_server() -> None:
    worker = Worker()

    @worker.job("ask")
    def ask(ctx: Context, timeout: float | None) -> object:
        ctx.add_steps(forgerun.step("ship", id="ship"))
        return ctx.wait_for("approved", timeout=timeout)

    ran = run_inline(worker, "ask", None, signals={"approved": {"by": "kim"}})
    assert ran.result == {"by": "kim"}
    assert [added.id for added in ran.added] == ["ship"]
    with pytest.raises(SignalTimeout):
        run_inline(worker, "ask", 60)
    with pytest.raises(LookupError):
        run_inline(worker, "ask", None)


def test_logs_and_sleeps_of_a_handler_are_recorded_and_nothing_waits() -> None:
    worker = Worker()

    @worker.job("sync")
    def sync(ctx: Context, _: object) -> None:
        ctx.log("begins", level="debug")
        ctx.sleep(3600)
        ctx.log({"n": 1}, stream="output")

    @worker.job("async")
    async def both(ctx: AsyncContext, _: object) -> None:
        ctx.log("begins", level="debug")
        await ctx.sleep(3600)
        ctx.log({"n": 1}, stream="output")

    for kind in ("sync", "async"):
        ran = run_inline(worker, kind)
        assert [(line.level, line.stream, line.text) for line in ran.logs] == [
            ("debug", "log", "begins"),
            ("info", "output", "{'n': 1}"),
        ]
        assert [round(seconds) for seconds in ran.sleeps] == [3600]
        assert list(ran.steps) == ["sleep:1"]
