"""A server of ours that can be killed and started again, and the HTTP calls by which the suite judges without an SDK."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from parent import end_with_parent
from ports import free_port

START_MAX_S = 60.0

# The scenarios read more often than one client usually may, and need not wait for the retries of a failed attempt.
SETTINGS = {
    "FORGERUN_LIMITS__RATE_PER_MINUTE": "100000",
    "FORGERUN_RETRY__BASE_MS": "100",
    "FORGERUN_SIM__ENABLED": "false",
    "FORGERUN_LOG__LEVEL": "warn",
}


class Server:
    def __init__(self, binary: Path, database_url: str | None) -> None:
        """`None` is SQLite in the server's own folder."""
        self.folder = Path(tempfile.mkdtemp(prefix="forgerun-scenarios-"))
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.key = ""
        store = ["--database-url", database_url] if database_url else ["--data", str(self.folder / "data")]
        self.command = [str(binary), "serve", "--listen", f"127.0.0.1:{self.port}", *store]
        self.process: subprocess.Popen[str] | None = None
        self.start()
        client = self.call("POST", "/v1/clients")["client_id"]
        self.key = self.call("POST", f"/v1/clients/{client}/keys")["api_key"]

    def start(self) -> None:
        log = (self.folder / "log").open("a")
        self.process = subprocess.Popen(
            self.command,
            # A variable of this kind that is no setting would stop its start.
            env={name: value for name, value in os.environ.items() if not name.startswith("FORGERUN_")} | SETTINGS,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            preexec_fn=end_with_parent(),
        )
        log.close()
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line.startswith("forgerun listening on"), f"{line!r}\n{self.log()}"

    def log(self) -> str:
        return (self.folder / "log").read_text()[-4000:]

    def end(self, by: signal.Signals) -> None:
        assert self.process
        self.process.send_signal(by)
        self.process.wait(START_MAX_S)
        if self.process.stdout:
            self.process.stdout.close()
        self.process = None

    def restart(self, by: signal.Signals) -> None:
        self.end(by)
        self.start()

    def stop(self) -> None:
        if self.process:
            self.end(signal.SIGKILL)
        shutil.rmtree(self.folder)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Accept", "application/json")
        if self.key:
            request.add_header("Authorization", f"Bearer {self.key}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read()!r}") from error

    def job(self, job_id: str) -> Any:
        return self.call("GET", f"/v1/jobs/{job_id}")

    def states(self, queue: str) -> dict[str, str]:
        """The states of all jobs of a queue, by id."""
        states: dict[str, str] = {}
        cursor = ""
        while True:
            page = self.call("GET", f"/v1/jobs?queue={queue}&limit=200{cursor}")
            states |= {job["job_id"]: job["state"] for job in page["jobs"]}
            if not page["next_cursor"]:
                return states
            cursor = f"&cursor={page['next_cursor']}"


def until(what: str, holds: Any, timeout_s: float = 30.0, pause_s: float = 0.02) -> Any:
    """What `holds` returns once it is true."""
    end = time.monotonic() + timeout_s
    while True:
        found = holds()
        if found:
            return found
        assert time.monotonic() < end, f"did not come true in {timeout_s} s: {what}"
        time.sleep(pause_s)
