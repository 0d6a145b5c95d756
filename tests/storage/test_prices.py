"""Prices are versions that are only ever added, in one currency for all of them."""

import asyncio

import pytest

from storage import Database
from storage.money import Price
from storage.prices import Prices
from storage.values.prices import PriceVersion
from tests.storage.entries import priced

pytestmark = pytest.mark.anyio
OLD, NEW = Price(1, 2, 3, 4), Price(5, 6, 7, 2**53)


async def _add(db: Database, id: str, price: Price, after: int) -> PriceVersion | None:
    async with db.unit() as session:
        return await Prices(session).add(id, price, "k", "why", after)


async def test_the_newest_version_holds_and_none_is_lost(db: Database) -> None:
    id, other = await priced(db, OLD, NEW), await priced(db, name="free")
    async with db.view() as session:
        prices = Prices(session)
        current = await prices.current()
        assert (current[id].version, current[id].price, current.keys()) == (2, NEW, {id})
        assert [(one.version, one.price) for one in await prices.versions(id)] == [(2, NEW), (1, OLD)]
        assert await prices.versions(other) == []
        assert await prices.of([id, other, None]) == {(id, 1): OLD, (id, 2): NEW}


async def test_of_two_editors_one_adds_the_next_version(db: Database) -> None:
    id = await priced(db, OLD)
    raced = await asyncio.gather(*(_add(db, id, Price(n), 1) for n in range(6)))
    (winner,) = [version for version in raced if version is not None]
    async with db.view() as session:
        assert (await Prices(session).current())[id] == winner
    assert winner.version == 2


async def test_the_currency_is_what_is_wanted_until_it_is_fixed(db: Database) -> None:
    async with db.unit() as session:
        prices = Prices(session)
        assert [await prices.currency(None), await prices.currency("EUR")] == ["USD", "EUR"]
        assert [await prices.fix_currency("EUR"), await prices.fix_currency("CHF")] == ["EUR", "EUR"]
        assert [await prices.currency("CHF"), await prices.currency(None)] == ["EUR", "EUR"]
        assert not await prices.exist()
    await priced(db, OLD)
    async with db.view() as session:
        assert await Prices(session).exist()
