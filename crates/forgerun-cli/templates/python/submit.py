"""Submits a job and waits for its result: `python submit.py Ada`. The server is FORGERUN_URL, or http://127.0.0.1:8080."""

import sys

from forgerun import Client


def submit_greeting(client: Client, name: str) -> str:
    job = client.submit("greeting.write", {"name": name}, queue="greetings", max_retries=3)
    greeting: dict[str, str] = job.result(timeout=60)
    return greeting["text"]


if __name__ == "__main__":
    print(submit_greeting(Client(), sys.argv[1] if len(sys.argv) > 1 else "world"))
