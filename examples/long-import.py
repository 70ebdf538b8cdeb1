#!/usr/bin/env python3
"""A long import with durable steps, whose worker is killed three times: no batch that was recorded is imported again.

    pip install forgerun
    FORGERUN_URL=http://127.0.0.1:8080 FORGERUN_API_KEY=frk_... python3 examples/long-import.py

It submits one job and starts a worker, which it kills like a crash after 5, 10 and 15 batches, and starts again. The server gives the job to the
new worker when the lease of the dead one is over. At the end it prints how often each batch was imported.
"""
import os, subprocess, sys, tempfile, time
from collections import Counter
from forgerun import Client, Context, Worker

BATCHES = 20

def work(folder: str) -> None:
    worker = Worker(queues=["imports"], concurrency=1, lease=1)

    @worker.job("rows.import")
    def import_rows(ctx: Context, n_batches: int) -> dict:
        imported = 0
        for batch in range(n_batches):
            # Recorded with the job: the next attempt is given the result instead of importing the batch again.
            imported += ctx.step(f"batch-{batch}", lambda batch=batch: import_batch(folder, batch))
            ctx.progress(100 * (batch + 1) // n_batches)
        return {"rows": imported, "attempt": ctx.job.attempt}

    worker.run()

def import_batch(folder: str, batch: int) -> int:
    """A step runs at least once: a worker that dies before the record runs it again. So it bears a repetition."""
    time.sleep(0.02)
    with open(os.path.join(folder, "imported"), "a") as log:
        log.write(f"{batch}\n")
    return 1000

def imported(folder: str) -> list:
    try:
        with open(os.path.join(folder, "imported")) as log:
            return log.read().split()
    except FileNotFoundError:
        return []

def main() -> None:
    client = Client()
    with tempfile.TemporaryDirectory() as folder:
        job = client.submit("rows.import", BATCHES, queue="imports", max_retries=5)
        start = lambda: subprocess.Popen([sys.executable, __file__, "work", folder])
        worker = start()
        try:
            for n_batches in (5, 10, 15):
                while len(set(imported(folder))) < n_batches:
                    time.sleep(0.005)
                worker.kill()
                worker.wait()
                print(f"killed the worker after {n_batches} batches", flush=True)
                worker = start()
            result = job.result(timeout=120)
        finally:
            worker.terminate()
            worker.wait()
        runs = Counter(imported(folder))
        print(f"{result['rows']} rows in attempt {result['attempt']}; {len(runs)} batches, {sum(n > 1 for n in runs.values())} of them twice", flush=True)

if len(sys.argv) > 2 and sys.argv[1] == "work":
    work(sys.argv[2])
else:
    main()
