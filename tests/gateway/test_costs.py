"""Costs: the days of a month add up to its bill to the unit, and OpenAI's client reads them."""

import time
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio.to_thread
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.admin.organization import UsageCostsResponse
from openai.types.admin.organization.usage_costs_response import DataResultOrganizationCostsResult

from gateway.reports.costs import NAMES, Charge, Terms, charges, results
from gateway.usage_query import COSTS, parse_query
from gateway.usage_report import NOTHING
from storage.bills import used_in
from storage.money import Price, total
from storage.usage import UsageRow
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.reporting import DAY, NOW, START, ask, row
from tests.gateway.running import MODEL, Gateway, client, running
from tests.gateway.test_statement import STATEMENT, fill

PATH = "/v1/organization/costs"
PAGES = [f"page_{START + days * DAY}" for days in (0, 10, 20, 30)]
FIRST = datetime(2026, 3, 1, tzinfo=UTC)
PRICE = Price(input=150_000, cached=75_000, output=600_000, rejected=333_333)
TERMS = Terms({("d", 1): PRICE, ("d", 2): Price(1, 1, 1, 1)}, {"d": "tiny"}, "EUR")
GROUP = {"tenant_id": "t", "deployment_id": "d", "price_version": 1}


def used(day: int, prompt: int, visible: int, rejected: int = 0, cached: int = 0, **changes: Any) -> UsageRow:
    sums = NOTHING.sums | {
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "visible_tokens": visible,
        "completion_tokens": visible + rejected,
    }
    return row(**{"bucket": FIRST + timedelta(days=day), "group": GROUP, "sums": sums} | changes)


def by_item(found: list[Charge]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for charge in found:
        sums[charge.line_item] += charge.micros
    return dict(sums)


def test_a_line_is_what_the_day_added_to_the_month() -> None:
    # 3 tokens at 150,000 a million are 0.45 micro-units: the month is worth 0, 1, 1, 2 of them after each day.
    found = list(charges([used(day, 3, 0) for day in range(4)], TERMS))
    assert [(charge.micros, charge.tokens) for charge in found] == [(0, 3), (1, 3), (0, 3), (1, 3)]
    assert {charge.line_item for charge in found} == {"tiny, input_tokens"}


def test_every_item_has_its_own_tokens_and_price() -> None:
    whole = 10_000_000
    found = list(charges([used(0, 3 * whole, whole, 2 * whole, whole, adjust_micros=-5)], TERMS))
    assert by_item(found) == {
        "tiny, input_tokens": 20 * 150_000,
        "tiny, cached_input_tokens": 10 * 75_000,
        "tiny, output_tokens": 10 * 600_000,
        "tiny, rejected_prediction_tokens": 20 * 333_333,
        "adjustments": -5,
    }


def test_what_has_no_price_costs_nothing_and_is_told() -> None:
    unpriced = used(0, 10**9, 0, group=GROUP | {"deployment_id": "gone", "price_version": None})
    assert [(one.line_item, one.micros, one.tokens) for one in charges([unpriced], TERMS)] == [
        ("gone, input_tokens", 0, 10**9)
    ]


ROWS = st.lists(
    st.tuples(
        st.integers(0, 60), st.sampled_from([1, 2]), *(st.integers(0, 5000) for _ in range(4)), st.integers(-9, 9)
    ),
    max_size=30,
    unique_by=lambda one: one[:2],
)


@given(ROWS)
def test_days_add_up_to_the_bill_of_their_month(drawn: list[tuple[int, ...]]) -> None:
    rows = [
        used(day, prompt + cached, visible, rejected, cached, group=GROUP | {"price_version": version}, adjust_micros=a)
        for day, version, prompt, visible, rejected, cached, a in sorted(drawn)
    ]
    found = list(charges(rows, TERMS))
    assert all(charge.micros >= 0 for charge in found if charge.line_item != "adjustments")
    bills: dict[tuple[int, int], list[UsageRow]] = defaultdict(list)
    for one in rows:
        bills[one.bucket.month, int(one.group["price_version"] or 0)].append(one)
    months = {one.bucket.month for one in rows}
    for month in months:
        lines = 0
        for (of, version), parts in bills.items():
            if of == month:
                sums = [used_in(one) for one in parts]
                whole = type(sums[0])(*(sum(getattr(u, n) for u in sums) for n in sums[0].__dataclass_fields__))
                lines += total(TERMS.prices["d", version].lines(whole)) + sum(one.adjust_micros for one in parts)
        assert sum(charge.micros for charge in found if charge.day.month == month) == lines


def test_results_are_grouped_and_filtered() -> None:
    rows = [used(0, 10**7, 10**7), used(1, 10**7, 0, adjust_micros=7)]
    query = parse_query(ask(group_by="line_item"), NOW, COSTS)
    assert [(day, told["line_item"], told["amount_micros"], told["quantity"]) for day, told in _told(rows, query)] == [
        (FIRST, "tiny, input_tokens", 1_500_000, 10**7),
        (FIRST, "tiny, output_tokens", 6_000_000, 10**7),
        (FIRST + timedelta(days=1), "adjustments", 7, None),
        (FIRST + timedelta(days=1), "tiny, input_tokens", 1_500_000, 10**7),
    ]
    [(_, first), (_, second)] = _told(rows, parse_query(ask(), NOW, COSTS))
    assert first == {
        "object": "organization.costs.result",
        "amount": {"value": 7.5, "currency": "eur"},
        "amount_micros": 7_500_000,
        "line_item": None,
        "quantity": None,
        "quantity_unit": None,
        "project_id": None,
        "api_key_id": None,
        "organization_id": None,
        "user_id": None,
        "api_source": None,
    }
    assert second["amount_micros"] == 1_500_007
    only = parse_query([*ask(), ("line_items[]", "tiny, output_tokens")], NOW, COSTS)
    assert [told["amount_micros"] for _, told in _told(rows, only)] == [6_000_000]


def _told(rows: list[UsageRow], query: Any) -> list[tuple[datetime, dict[str, Any]]]:
    return list(results(charges(rows, TERMS), query, "EUR"))


def test_costs_are_of_whole_days() -> None:
    query = parse_query(ask(start_time=START + 100, end_time=START + DAY + 200), NOW, COSTS)
    assert query.buckets == [(START, START + DAY), (START + DAY, START + 2 * DAY)]


async def _priced(gateway: Gateway, price: Price) -> str:
    async with client(gateway.url, gateway.operator_key) as operator:
        deployment = (await operator.get("/admin/v1/deployments")).json()["data"][0]["id"]
        body = {"input": price.input, "cached": price.cached, "output": price.output, "rejected": price.rejected}
        path = f"/admin/v1/deployments/{deployment}/prices"
        done = await operator.put(path, json=body | {"reason": "test"}, headers={"if-match": "*"})
        assert done.status_code == 200, done.text
        return str(deployment)


@pytest.mark.anyio
async def test_the_official_client_reads_costs(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine(Script(step=3, rejected=2))) as gateway:
        await _priced(gateway, Price(100_000_000, 100_000_000, 200_000_000, 200_000_000))
        await anyio.sleep(1.1)  # every gateway knows it within a second
        start = int(time.time()) - 60
        for _ in range(2):
            assert (await gateway.chat()).status_code == 200
        keys = {"api_key": gateway.key, "admin_api_key": gateway.operator_key}

        def read() -> UsageCostsResponse:
            with openai.OpenAI(base_url=f"{gateway.url}/v1", max_retries=0, **keys) as official:  # type: ignore[arg-type]
                return official.admin.organization.usage.costs(
                    start_time=start,
                    bucket_width="1d",
                    group_by=["line_item", "project_id", "api_key_id"],
                    project_ids=["proj_default"],
                    limit=180,
                )

        report = await anyio.to_thread.run_sync(read)
        found = [result for bucket in report.data for result in bucket.results]
        assert all(isinstance(result, DataResultOrganizationCostsResult) for result in found)
        told = [result.model_dump() for result in found]
        assert {(one["project_id"], one["api_key_id"]) for one in told} == {("proj_default", gateway.key.split("-")[2])}
        rows = await gateway.rows("settle")
        prompt, output = sum(one.prompt_tokens for one in rows), sum(one.completion_tokens for one in rows)
        assert sum(one["amount_micros"] for one in told) == 100 * prompt + 200 * output
        assert {one["line_item"].split(", ")[0] for one in told} == {MODEL}
        assert sum(one["quantity"] for one in told) == prompt + output
        assert {one["quantity_unit"] for one in told} == {"tokens"}
        assert {one["amount"]["currency"] for one in told} == {"usd"}
        assert sum(one["amount"]["value"] for one in told) == pytest.approx((100 * prompt + 200 * output) / 1e6)


@pytest.mark.anyio
async def test_the_days_of_a_month_are_its_statement(tmp_path: Path) -> None:
    async with running(tmp_path, FakeEngine()) as gateway, client(gateway.url, gateway.operator_key) as operator:
        await fill(gateway.parts.db)
        for tenant in ("default", "acme"):
            headers = {"openai-organization": tenant}
            statement = (await operator.get(STATEMENT, params={"month": "2026-03"}, headers=headers)).json()
            expected: Counter[str] = Counter()
            for line in statement["lines"]:
                expected[f"{line['model']}, {NAMES[line['item']]}"] += line["micros"]
            asked = {"start_time": START, "end_time": statement["end_time"], "limit": 180}
            for group_by in ([], ["line_item"]):
                params = asked | {"group_by": group_by}
                page = (await operator.get(PATH, params=params, headers=headers)).json()
                found: Counter[str] = Counter()
                for result in (result for bucket in page["data"] for result in bucket["results"]):
                    found[result["line_item"]] += result["amount_micros"]
                assert sum(found.values()) == statement["total_micros"] > 0
                if group_by:
                    assert found == expected
            # A page that begins within the month goes on from what the month had come to.
            pages = [operator.get(PATH, params=asked | {"limit": 10, "page": page}, headers=headers) for page in PAGES]
            rows = [bucket for page in pages for bucket in (await page).json()["data"]]
            assert sum(one["amount_micros"] for row in rows for one in row["results"]) == statement["total_micros"]
