"""The sixty seconds of the README with an installed program: server, worker, submission, result, restart with the data kept."""

import json
import os
import queue
import signal
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

# A release binary starts within a second; this is for machines that are busy.
PATIENCE_S = 60


@dataclass
class Installed:
    """How an installed program is called: arguments that come first, the environment, the folder of data as the server sees it."""

    command: list
    data: str
    # What starts the server, if not the command; and what works, if the place of the command has no programs for workers.
    server: list | None = None
    worker: list | None = None
    # Arguments of `serve` instead of --data.
    serve: list | None = None
    environment: dict = field(default_factory=lambda: {"PATH": os.environ["PATH"], "HOME": "/nonexistent"})

    def run(self, *arguments, command=None, code=0, **environment):
        done = subprocess.run(
            [*(command or self.command), *arguments], env=self.environment | environment, cwd="/",
            capture_output=True, text=True, timeout=PATIENCE_S,
        )
        if done.returncode != code:
            raise AssertionError(f"{arguments} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout.strip()


class Process:
    """A program that runs until it is stopped. Its output is read all the time, so that it never waits for us."""

    def __init__(self, argv, environment, from_terminal=False):
        """`from_terminal`: it is stopped like by Ctrl-C, which all processes get that it started."""
        self.from_terminal = from_terminal
        self.errors = []
        self.lines = queue.Queue()
        self.child = subprocess.Popen(
            argv, env=environment, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )
        self.threads = [
            threading.Thread(target=lambda: [self.lines.put(line) for line in self.child.stdout], daemon=True),
            threading.Thread(target=lambda: self.errors.extend(self.child.stderr), daemon=True),
        ]
        for thread in self.threads:
            thread.start()

    def first_line(self, begin):
        try:
            line = self.lines.get(timeout=PATIENCE_S)
        except queue.Empty:
            line = "nothing"
        if not line.startswith(begin):
            self.kill()
            raise AssertionError(f"expected {begin!r}, got {line!r}\n{''.join(self.errors)}")
        return line.removeprefix(begin).strip()

    def stop(self):
        """Asks it to stop. It must end by itself, with 0, and so must what it started."""
        if self.from_terminal:
            os.killpg(self.child.pid, signal.SIGINT)
        else:
            self.child.send_signal(signal.SIGTERM)
        try:
            code = self.child.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            code = "no end"
        # The pipes end when the last process that has them ends.
        for thread in self.threads:
            thread.join(timeout=PATIENCE_S)
            if thread.is_alive():
                code = "a process that was left behind"
        self.kill()
        # npm ends as its terminal wanted, once its child has ended.
        if code != 0 and not (self.from_terminal and code == -signal.SIGINT):
            raise AssertionError(f"{self.child.args} stopped with {code}\n{''.join(self.errors)}")

    def kill(self):
        """Ends it and all that it started, for certain."""
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        for thread in self.threads:
            thread.join()
        with self.child:
            pass


@contextmanager
def running(process):
    try:
        yield process
        process.stop()
    finally:
        process.kill()


@contextmanager
def server(installed, *mode):
    mode = mode or ("serve", *(installed.serve or ["--data", installed.data]))
    argv = [*(installed.server or installed.command), *mode, "--listen", "127.0.0.1:0"]
    with running(Process(argv, installed.environment)) as process:
        url = process.first_line("forgerun listening on ")
        yield url


def sixty_seconds(installed, version):
    """Does them. Returns the id of the job and its key."""
    said = installed.run("--version")
    if not said.startswith(f"forgerun {version}"):
        raise AssertionError(f"expected version {version}, got {said!r}")
    # Nobody is there yet: a probe must say so.
    installed.run("health", code=6, FORGERUN_URL="http://127.0.0.1:9")
    with server(installed) as url:
        as_operator = {"FORGERUN_URL": url}
        for arguments, expected in [(["health"], "ok"), (["health", "--ready"], "ready")]:
            if installed.run(*arguments, **as_operator) != expected:
                raise AssertionError(f"{arguments} did not say {expected}")
        client = installed.run("clients", "create", **as_operator)
        key = installed.run("keys", "issue", client, "--quiet", **as_operator)
        as_client = as_operator | {"FORGERUN_API_KEY": key}
        worker = [*(installed.worker or installed.command), "worker", "exec", "--queue", "checks", "--quiet", "--", "cat"]
        with running(Process(worker, installed.environment | as_client)):
            submit = ["submit", "--type", "check", "--queue", "checks", "--payload", '{"n":42}']
            result = installed.run(*submit, "--wait", **as_client)
            if json.loads(result) != {"n": 42}:
                raise AssertionError(f"the result is {result!r}")
        jobs = json.loads(installed.run("list", "--json", **as_client))["jobs"]
        job = jobs[0]["job_id"]
    still_there(installed, job, key)
    return job, key


def still_there(installed, job, key):
    """The job and its result outlived the server."""
    with server(installed) as url:
        as_client = {"FORGERUN_URL": url, "FORGERUN_API_KEY": key}
        state = json.loads(installed.run("get", job, "--json", **as_client))["state"]
        result = installed.run("result", job, **as_client)
        if (state, json.loads(result)) != ("SUCCEEDED", {"n": 42}):
            raise AssertionError(f"after a restart the job is {state} with {result!r}")


def installed_in(folder: Path, command):
    """A program for whoever has nothing but it, with data in a folder of its own."""
    data = folder / "data"
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder)}
    return Installed(command=[str(part) for part in command], data=str(data), environment=environment)
