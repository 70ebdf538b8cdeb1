"""The adapter of the scenario suite: verbs as lines of JSON on standard input, answers on standard output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import forgerun
from forgerun import AsyncClient, AsyncContext, AsyncJob, Context, Fatal, NewJob, RetryLater, Worker
from forgerun.job import RESULT_TIMEOUT

LOG = os.environ["FORGERUN_SCENARIO_LOG"]
CLASSES = (
    "JobFailed JobTimedOut JobCancelled ValidationError ConflictError AuthError ResourceError ExecutionError BackendError"
    " UnknownError ForgeRunError TimeoutError"
).split()


def note(ctx: Context | AsyncContext, phase: str) -> None:
    line = f"{ctx.job.type} {ctx.job.id} {ctx.job.attempt} {phase}\n"
    file = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


@contextmanager
def noted(ctx: Context | AsyncContext) -> Iterator[None]:
    note(ctx, "begin")
    try:
        yield
    except asyncio.CancelledError:
        note(ctx, "cancelled")
        raise
    except BaseException:
        note(ctx, "end")
        raise
    note(ctx, "end")


def add_handlers(worker: Worker) -> None:
    @worker.job("echo")
    def echo(ctx: Context, value: Any) -> Any:
        with noted(ctx):
            return value

    @worker.job("add")
    async def add(ctx: AsyncContext, numbers: list[float]) -> float:
        with noted(ctx):
            return sum(numbers)

    @worker.job("fail")
    def fail(ctx: Context, value: dict[str, Any]) -> None:
        with noted(ctx):
            if value.get("retryable") is False:
                raise Fatal(value["message"])
            raise RuntimeError(value["message"])

    @worker.job("flaky")
    async def flaky(ctx: AsyncContext, value: dict[str, int]) -> int:
        with noted(ctx):
            if ctx.job.attempt <= value["failures"]:
                raise RuntimeError(f"attempt {ctx.job.attempt} fails")
            return ctx.job.attempt

    @worker.job("progress")
    def progress(ctx: Context, _: Any) -> str:
        with noted(ctx):
            for percent in (10, 50, 90):
                ctx.progress(percent)
            return "done"

    @worker.job("sleep")
    async def sleep(ctx: AsyncContext, value: dict[str, int]) -> str:
        with noted(ctx):
            await asyncio.sleep(value["ms"] / 1000)
            return "slept"

    @worker.job("say")
    def say(ctx: Context, texts: list[str]) -> None:
        with noted(ctx):
            for text in texts:
                ctx.log(text)

    @worker.job("parents")
    def parents(ctx: Context, _: Any) -> Any:
        with noted(ctx):
            return ctx.parents

    @worker.job("steps")
    def steps(ctx: Context, _: Any) -> list[int]:
        def step(name: str, result: int) -> int:
            note(ctx, f"step-{name}")
            return result

        with noted(ctx):
            a = ctx.step("a", lambda: step("a", 1))
            if ctx.job.attempt == 1:
                raise RuntimeError("between the steps")
            return [a, ctx.step("b", lambda: step("b", 2))]

    @worker.job("ask")
    async def ask(ctx: AsyncContext, _: Any) -> Any:
        return await ctx.wait_for("approved", timeout=600)

    @worker.job("plan")
    def plan(ctx: Context, plan: dict[str, Any]) -> None:
        queue, names = plan["queue"], plan["names"]
        steps = [forgerun.step("echo", name, id=name, queue=queue, depends_on=["plan"]) for name in names]
        ctx.add_steps(*steps, forgerun.step("parents", id="last", queue=queue, depends_on=names))

    @worker.job("crash")
    def crash(ctx: Context, _: Any) -> str:
        with noted(ctx):
            if ctx.job.attempt == 1:
                os._exit(1)
            return "survived"

    @worker.job("later")
    async def later(ctx: AsyncContext, _: Any) -> str:
        with noted(ctx):
            if ctx.job.attempt == 1:
                raise RetryLater(0.2)
            return "done"


def new_job(request: dict[str, Any]) -> NewJob:
    options = dict(request.get("options") or {})
    if "delay_ms" in options:
        options["delay"] = options.pop("delay_ms") / 1000
    if "timeout_ms" in options:
        options["timeout"] = options.pop("timeout_ms") / 1000
    return NewJob(request["type"], request.get("args"), request.get("queue"), **options)


def new_step(request: dict[str, Any]) -> forgerun.Step | forgerun.Wait:
    place = {"id": request.get("id"), "depends_on": request.get("depends_on") or ()}
    if "wait" in request:
        return forgerun.wait(**request["wait"], **place)
    if "for_each" in request:
        each = {**request["for_each"], "args": request["args"], "queue": request.get("queue")}
        return forgerun.for_each(request["type"], **each, **place)
    return forgerun.Step(new_job(request), request.get("id"), request.get("depends_on") or ())


class Adapter:
    def __init__(self, client: AsyncClient) -> None:
        self.client = client
        self.worker: Worker | None = None
        self.working: asyncio.Task[Any] | None = None

    async def answer(self, request: dict[str, Any]) -> None:
        try:
            answer = {"ok": await getattr(self, f"do_{request['do']}")(request)}
        except Exception as error:
            kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__name__ in CLASSES]
            answer = {
                "error": {
                    "class": kinds[0] if kinds else type(error).__name__,
                    "code": getattr(error, "code", ""),
                    "message": getattr(error, "message", str(error)),
                    "retryable": getattr(error, "retryable", False),
                }
            }
        print(json.dumps({"id": request["id"], **answer}), flush=True)

    def job(self, request: dict[str, Any]) -> AsyncJob:
        return self.client.job(request["job_id"])

    async def do_submit(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"job_id": (await self.client.submit_job(new_job(request))).id}

    async def do_submit_many(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"job_ids": [job.id for job in await self.client.submit_many(map(new_job, request["jobs"]))]}

    async def do_result(self, request: dict[str, Any]) -> dict[str, Any]:
        timeout = request.get("timeout_ms", RESULT_TIMEOUT * 1000) / 1000
        return {"value": await self.job(request).result(timeout)}

    async def do_status(self, request: dict[str, Any]) -> dict[str, Any]:
        status = await self.job(request).status()
        return {"state": status.state, "attempt": status.attempt, "progress": status.progress}

    async def do_cancel(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"state": (await self.job(request).cancel()).state}

    async def do_retry(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"state": (await self.job(request).retry()).state}

    async def do_events(self, request: dict[str, Any]) -> dict[str, Any]:
        async def follow() -> list[dict[str, str]]:
            return [{"id": event.id, "name": event.name} async for event in self.job(request).events()]

        return {"events": await asyncio.wait_for(follow(), request["timeout_ms"] / 1000)}

    async def do_workflow(self, request: dict[str, Any]) -> dict[str, Any]:
        if "chain" in request:
            workflow = forgerun.chain(*map(new_step, request["chain"]), name=request.get("name"))
        else:
            workflow = forgerun.workflow(*map(new_step, request["steps"]), name=request.get("name"))
        return {"job_id": (await self.client.submit_workflow(workflow)).id}

    async def do_signal(self, request: dict[str, Any]) -> dict[str, Any]:
        if "job_id" in request:
            await self.job(request).signal(request["name"], request["payload"])
        else:
            await self.client.signal(request["workflow_id"], request["name"], request["payload"])
        return {}

    async def do_logs(self, request: dict[str, Any]) -> dict[str, Any]:
        lines = self.job(request).logs(follow=request["follow"])
        return {"lines": [{"seq": line.seq, "text": line.text} async for line in lines]}

    async def do_workflow_status(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"state": (await self.client.workflow(request["workflow_id"]))["state"]}

    async def do_schedule(self, request: dict[str, Any]) -> dict[str, Any]:
        job = (request["type"], request.get("args"))
        await self.client.schedule(request["name"], request["cron"], *job, queue=request.get("queue"))
        return {}

    async def do_unschedule(self, request: dict[str, Any]) -> dict[str, Any]:
        await self.client.unschedule(request["name"])
        return {}

    async def do_worker(self, request: dict[str, Any]) -> dict[str, Any]:
        await self.do_stop_worker(request)
        lease = request.get("lease_ms", 30_000) / 1000
        self.worker = Worker(queues=request["queues"], concurrency=request.get("concurrency", 4), lease=lease)
        add_handlers(self.worker)
        self.working = asyncio.create_task(self.worker.run_async())
        return {}

    async def do_stop_worker(self, _: dict[str, Any]) -> dict[str, Any]:
        if self.worker is not None and self.working is not None:
            await asyncio.sleep(0)  # The worker has begun.
            self.worker.stop()
            await self.working
        self.worker = self.working = None
        return {}


async def main() -> None:
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str] = asyncio.Queue()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")

    threading.Thread(target=read, daemon=True).start()
    async with AsyncClient() as client:
        adapter = Adapter(client)
        answering = set()
        while line := await lines.get():
            task = asyncio.create_task(adapter.answer(json.loads(line)))
            answering.add(task)
            task.add_done_callback(answering.discard)
        await adapter.do_stop_worker({})
        for task in answering:
            task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
