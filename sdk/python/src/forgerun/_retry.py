"""When a failed request is sent again, and when a job is asked for again. Pure decisions."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import ForgeRunError, Unreachable


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how patiently a request is repeated."""

    retries: int = 5
    first: float = 0.1
    """The wait before the first repetition lies between this and its double. It doubles from one to the next."""
    longest: float = 10.0
    patience: float = 60.0
    """A longer `Retry-After` is not waited for: the error is raised and says how long."""

    def wait(self, error: ForgeRunError, harmless: bool, retries_made: int, random: float) -> float | None:
        """Seconds before the next try; `None` to give up.

        `harmless`: a second request does no harm, as with reads and with whatever has an idempotency key.
        """
        if retries_made >= self.retries or not error.retryable:
            return None
        if not harmless:
            # A gateway may answer 500, 502 or 504 about a request that it passed on.
            maybe_done = error.maybe_sent if isinstance(error, Unreachable) else error.status in (500, 502, 504)
            if maybe_done:
                return None
        retry_after = error.retry_after or 0.0
        if retry_after > self.patience:
            return None
        backoff = min(self.first * (1 << min(retries_made, 20)), self.longest)
        return max(backoff, retry_after) + backoff * random


POLL_FIRST = 2.0
POLL_LONGEST = 30.0


def poll_wait(polls_made: int, waited: float, retry_after: float | None, timeout: float) -> float | None:
    """Seconds before the next question about a job: 2, 4, 8, 16, 30, 30 …, never less than `Retry-After`.

    `None` if the question would come after the timeout.
    """
    wait = max(min(POLL_FIRST * (1 << min(polls_made, 31)), POLL_LONGEST), retry_after or 0.0)
    return None if waited + wait > timeout else wait
