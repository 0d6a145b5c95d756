"""One clock for all gateways: the database's. SQLite has one machine, so it is this machine's."""

import time
from collections.abc import Awaitable, Callable

from sqlalchemy import text

from storage.database import Session

Clock = Callable[[Session], Awaitable[float]]


async def database_clock(session: Session) -> float:
    """Unix seconds, now and not when the transaction began."""
    if session.dialect.name != "postgresql":
        return time.time()
    return float(await session.scalar(text("SELECT extract(epoch FROM clock_timestamp())")))
