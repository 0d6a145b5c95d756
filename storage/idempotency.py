"""Requests that a client named itself: the same name runs once in 24 hours, whichever gateway it comes to.

A claim is written in the transaction that opens the ledger's entry, so there is one exactly where there is the
other; how the request ended is the ledger's to say. An attempt that failed and generated nothing leaves its name
free. Answers are not kept: no output is stored.
"""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from sqlalchemy import ColumnElement, Row, and_, delete, select, tuple_, update

from storage.database import Session
from storage.inserts import insert_once
from storage.models import idempotency_keys, ledger_entries, of_kind
from storage.values import Outcome

KEPT = timedelta(hours=24)
SWEPT = 20
"""Outdated names that a claim takes away with it."""
FAILED: frozenset[Outcome] = frozenset({"error", "engine_lost", "interrupted"})
_i = idempotency_keys.c


@dataclass(frozen=True, slots=True)
class Claim:
    """A request's name among those of one key and route; both hashes are keyed, so that they tell nothing."""

    key_id: str
    route: str
    name_hash: str
    body_hash: str
    request_id: str


@dataclass(frozen=True, slots=True)
class Earlier:
    """The request that has the name already."""

    request_id: str
    state: Literal["other_body", "running", "ended"]
    outcome: Outcome | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Idempotency:
    """The names, in one unit of work."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def claim(self, claim: Claim, now: datetime | None = None) -> Earlier | None:
        """None where the name is this request's now."""
        at = now or datetime.now(UTC)
        await self._sweep(at - KEPT)
        if await insert_once(self._session, idempotency_keys, asdict(claim) | {"at": at}):
            return None
        held = select(idempotency_keys).where(_named(claim)).with_for_update()
        row = (await self._session.execute(held)).one_or_none()
        if row is None:
            return await self.claim(claim, now)  # another claim swept it away just now
        earlier = await self._earlier(row, claim)
        if row.at > at - KEPT and earlier is not None:
            return earlier
        mine = {"body_hash": claim.body_hash, "request_id": claim.request_id, "at": at}
        await self._session.execute(update(idempotency_keys).where(_named(claim)).values(mine))
        return None

    async def _earlier(self, row: Row[Any], claim: Claim) -> Earlier | None:
        """None where it failed and generated nothing."""
        if row.body_hash != claim.body_hash:
            return Earlier(row.request_id, "other_body")
        of_request = ledger_entries.c.request_id == row.request_id
        settled = select(ledger_entries).where(of_request, of_kind(ledger_entries, "settle"))
        end = (await self._session.execute(settled)).one_or_none()
        if end is None:
            return Earlier(row.request_id, "running")
        if end.outcome in FAILED and end.generated_tokens == 0:
            return None
        return Earlier(row.request_id, "ended", end.outcome, end.prompt_tokens, end.completion_tokens)

    async def _sweep(self, before: datetime) -> None:
        columns = (_i.key_id, _i.route, _i.name_hash)
        outdated = (
            select(*columns).where(_i.at <= before).order_by(_i.at).limit(SWEPT).with_for_update(skip_locked=True)
        )
        await self._session.execute(delete(idempotency_keys).where(tuple_(*columns).in_(outdated)))


def _named(claim: Claim) -> ColumnElement[bool]:
    same = (_i.key_id == claim.key_id, _i.route == claim.route, _i.name_hash == claim.name_hash)
    return and_(*same)
