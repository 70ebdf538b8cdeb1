#!/usr/bin/env python3
"""A worker in Python, with nothing but the standard library: takes jobs of the queue `default` and does them.

    FORGERUN_URL=http://127.0.0.1:8080 FORGERUN_API_KEY=frk_... python3 examples/worker.py
"""
import json, os, signal, socket, sys, threading, urllib.error, urllib.request

URL, KEY = os.environ.get("FORGERUN_URL", "http://127.0.0.1:8080"), os.environ.get("FORGERUN_API_KEY")
NAME = f"{socket.gethostname()}-{os.getpid()}"
stopping = threading.Event()

def call(path, body):
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {KEY}"} if KEY else {})}
    request = urllib.request.Request(f"{URL}/ojs/v1/workers/{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)

def insist(path, body, tries=10):
    """Calls until the server has answered. One that is away or busy is asked again, less and less often."""
    for n in range(tries):
        try:
            return call(path, body)
        except (OSError, ValueError) as error:
            if isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code != 429:
                raise  # it does not want this, now or later
            print(f"{path}: {error}; trying again", file=sys.stderr)
            (stopping if path == "fetch" else threading.Event()).wait(min(0.2 * 2**n, 10))
            if path == "fetch" and stopping.is_set():
                break
    return {"jobs": []}

HANDLERS = {"text.upper": lambda text: {"text": text.upper()}}  # job type: what to do with its args

def work(job):
    held = {"job_id": job["id"], "lease_token": job["lease_token"]}
    done = threading.Event()  # while the handler runs, a heartbeat every ten seconds keeps the job ours
    beat = {"worker_id": NAME, "active_jobs": [job["id"]], "lease_tokens": {job["id"]: job["lease_token"]}}
    alive = lambda: all(insist("heartbeat", beat, 1) for _ in iter(lambda: done.wait(10), True))
    threading.Thread(target=alive, daemon=True).start()
    try:
        said = "ack", {**held, "result": HANDLERS[job["type"]](*job["args"])}
    except Exception as error:
        said = "nack", {**held, "error": {"code": "handler_error", "type": type(error).__name__, "message": str(error)}}
    done.set()
    try:
        insist(*said)
    except urllib.error.HTTPError as error:
        print(f"{job['id']} is not ours any more: {error}", file=sys.stderr)

for name in (signal.SIGTERM, signal.SIGINT):  # what runs is finished, and nothing more is taken
    signal.signal(name, lambda *_: stopping.set())
while not stopping.is_set():  # a fetch waits up to two seconds for work, so that a stop does not take long
    for job in insist("fetch", {"queues": ["default"], "worker_id": NAME, "wait_ms": 2_000, "visibility_timeout_ms": 30_000})["jobs"]:
        work(job)
