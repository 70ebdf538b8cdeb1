#!/usr/bin/env python3
"""An order that a person approves: reserve, ask, ship; if the answer is no, or nobody answers for two days, the reservation is released.

    pip install forgerun
    FORGERUN_URL=http://127.0.0.1:8080 FORGERUN_API_KEY=frk_... python3 examples/approval.py

It begins one workflow, prints the address of a page where a person answers, works on the steps until the workflow has ended, and prints
how. Meanwhile the program may be stopped: the wait needs no worker. `forgerun workflows signal ID approved --payload '{"ok": true}'` answers, too.
"""
import threading, time
from urllib.parse import urljoin
from forgerun import Client, Context, Fatal, Worker, step, wait, workflow

client, worker = Client(), Worker(queues=["approvals"])
QUESTION = {
    "title": "Ship order 4711?", "description": "Three anvils to ACME, 1,200 EUR.", "type": "object", "required": ["ok"],
    "properties": {"ok": {"type": "boolean", "title": "Ship it"}, "by": {"type": "string", "title": "Your name"}},
}

@worker.job("stock.reserve")
def reserve(order: int) -> dict:
    print(f"reserved for order {order}", flush=True)
    return {"reservation": f"r-{order}"}

@worker.job("stock.release")
def release(ctx: Context, order: int) -> None:  # a compensation is handed the result of the step that it undoes
    print(f"released {ctx.parents['reserve']['reservation']}", flush=True)

@worker.job("order.ship")
def ship(ctx: Context, order: int) -> dict:
    answer = ctx.parents["ask"]
    if not answer["ok"]:
        raise Fatal(f"{answer.get('by', 'somebody')} said no")
    print(f"shipped order {order}, approved by {answer.get('by', 'somebody')}", flush=True)
    return {"parcel": f"parcel-{order}"}

def follow() -> None:
    options = {"queue": "approvals", "max_retries": 0}
    order = client.submit_workflow(workflow(
        step("stock.reserve", 4711, id="reserve", compensate=step("stock.release", 4711, **options), **options),
        wait(signal="approved", timeout="2d", schema=QUESTION, id="ask", depends_on=["reserve"]),
        step("order.ship", 4711, id="ship", depends_on=["ask", "reserve"], **options),
        name="order-4711", failure_policy="compensate",
    ))
    while (asked := client.workflow(order.id)["steps"][1]["wait"]).get("url") is None:
        time.sleep(0.05)
    print(f"{order.id} waits for an answer at {urljoin(client.url, asked['url'])}", flush=True)
    order.wait(3 * 86_400)
    ended = client.workflow(order.id)
    print(f"{ended['name']}: {ended['state']}, " + ", ".join(f"{part['id']} {part['state']}" for part in ended["steps"]), flush=True)
    worker.stop()

threading.Thread(target=follow, daemon=True).start()
worker.run()
