#!/usr/bin/env python3
"""A report that fans out over a list: find the branches, count the sales of each, many at once, and add them up.

    pip install forgerun
    FORGERUN_URL=http://127.0.0.1:8080 FORGERUN_API_KEY=frk_... python3 examples/fan-out.py 200

How many branches there are is known only when the first step has run. Start further workers with `python3 examples/fan-out.py work`, on any machine:
the server gives each of them as many branches as it can take.
"""
import sys, threading
from forgerun import Client, Context, Worker, for_each, step, workflow

client, worker = Client(), Worker(queues=["reports"], concurrency=32)

@worker.job("branches.list")
def branches(n: int) -> dict:
    return {"branches": [{"id": f"b{number}", "tills": number % 4 + 1} for number in range(n)]}

@worker.job("branch.count")
def count(branch: dict) -> dict:
    return {"branch": branch["id"], "sales": 100 * branch["tills"]}

@worker.job("report.make")
def report(ctx: Context, title: str) -> dict:
    counted = ctx.parents["count"]  # the results of all branches, in the order of the list
    best = max(counted, key=lambda branch: branch["sales"])
    return {"title": title, "branches": len(counted), "sales": sum(branch["sales"] for branch in counted), "best": best["branch"]}

def follow(n: int) -> None:
    begun = client.submit_workflow(workflow(
        step("branches.list", n, id="list", queue="reports"),
        for_each("branch.count", over="list", pointer="/branches", parallel=50, id="count", queue="reports"),
        step("report.make", "Sales", id="report", depends_on=["count"], queue="reports"),
        name="sales", deadline="1h",
    ))
    begun.wait()
    print(client.job(client.workflow(begun.id)["steps"][-1]["job_id"]).result(), flush=True)
    worker.stop()

argument = sys.argv[1] if len(sys.argv) > 1 else "40"
if argument != "work":
    threading.Thread(target=follow, args=(int(argument),), daemon=True).start()
worker.run()
