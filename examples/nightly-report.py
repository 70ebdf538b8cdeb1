#!/usr/bin/env python3
"""A nightly report, with nothing but the standard library: registers its schedule when it starts, and makes the report of each night.

    FORGERUN_URL=http://127.0.0.1:8080 FORGERUN_API_KEY=frk_... python3 examples/nightly-report.py

Starting it again, or starting several, changes nothing: each night makes one job, and one of them takes it. After a night offline the newest missed
night is made up for. `forgerun schedules trigger nightly-report` makes a report now.
"""
import json, os, socket, urllib.request

URL, KEY = os.environ.get("FORGERUN_URL", "http://127.0.0.1:8080"), os.environ.get("FORGERUN_API_KEY")
NAME = f"{socket.gethostname()}-{os.getpid()}"
SCHEDULE = {
    "name": "nightly-report",
    "cron": os.environ.get("REPORT_CRON", "0 4 * * *"),  # not at 2 or 3, which some nights do not have
    "timezone": os.environ.get("REPORT_TIMEZONE", "Europe/Berlin"),
    "overlap_policy": "skip",
    "catch_up": "one",
    "type": "report.nightly",
    "args": [{"title": "Orders"}],
    "options": {"queue": "reports", "retry": {"max_attempts": 5, "initial_interval": "PT1M"}},
}

def call(path, body):
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {KEY}"} if KEY else {})}
    request = urllib.request.Request(f"{URL}/ojs/v1/{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)

def report(job):  # which night is meant stands in the job, so a report that comes late is still the right one
    night = job["meta"]["cron_triggered_at"]
    return {"title": job["args"][0]["title"], "until": night, "rows": 42}

print("next nights:", *call("cron", SCHEDULE)["cron"]["next_runs"], sep="\n  ", flush=True)
while True:  # a fetch waits up to twenty seconds for work
    for job in call("workers/fetch", {"queues": ["reports"], "worker_id": NAME, "wait_ms": 20_000})["jobs"]:
        held = {"job_id": job["id"], "lease_token": job["lease_token"]}
        try:
            said = "workers/ack", {**held, "result": report(job)}
        except Exception as error:
            said = "workers/nack", {**held, "error": {"code": "handler_error", "message": str(error)}}
        call(*said)
