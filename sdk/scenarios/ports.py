"""Ports for servers that must come back on the same one."""

import itertools
import os
import socket

# Below the range from which the system hands out ports by itself. Processes that test at the same time begin at different places.
FIRST, N_PORTS = 15_000, 17_000
_draws = itertools.count(os.getpid() % 170 * 100)


def free_port() -> int:
    for draw in itertools.islice(_draws, N_PORTS):
        port = FIRST + draw % N_PORTS
        with socket.socket() as attempt:
            try:
                attempt.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
