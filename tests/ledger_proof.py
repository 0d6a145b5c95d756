"""The proof at the end of every test that serves requests: every rule of the ledger holds, and nothing is left open.

Whatever starts gateways for tests (`running`, `processes.started`, `served`) calls it, so that no test has to.
"""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy.engine import make_url

from storage import Database
from storage.ledger import Ledger


async def prove(db: Database, is_over: bool) -> None:
    """`is_over`: whoever served has ended well, so that all of its requests are settled."""
    async with db.view() as session:
        assert await Ledger(session).verify() == []
        assert not is_over or await Ledger(session).unsettled() == []


async def prove_at(url: str, is_over: bool) -> None:
    """The same where no test has the database open. A start that was refused has made none."""
    if not _is_made(url):
        return
    db = await Database.open(url)
    try:
        await prove(db, is_over)
    finally:
        await db.close()


def prove_apart(url: str, is_over: bool) -> None:
    """For whoever cannot await, whether or not a loop runs around it."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(prove_at(url, is_over))).result(60)


def _is_made(url: str) -> bool:
    parsed = make_url(url)
    return parsed.get_backend_name() != "sqlite" or os.path.exists(str(parsed.database))
