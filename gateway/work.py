"""A route's unit of work: in time, or a 503. What is raised inside leaves nothing behind."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from starlette.requests import Request

from gateway.errors import NotFound, from_storage
from gateway.parts import parts_of
from storage import StorageAway
from storage.database import Session
from storage.errors import UnknownCursor


@asynccontextmanager
async def changing(request: Request) -> AsyncIterator[Session]:
    """Committed when the block ends well. Raises StorageUnavailable, StorageFull."""
    parts = parts_of(request)
    with _told():
        async with asyncio.timeout(parts.settings.storage_seconds), parts.db.unit() as session:
            yield session


@asynccontextmanager
async def reading(request: Request, patience: float | None = None) -> AsyncIterator[Session]:
    """One consistent look, of at most `patience` seconds (None: as long as a change may take).

    Raises StorageUnavailable, StorageFull.
    """
    parts = parts_of(request)
    with _told():
        async with asyncio.timeout(patience or parts.settings.storage_seconds), parts.db.view() as session:
            yield session


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (StorageAway, TimeoutError) as error:
        raise from_storage(error) from error
    except UnknownCursor as error:
        param = str(error)
        raise NotFound(f"Nothing in this list has the id that '{param}' names.", param=param) from error
