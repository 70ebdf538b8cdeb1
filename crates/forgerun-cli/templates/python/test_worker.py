"""`python -m pytest`. The second test starts a real server: the program forgerun from FORGERUN_BIN or the PATH."""

import os
import subprocess
import sys
from pathlib import Path

from forgerun import Client
from forgerun.testing import DevServer, run_inline

from submit import submit_greeting
from worker import worker


def test_a_greeting_names_the_person() -> None:
    run = run_inline(worker, "greeting.write", {"name": "Ada"})
    assert run.result == {"text": "Good morning, Ada!"}


def test_a_greeting_is_written_by_a_worker() -> None:
    with DevServer() as server:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("worker.py"))], env={**os.environ, "FORGERUN_URL": server.url}
        )
        try:
            assert submit_greeting(Client(server.url), "Ada") == "Good morning, Ada!"
        finally:
            process.terminate()
            assert process.wait(60) == 0
