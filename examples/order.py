#!/usr/bin/env python3
"""An order as a workflow, with compensation: reserve, charge and ship, each after the other; if one fails, undo what was done.

    FORGERUN_URL=http://127.0.0.1:8080 FORGERUN_API_KEY=frk_... python3 examples/order.py           # all goes well
    FORGERUN_URL=http://127.0.0.1:8080 FORGERUN_API_KEY=frk_... python3 examples/order.py declined  # the card is declined; "unshippable" fails later

It begins one workflow, works on its steps until it has ended, and prints what was done and how it ended.
"""
import json, os, sys, urllib.request

URL, KEY = os.environ.get("FORGERUN_URL", "http://127.0.0.1:8080"), os.environ.get("FORGERUN_API_KEY")
QUEUE = "orders"

def call(path, body=None):
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {KEY}"} if KEY else {})}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{URL}/ojs/v1/{path}", data, headers), timeout=60) as answer:
        return json.load(answer)

def job(name, order):
    # One attempt is enough for an example; in earnest, leave the retries to the server.
    return {"type": f"order.{name}", "args": [order], "options": {"queue": QUEUE, "retry": {"max_attempts": 1}}}

def workflow(order):
    return {"name": f"order-{order['number']}", "failure_policy": "compensate", "steps": [
        {"id": "reserve", **job("reserve", order), "compensate": job("release", order)},
        {"id": "charge", **job("charge", order), "depends_on": ["reserve"], "compensate": job("refund", order)},
        {"id": "ship", **job("ship", order), "depends_on": ["charge"]},
    ]}

def reserve(order, parents):
    return {"reservation": f"r-{order['number']}"}

def charge(order, parents):
    if order["card"] == "declined":
        raise ValueError("the card was declined")
    return {"payment": f"p-{order['number']}"}

def ship(order, parents):
    if order["card"] == "unshippable":
        raise ValueError("the parcel was refused")
    return {"parcel": f"parcel-{order['number']}", "paid": parents[0]["payment"]}

# A compensation is handed the result of the step that it undoes.
def release(order, parents):
    return {"released": parents[0]["reservation"]}

def refund(order, parents):
    return {"refunded": parents[0]["payment"]}

HANDLERS = {f"order.{handler.__name__}": handler for handler in (reserve, charge, ship, release, refund)}

def work(job):
    held = {"job_id": job["id"], "lease_token": job["lease_token"]}
    try:
        result = HANDLERS[job["type"]](*job["args"], job["parent_results"])
        print(f"{job['type']}: {json.dumps(result)}", flush=True)
        call("workers/ack", {**held, "result": result})
    except ValueError as error:
        print(f"{job['type']}: {error}", flush=True)
        call("workers/nack", {**held, "error": {"code": "handler_error", "message": str(error), "retryable": False}})

card = sys.argv[1] if len(sys.argv) > 1 else "good"
begun = call("workflows", workflow({"number": 4711, "card": card}))
while call(f"workflows/{begun['id']}")["state"] == "running":
    for job in call("workers/fetch", {"queues": [QUEUE], "worker_id": "order-example", "wait_ms": 2_000})["jobs"]:
        work(job)
ended = call(f"workflows/{begun['id']}")
print(f"{ended['name']}: {ended['state']}, " + ", ".join(f"{step['id']} {step['state']}" for step in ended["steps"]))
