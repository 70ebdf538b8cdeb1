"""Whole jobs per second by one worker process with no-op handlers, beside Celery.

    FORGERUN_BIN=target/release/forgerun python sdk/python/bench/throughput.py [--jobs 20000] [--celery]

The server keeps its jobs in SQLite in a temporary folder, with fsync. All jobs wait before the worker starts; the time runs from the
first handler to the last end that the server has made durable. `--celery` needs the packages `celery` and `redis`, and `redis-server`.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "src"))

import forgerun

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process and its children that ended have used."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def cpu_of_tree(pid: int) -> float:
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return cpu_of(pid) + sum(cpu_of_tree(int(child)) for child in children)


@contextmanager
def server() -> Iterator[tuple[str, int]]:
    binary = os.environ.get("FORGERUN_BIN") or shutil.which("forgerun") or sys.exit("set FORGERUN_BIN")
    with tempfile.TemporaryDirectory() as folder:
        command = [binary, "serve", "--listen", "127.0.0.1:0", "--data", folder]
        limits = {"FORGERUN_LIMITS__RATE_PER_MINUTE": "0", "FORGERUN_LIMITS__QUEUE_SIZE": "1000000"}
        environ = {name: value for name, value in os.environ.items() if not name.startswith("FORGERUN_")}
        environ |= {"FORGERUN_AUTH__MODE": "open", **limits}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environ
        ) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                yield line.split(" listening on ")[1].strip(), process.pid
            finally:
                process.terminate()


def work(url: str, kind: str, concurrency: int, n_jobs: int) -> None:
    """The worker process."""
    worker = forgerun.Worker(url, queues=["bench"], concurrency=concurrency)
    n_done, began, cpu = 0, 0.0, 0.0

    def count() -> None:
        nonlocal n_done, began, cpu
        if n_done == 0:
            began, cpu = time.monotonic(), time.process_time()
        n_done += 1
        if n_done == n_jobs:
            worker.stop()

    if kind == "async":

        @worker.job("noop")
        async def noop(_: object) -> None:
            count()

    else:

        @worker.job("noop")
        def noop_on_a_thread(_: object) -> None:
            count()

    stopped = worker.run()
    print(stopped.succeeded, time.monotonic() - began, time.process_time() - cpu)


def forgerun_run(kind: str, concurrency: int, n_jobs: int) -> None:
    with server() as (url, server_pid):
        client = forgerun.Client(url)
        client.submit_many(forgerun.NewJob("noop", {"n": n}, queue="bench") for n in range(n_jobs))
        used = cpu_of(server_pid)
        command = [sys.executable, __file__, "--work", kind, "--url", url]
        command += ["--concurrency", str(concurrency), "--jobs", str(n_jobs)]
        n_done, took, cpu = map(float, subprocess.check_output(command, text=True).split())
        used = cpu_of(server_pid) - used
    report(f"forgerun, {kind} handlers, concurrency {concurrency}", n_done, took, cpu, used)


def report(name: str, n_jobs: float, took: float, cpu: float, server_cpu: float) -> None:
    each = 1e6 / n_jobs
    print(
        f"{name}: {n_jobs / took:,.0f} jobs/s; CPU per job: worker {cpu * each:.0f} us, server {server_cpu * each:.0f} us",
        flush=True,
    )


TASKS = """
import celery
app = celery.Celery("tasks", broker="redis://127.0.0.1:{port}/0", backend="redis://127.0.0.1:{port}/1")
app.conf.broker_connection_retry_on_startup = True
@app.task
def noop(x):
    return None
"""


def celery_run(n_jobs: int) -> None:
    import socket

    import redis

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "tasks.py").write_text(TASKS.format(port=port))
        redis_command = ["redis-server", "--port", str(port), "--save", "", "--dir", folder]
        store = subprocess.Popen(redis_command, stdout=subprocess.DEVNULL)
        broker = redis.Redis(port=port)
        try:
            wait_until(lambda: ping(broker))
            sys.path.insert(0, folder)
            import tasks  # type: ignore[import-not-found]

            for n in range(n_jobs):
                tasks.noop.delay({"n": n})
            used = cpu_of(store.pid)
            worker_command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--loglevel", "ERROR"]
            worker = subprocess.Popen(worker_command, cwd=folder, stdout=subprocess.DEVNULL)
            try:
                results = redis.Redis(port=port, db=1)
                wait_until(lambda: results.dbsize() > 0)
                began, cpu = time.monotonic(), cpu_of_tree(worker.pid)
                wait_until(lambda: results.dbsize() >= n_jobs)
                took, cpu = time.monotonic() - began, cpu_of_tree(worker.pid) - cpu
                report("celery, prefork, redis without fsync", n_jobs, took, cpu, cpu_of(store.pid) - used)
            finally:
                worker.terminate()
                worker.wait()
        finally:
            store.terminate()
            store.wait()


def ping(broker: object) -> bool:
    try:
        return bool(broker.ping())  # type: ignore[attr-defined]
    except OSError:
        return False
    except Exception as error:
        if type(error).__module__.startswith("redis"):
            return False
        raise


def wait_until(condition: object, timeout: float = 300.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            sys.exit("it took too long")
        time.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--celery", action="store_true")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.url, given.work, given.concurrency, given.jobs)
        return
    for kind in ("async", "sync"):
        forgerun_run(kind, given.concurrency, given.jobs)
    if given.celery:
        celery_run(given.jobs)


if __name__ == "__main__":
    main()
