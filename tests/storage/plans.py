"""How a database goes about the statements of a report."""

from typing import Any

from sqlalchemy import event

from storage.database import Session
from storage.usage import Usage, UsageQuery


async def plans_of(session: Session, query: UsageQuery) -> list[str]:
    """Of each statement that reads rows or sums, in the database's words, one after the other."""
    ran: list[tuple[str, Any]] = []
    sync = session.sync_connection
    assert sync is not None

    def note(*args: Any) -> None:
        ran.append((args[2], args[3]))

    event.listen(sync, "before_cursor_execute", note)
    try:
        await Usage(session).rows(query)
    finally:
        event.remove(sync, "before_cursor_execute", note)
    explain = "EXPLAIN QUERY PLAN " if session.dialect.name == "sqlite" else "EXPLAIN "
    asked = [one for one in ran if any(table in one[0] for table in ("ledger_entries", "usage_hours", "usage_days"))]
    plans = [await session.exec_driver_sql(explain + statement, parameters) for statement, parameters in asked]
    return ["\n".join(str(row[-1]) for row in plan) for plan in plans]
