"""One request at a time decides about a subject."""

from collections.abc import Sequence

from sqlalchemy import text

from storage.database import Session
from storage.limits.values import Subject

LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(name, 0)) FROM unnest(CAST(:names AS text[])) AS name")


async def hold(session: Session, subjects: Sequence[Subject]) -> None:
    """Until the transaction ends; in one order, so that no two wait for each other. SQLite's writer is alone."""
    if session.dialect.name == "postgresql":
        await session.execute(LOCK, {"names": sorted(subject.name for subject in subjects)})
