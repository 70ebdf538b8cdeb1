#!/usr/bin/env python3
"""An order as a workflow, with compensation: reserve, charge and ship, each after the other; if one fails, undo what was done.

    FORGERUN_URL=http://127.0.0.1:8080 FORGERUN_API_KEY=frk_... python3 examples/order.py           # all goes well
    FORGERUN_URL=http://127.0.0.1:8080 FORGERUN_API_KEY=frk_... python3 examples/order.py declined  # the card is declined

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

def step(name, order, **rest):
    # One attempt is enough for an example; in earnest, leave the retries to the server.
    return {"id": name, "type": f"order.{name}", "args": [order], "options": {"queue": QUEUE, "retry": {"max_attempts": 1}}, **rest}

def workflow(order):
    return {"name": f"order-{order['number']}", "steps": [
        step("reserve", order),
        step("charge", order, depends_on=["reserve"]),
        step("ship", order, depends_on=["charge"]),
        # Has its turn once all three are over, if one of them did not succeed.
        step("undo", order, depends_on=["reserve", "charge", "ship"], when="any_failed"),
    ]}

def reserve(order, parents):
    return {"reservation": f"r-{order['number']}"}

def charge(order, parents):
    if order["card"] == "declined":
        raise ValueError("the card was declined")
    return {"payment": f"p-{order['number']}"}

def ship(order, parents):
    return {"parcel": f"parcel-{order['number']}", "paid": parents[0]["payment"]}

def undo(order, parents):
    # What the steps left is what there is to undo; a step that failed, or never began, left nothing.
    return {"undone": [made for result in parents if result for made in result.values()]}

HANDLERS = {"order.reserve": reserve, "order.charge": charge, "order.ship": ship, "order.undo": undo}

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
