"""The package as a whole: what importing it costs, and that its README is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time

import pytest

import forgerun
from conftest import SDK
from forgerun.testing import DevServer


def test_importing_the_client_is_quick_and_brings_no_asyncio() -> None:
    code = (
        "import sys, time; began = time.process_time(); import forgerun; "
        "print(time.process_time() - began, 'asyncio' in sys.modules)"
    )
    environ = {**os.environ, "PYTHONPATH": str(SDK / "src")}
    command = [sys.executable, "-c", code]
    took, asyncio = min(subprocess.check_output(command, text=True, env=environ).split() for _ in range(3))
    assert float(took) < 0.15
    assert asyncio == "False"


def test_every_name_that_is_promised_is_there() -> None:
    for name in forgerun.__all__:
        assert getattr(forgerun, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        forgerun.nothing  # noqa: B018


def test_the_version_is_told_once() -> None:
    written = re.search(r'^version = "(.*)"', (SDK / "pyproject.toml").read_text(), re.MULTILINE)
    assert written and written[1] == forgerun.__version__


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```", (SDK / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert found
    return list(found)


def test_the_readme_runs(
    server: DevServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORGERUN_URL", server.url)
    scope: dict[str, object] = {}
    workers: dict[int, forgerun.Worker] = {}
    threads: list[threading.Thread] = []
    try:
        for block in blocks("python"):
            exec(compile(block, "README.md", "exec"), scope)
            worker = scope.get("worker")
            assert isinstance(worker, forgerun.Worker)
            if id(worker) not in workers:
                workers[id(worker)] = worker
                threads.append(threading.Thread(target=worker.run))
                threads[-1].start()
        told = capsys.readouterr().out
        client = scope["client"]
        assert isinstance(client, forgerun.Client)
        for type, value in (("image.resize", {"width": 8}), ("page.fetch", "http://a")):
            assert client.submit(type, value, queue="images").result(30) is not None
    finally:
        for worker in workers.values():
            worker.stop()
        for thread in threads:
            thread.join(30)
    first, *rest = told.splitlines()
    assert first == "sent to ada@example.com"
    assert "RFA_JOB_CONFLICT" in rest[0]
    assert "['sent to a@b.c', 'sent to d@e.f']" in rest
    assert "job-completed COMPLETED" in rest and "SUCCEEDED" in rest


def test_the_readme_names_the_receiver_that_works() -> None:
    import base64
    import hmac

    [block] = [block for block in blocks("python") if "webhooks.verify" in block]
    scope: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), scope)
    secret = re.search(r'"(whsec_[^"]*)"', block)
    assert secret
    stamp, body = str(int(time.time())), b'{"a":1}'
    key = base64.b64decode(secret[1].removeprefix("whsec_"))
    tag = base64.b64encode(hmac.digest(key, f"m.{stamp}.".encode() + body, "sha256")).decode()
    headers = {"webhook-id": "m", "webhook-timestamp": stamp, "webhook-signature": f"v1,{tag}", "x-forgerun-event": "e"}
    receive = scope["receive"]
    assert callable(receive)
    receive(body, headers)
