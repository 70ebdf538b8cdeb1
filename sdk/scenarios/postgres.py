"""A PostgreSQL server in a temporary folder, on a port of its own. It runs as the user postgres where the suite is root."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from parent import end_with_parent
from ports import free_port
from server import until

MISSING = "the scenarios need PostgreSQL 15 or newer (Debian: apt-get install postgresql)"


def programs() -> Path:
    """The folder with initdb and postgres; the newest one where there are several."""
    found = [Path(path).parent for path in glob.glob("/usr/lib/postgresql/*/bin/initdb")]
    if found:
        return max(found, key=lambda folder: int(folder.parent.name))
    initdb = shutil.which("initdb")
    assert initdb, MISSING
    return Path(initdb).parent


class Cluster:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="forgerun-scenarios-pg-"))
        self.user: str | None = None
        # As root it refuses to start.
        if os.geteuid() == 0:
            self.user = "postgres"
            account = pwd.getpwnam(self.user)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self.port = free_port()
        self.n_databases = 0
        data = str(self.folder / "data")
        self.run("initdb", "-D", data, "-U", "forgerun", "--auth=trust", "-E", "UTF8", "--no-sync")
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": 60,
            "shared_buffers": "32MB",
            # Commits need not survive the machine, only the servers that the scenarios kill.
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self.process = subprocess.Popen(
            [str(programs() / "postgres"), "-D", data, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "log").open("w"),
            preexec_fn=end_with_parent(signal.SIGQUIT),
            **self.account(),
        )
        until("PostgreSQL takes connections", self.is_ready, timeout_s=60)

    def account(self) -> dict[str, Any]:
        """Under which user its programs run."""
        return {"user": self.user, "group": self.user, "extra_groups": [], "cwd": "/"} if self.user else {"cwd": "/"}

    def is_ready(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        ready = [str(programs() / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ready, check=False).returncode == 0

    def run(self, program: str, *arguments: str) -> None:
        command = [str(programs() / program), *arguments]
        out = subprocess.DEVNULL
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=out, **self.account())

    def database(self) -> str:
        """The URL of a new, empty database."""
        self.n_databases += 1
        name = f"scenarios_{self.n_databases}"
        self.run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "forgerun", name)
        return f"postgres://forgerun@127.0.0.1:{self.port}/{name}"

    def stop(self) -> None:
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(60)
        shutil.rmtree(self.folder)
