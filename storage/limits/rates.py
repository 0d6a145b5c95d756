"""Concurrency and rates in the database: leases of running requests, and what was charged in each second."""

from collections.abc import Iterable, Sequence
from math import floor
from typing import Any

from sqlalchemy import bindparam, delete, select, update

from storage.database import Session
from storage.inserts import Upsert
from storage.limits.rules import WINDOW
from storage.limits.usage import at
from storage.limits.values import RATES, Amounts, Claim, Rate, Reservation, Subject
from storage.models import limit_leases, limit_windows

COLUMNS: dict[Rate, str] = dict(zip(RATES, ("requests", "input_tokens", "output_tokens"), strict=True))
_windows = limit_windows.c
CHARGE = Upsert(limit_windows, lambda new: {name: _windows[name] + new[name] for name in COLUMNS.values()})
CORRECT = (
    update(limit_windows)
    .where(_windows.subject.in_(bindparam("names", expanding=True)), _windows.second == bindparam("at"))
    .values({name: _windows[name] + bindparam(f"by_{name}") for name in COLUMNS.values()})
)
LEASE = Upsert(limit_leases, lambda new: {"expires_at": new.expires_at})
END = delete(limit_leases).where(limit_leases.c.id == bindparam("claim"))
CHARGES = {
    rate: select(_windows.second, limit_windows.c[column]).where(
        _windows.subject == bindparam("name"), _windows.second.between(bindparam("oldest"), bindparam("newest"))
    )
    for rate, column in COLUMNS.items()
}
SWEEP_LEASES = delete(limit_leases).where(limit_leases.c.expires_at <= bindparam("at"))
SWEEP_WINDOWS = delete(limit_windows).where(_windows.second < bindparam("oldest"))


class Rates:
    """They, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def charge(self, claim: Claim, now: float, lease_until: float) -> None:
        await self.lease([claim], lease_until)
        needs = claim.needs
        charged = {"second": floor(now)} | {column: needs.of(rate) for rate, column in COLUMNS.items()}
        rows = [{"subject": name} | charged for name in _names(claim.limited_in(*RATES))]
        if rows:
            await CHARGE.run(self._session, rows)

    async def lease(self, claims: Iterable[Claim], until: float) -> None:
        """These run until then; one that was swept away runs again."""
        rows = [
            {"subject": name, "id": claim.id, "expires_at": at(until)}
            for claim in claims
            for name in _names(claim.limited_in("concurrency"))
        ]
        if rows:
            await LEASE.run(self._session, rows)

    async def correct(self, reservation: Reservation, by: Amounts) -> None:
        """A second that is long gone is corrected by nobody."""
        changes = {f"by_{column}": by.of(rate) for rate, column in COLUMNS.items()}
        names = _names(reservation.claim.limited_in(*RATES))
        if names and any(changes.values()):
            await self._session.execute(CORRECT, {"names": names, "at": reservation.second} | changes)

    async def end(self, claim: Claim) -> None:
        if any(claim.limited_in("concurrency")):
            await self._session.execute(END, {"claim": claim.id})

    async def charges(self, subject: Subject, rate: Rate, now: float) -> Sequence[tuple[int, int]]:
        """(second, amount) of what counts against a rate."""
        told = {"name": subject.name, "oldest": floor(now) - WINDOW, "newest": floor(now)}
        rows = await self._session.execute(CHARGES[rate], told)
        return [(row.second, row._mapping[COLUMNS[rate]]) for row in rows]

    async def sweep(self, now: float) -> None:
        """Remove what no longer counts."""
        await self._session.execute(SWEEP_LEASES, {"at": at(now)})
        await self._session.execute(SWEEP_WINDOWS, {"oldest": floor(now) - 2 * WINDOW})


def _names(subjects: Iterable[Subject]) -> list[Any]:
    return [subject.name for subject in subjects]
