"""A PostgreSQL server in a temporary folder, on a port of its own. It runs as the user postgres where the suite is root."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

from ports import free_port

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
        if os.geteuid() == 0:
            self.user = "postgres"
            account = pwd.getpwnam(self.user)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self.port = free_port()
        self.n_databases = 0
        self.run("initdb", "-D", str(self.folder / "data"), "-U", "forgerun", "--auth=trust", "-E", "UTF8", "--no-sync")
        # Commits need not survive the machine, only the servers that the scenarios kill.
        options = (
            f"-c port={self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' "
            "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c max_connections=60 -c shared_buffers=32MB"
        )
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-l", str(self.folder / "log"), "-w", "-o", options, "start")

    def run(self, program: str, *arguments: str) -> None:
        command = [str(programs() / program), *arguments]
        subprocess.run(
            command,
            user=self.user,
            group=self.user,
            extra_groups=[] if self.user else None,
            cwd="/",
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def database(self) -> str:
        """The URL of a new, empty database."""
        self.n_databases += 1
        name = f"scenarios_{self.n_databases}"
        self.run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "forgerun", name)
        return f"postgres://forgerun@127.0.0.1:{self.port}/{name}"

    def stop(self) -> None:
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")
        shutil.rmtree(self.folder)
