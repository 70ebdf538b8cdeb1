#!/usr/bin/env python3
"""A worker in Python, with nothing but the standard library: takes jobs of the queue `default` and does them.

    FORGERUN_URL=http://127.0.0.1:8080 FORGERUN_API_KEY=frk_... python3 examples/worker.py
"""
import json, os, socket, threading, urllib.request

URL, KEY = os.environ.get("FORGERUN_URL", "http://127.0.0.1:8080"), os.environ.get("FORGERUN_API_KEY")
NAME = f"{socket.gethostname()}-{os.getpid()}"

def call(path, body):
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {KEY}"} if KEY else {})}
    request = urllib.request.Request(f"{URL}/ojs/v1/workers/{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)

HANDLERS = {"text.upper": lambda text: {"text": text.upper()}}  # job type: what to do with its args

def work(job):
    held = {"job_id": job["id"], "lease_token": job["lease_token"]}
    done = threading.Event()  # while the handler runs, a heartbeat every ten seconds keeps the job ours
    beat = {"worker_id": NAME, "active_jobs": [job["id"]], "lease_tokens": {job["id"]: job["lease_token"]}}
    alive = lambda: all(call("heartbeat", beat) for _ in iter(lambda: done.wait(10), True))
    threading.Thread(target=alive, daemon=True).start()
    try:
        said = "ack", {**held, "result": HANDLERS[job["type"]](*job["args"])}
    except Exception as error:
        said = "nack", {**held, "error": {"code": "handler_error", "type": type(error).__name__, "message": str(error)}}
    done.set()
    call(*said)

while True:  # a fetch waits up to twenty seconds for work
    for job in call("fetch", {"queues": ["default"], "worker_id": NAME, "wait_ms": 20_000, "visibility_timeout_ms": 30_000})["jobs"]:
        work(job)
