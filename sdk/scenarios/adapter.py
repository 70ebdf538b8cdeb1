"""The program of a language that speaks the protocol of the README, and the log that its handlers write."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parent import end_with_parent
from server import Server

ANSWER_MAX_S = 60.0


class Refused(Exception):
    """The error with which a verb was answered."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(json.dumps(error))
        self.error_class: str = error["class"]
        self.code: str = error["code"]
        self.message: str = error["message"]
        self.retryable: bool = error["retryable"]


@dataclass(frozen=True)
class Line:
    """A line of the log of handlers."""

    type: str
    job_id: str
    attempt: int
    phase: str


class Adapter:
    def __init__(self, command: list[str], env: dict[str, str], server: Server, log: Path) -> None:
        self.log = log
        environment = {
            **os.environ,
            **env,
            "FORGERUN_URL": server.url,
            "FORGERUN_API_KEY": server.key,
            "FORGERUN_SCENARIO_LOG": str(log),
        }
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            preexec_fn=end_with_parent(),
        )
        self.ids = itertools.count(1)
        self.waiting: dict[int, Future[Any]] = {}
        self.lock = threading.Lock()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for text in self.process.stdout:
            answer = json.loads(text)
            with self.lock:
                future = self.waiting.pop(answer["id"])
            if "ok" in answer:
                future.set_result(answer["ok"])
            else:
                future.set_exception(Refused(answer["error"]))
        with self.lock:
            waiting, self.waiting = self.waiting, {}
        for future in waiting.values():
            future.set_exception(AssertionError("the adapter ended without an answer"))

    def begin(self, verb: str, **members: Any) -> Future[Any]:
        """Sends a verb; its answer comes later."""
        future: Future[Any] = Future()
        with self.lock:
            id = next(self.ids)
            self.waiting[id] = future
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"id": id, "do": verb, **members}) + "\n")
        self.process.stdin.flush()
        return future

    def do(self, verb: str, **members: Any) -> Any:
        return self.begin(verb, **members).result(ANSWER_MAX_S)

    def submit(self, type: str, args: Any = None, *, queue: str, **options: Any) -> str:
        job_id: str = self.do("submit", type=type, args=args, queue=queue, options=options)["job_id"]
        return job_id

    def result(self, job_id: str, timeout_ms: int = 20_000) -> Any:
        return self.do("result", job_id=job_id, timeout_ms=timeout_ms)["value"]

    def lines(self, job_id: str | None = None) -> list[Line]:
        """What the handlers wrote, of one job or of all."""
        if not self.log.exists():
            return []
        # The last line may be under way.
        whole = self.log.read_text().rpartition("\n")[0].splitlines()
        fields = [line.split(" ") for line in whole]
        lines = [Line(type, id, int(attempt), phase) for type, id, attempt, phase in fields]
        return [line for line in lines if job_id in (None, line.job_id)]

    def phases(self, job_id: str) -> list[str]:
        return [f"{line.phase} {line.attempt}" for line in self.lines(job_id)]

    def close(self) -> None:
        """Ends the input, upon which the adapter stops its worker and exits with 0."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        try:
            code = self.process.wait(ANSWER_MAX_S)
        finally:
            self.process.kill()
            self.process.wait()
            self.reader.join()
            self.process.stdout.close()
        assert code == 0, f"the adapter exited with {code}"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join()
        if self.process.stdin:
            self.process.stdin.close()
        if self.process.stdout:
            self.process.stdout.close()
