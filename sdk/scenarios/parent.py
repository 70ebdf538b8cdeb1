"""Processes that end with the suite, however it ends."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1

# Loaded here: between fork and exec is no time for it.
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def end_with_parent(by: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """For `preexec_fn`: asks the system to end the process when the suite is gone."""

    def ask() -> None:
        if _libc:
            _libc.prctl(PR_SET_PDEATHSIG, int(by), 0, 0, 0)

    return ask
