"""What dead gateways left: their requests are settled from the last checkpoint, and their holds by what that says."""

from collections.abc import Collection, Mapping

from sqlalchemy import select

from storage.database import Session
from storage.ledger import Ledger
from storage.limits.budgets import Budgets
from storage.limits.gateways import Gateways
from storage.models import ledger_entries, of_kind
from storage.money import Used

_entries = ledger_entries.c
USED = (
    _entries.prompt_tokens,
    _entries.completion_tokens,
    _entries.cached_tokens,
    _entries.completion_tokens - _entries.visible_tokens,
)
"""The members of `Used`."""


async def settle_dead(session: Session, now: float) -> int:
    """Returns how many requests and holds were settled.

    The caller has renewed its own lease for at least as long as one lasts: after the database was away, every lease
    has run out, and those that live must get the time to say so.
    """
    gateways, budgets = Gateways(session), Budgets(session)
    dead = await gateways.dead(now)
    known = await gateways.known()
    left = await budgets.held_by_others([id for id in known if id not in dead])
    settled = await Ledger(session).reconcile({*dead, *left.values()})
    came_to = await _used(session, left)
    for claim_id in sorted(left):
        settled += await budgets.settle(claim_id, came_to.get(claim_id, Used()))
    await gateways.forget(dead)
    return settled


async def _used(session: Session, claim_ids: Collection[str]) -> Mapping[str, Used]:
    """By the ledger; what it never opened has used nothing."""
    statement = select(_entries.request_id, *USED).where(
        of_kind(ledger_entries, "settle"), _entries.request_id.in_(claim_ids)
    )
    return {row[0]: Used(*row[1:]) for row in await session.execute(statement)}
