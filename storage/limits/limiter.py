"""The one face of all limiters."""

from collections.abc import Collection, Sequence
from typing import Protocol

from storage.limits.values import Claim, Refusal, Reservation, Standing, Subject
from storage.money import Used


class Limiter(Protocol):
    """Every method raises StorageAway where the database that it needs does not answer."""

    @property
    def is_degraded(self) -> bool:
        """Whether this gateway enforces its own share of the limits, for want of what it shares with others."""
        ...

    async def reserve(self, claim: Claim) -> Reservation | Refusal:
        """Hold a claim at every level, in one step, or change nothing."""
        ...

    def reserve_now(self, claim: Claim) -> Reservation | Refusal | None:
        """The same, done when this returns; None where it would have to wait, and nothing was done."""
        ...

    async def adjust(self, reservation: Reservation, input_tokens: int, output_tokens: int) -> Reservation | Refusal:
        """Claim more or less than before. A refusal leaves the reservation as it was."""
        ...

    async def release(self, reservation: Reservation, used: Used | None) -> None:
        """Let go, and count what was used. None: it never ran, and is as if it had never been reserved."""
        ...

    def release_now(self, reservation: Reservation, used: Used | None) -> bool:
        """The same without waiting, and before anything else is decided here; False where that cannot be."""
        ...

    async def heartbeat(self, reservations: Collection[Reservation]) -> None:
        """These still run. What is not named for the length of a lease no longer counts as running."""
        ...

    async def standings(self, subjects: Sequence[Subject]) -> tuple[Standing, ...]:
        """How the limits of these subjects stand now."""
        ...
