"""A month's statement is the ledger to the unit: its raw rows, summed here by other means, come to the same."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from sqlalchemy import select

from gateway.cli.statement import shown
from gateway.errors import InvalidRequest
from gateway.statement import amount, month_of
from storage import Database
from storage.adjustments import Adjustments
from storage.deployments import FIRST
from storage.ledger import Ledger
from storage.models import ledger_entries
from storage.money import Price
from storage.prices import Prices
from storage.tenants import Tenants
from storage.values import Figures, OpenEntry, RejectedPolicy, Settlement, billed_completion
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import Gateway, client, running

STATEMENT = "/v1/organization/usage/statement"
PRICES = (Price(150_001, 75_000, 600_003, 333_333), Price(1, 0, 999_999_999, 7))
START, END = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
POLICIES: dict[RejectedPolicy, str] = {"free": "default", "billed": "acme"}
"""Each with its tenant."""
EDGES = (START - SECOND, START, START + timedelta(days=15, seconds=1), END - SECOND, END)


async def fill(db: Database) -> None:
    """Requests of two tenants on every edge of the month, under every price and under none."""
    async with db.unit() as session:
        await Tenants(session).ensure("acme", "Acme")
        for version, price in enumerate(PRICES):
            assert await Prices(session).add(FIRST, price, "system", "a test", version)
        ledger = Ledger(session)
        for number, (policy, at, pinned) in enumerate(product(POLICIES, EDGES, (None, 1, 2))):
            tenant, id = POLICIES[policy], f"r{number}"
            entry = OpenEntry(id, tenant, "k", "m", "/v1/completions", "home:1", policy, deployment_id=FIRST)
            await ledger.open(replace(entry, price_version=pinned, at=at - SECOND))
            await ledger.settle(Settlement(id, "completed", figures(number + 1, policy), at))


def figures(number: int, policy: RejectedPolicy) -> Figures:
    visible, rejected = 10 * number, number % 7
    return Figures(
        prompt_tokens=100 * number + 1,
        cached_tokens=16 * number,
        generated_tokens=visible,
        delivered_tokens=visible,
        visible_tokens=visible,
        completion_tokens=billed_completion(policy, visible, 0, rejected),
        prediction_tokens=rejected,
        rejected_prediction_tokens=rejected,
        steps=visible - 1,
        choices_with_output=1,
        final=True,
    )


async def by_hand(db: Database, tenant: str) -> tuple[Counter[tuple[int | None, str]], int]:
    """(version, item) → tokens, and the cost, from the raw rows."""
    tokens: Counter[tuple[int | None, str]] = Counter()
    async with db.view() as session:
        rows = await session.execute(select(ledger_entries).where(ledger_entries.c.tenant_id == tenant))
        for row in rows:
            if row.kind == "settle" and row.at.strftime("%Y-%m") == "2026-03":
                tokens[row.price_version, "input"] += row.prompt_tokens - row.cached_tokens
                tokens[row.price_version, "cached"] += row.cached_tokens
                tokens[row.price_version, "output"] += row.visible_tokens
                tokens[row.price_version, "rejected"] += row.completion_tokens - row.visible_tokens
    cost = 0
    for (version, item), count in tokens.items():
        cost += round(Fraction(count * getattr(PRICES[version - 1], item), 10**6)) if version else 0
    return +tokens, cost


async def asked(gateway: Gateway, month: str = "2026-03", tenant: str = "default") -> Any:
    async with client(gateway.url, gateway.operator_key) as http:
        answer = await http.get(STATEMENT, params={"month": month}, headers={"openai-organization": tenant})
    return answer.json()


@pytest.mark.anyio
async def test_a_statement_is_the_ledger_to_the_unit(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(), currency="EUR") as gateway:
        await fill(gateway.parts.db)
        for tenant in ("default", "acme"):
            told = await asked(gateway, tenant=tenant)
            tokens, cost = await by_hand(gateway.parts.db, tenant)
            assert {(line["price_version"], line["item"]): line["tokens"] for line in told["lines"]} == tokens
            assert told["total_micros"] == cost == sum(line["micros"] for line in told["lines"]) > 0
            assert {line["deployment_id"] for line in told["lines"]} == {FIRST}
            assert {line["model"] for line in told["lines"]} == {"smollm2-135m"}
            assert (told["organization_id"], told["currency"], told["is_final"]) == (tenant, "EUR", True)
            assert any(line["item"] == "rejected" for line in told["lines"]) == (tenant == "acme")
        assert (await asked(gateway, "2026-05"))["lines"] == []


@pytest.mark.anyio
async def test_adjustments_count_in_the_month_they_are_made_in(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway:
        await fill(gateway.parts.db)
        month = datetime.now(UTC).strftime("%Y-%m")
        async with gateway.parts.db.unit() as session:
            for micros in (-3, 5_000_000):
                assert await Adjustments(session).add("r4", micros, "by hand", "k")
        before, now = await asked(gateway), await asked(gateway, month)
        assert before["adjustments"] == []
        assert [one["micros"] for one in now["adjustments"]] == [-3, 5_000_000]
        assert (now["total_micros"], now["total"], now["is_final"]) == (4_999_997, "4.999997", False)
        assert (await asked(gateway, month, "acme"))["adjustments"] == []
        console = Console(width=160, record=True)
        console.print(shown(now))
        assert "by hand" in (text := console.export_text())
        assert text.splitlines()[-1].split() == ["total", "USD", "4.999997"]


@pytest.mark.parametrize(
    ("micros", "told"), [(0, "0.000000"), (-1_500_000, "-1.500000"), (10**12 + 7, "1000000.000007")]
)
def test_amounts_are_exact(micros: int, told: str) -> None:
    assert amount(micros) == told


def test_a_month_ends_where_the_next_begins() -> None:
    assert (month_of("2026-12").start, month_of("2026-12").end) == (
        datetime(2026, 12, 1, tzinfo=UTC),
        datetime(2027, 1, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize("told", [None, "", "2026", "2026-13", "2026-00", "26-01", "2026-1", "9999-01", "2026-11-01"])
def test_what_is_no_month_is_refused(told: str | None) -> None:
    with pytest.raises(InvalidRequest, match="2026-11"):
        month_of(told)
