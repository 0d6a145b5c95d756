"""A queue is bounded by time, not by number: who waited too long is told so, and told whose queue it was.

    429   the salt's own requests run, and more of them wait than its part of the engine serves: send fewer at a time
    503   nothing of the salt runs: the engine is full of others, try again later

A new request is refused at once where the oldest of its salt has waited half the limit: it would hardly be served.
"""

from dataclasses import dataclass

from inference.protocol import Failure


@dataclass(frozen=True, slots=True)
class SaltQueue:
    """One salt's requests: seconds that the oldest of those which never ran has waited, and how many run."""

    oldest_wait: float
    running: int


def overdue(queue: SaltQueue, limit: float) -> Failure:
    """What a request that waited for `limit` seconds is told."""
    if queue.running:
        return _full(
            429, f"Your own requests keep the engine busy: one waited for {limit:.0f} s. Send fewer at a time."
        )
    return _full(503, f"The engine is busy with others: your request waited for {limit:.0f} s. Try again later.")


def refusal(queue: SaltQueue | None, limit: float) -> Failure | None:
    """What a new request of this salt is told; None: it may queue."""
    return overdue(queue, queue.oldest_wait) if queue and queue.oldest_wait >= limit / 2 else None


def _full(status: int, message: str) -> Failure:
    return Failure(status=status, code="queue_full", message=message)
