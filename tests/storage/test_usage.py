"""The report's sums are those of the settled rows, whatever the buckets and groups."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pytest
from sqlalchemy import event, insert, text

from storage import Database
from storage.entries import open_values, settle_values
from storage.histogram import Histogram
from storage.ids import uuid7
from storage.ledger import Ledger
from storage.models import ledger_entries
from storage.usage import MEASURED, OUTCOMES, SUMMED, TIMINGS, Usage, UsageQuery, UsageRow, merged
from storage.values import ProposerFigures, Settlement
from tests.storage.entries import ENDED, open_requests, opening, settle

pytestmark = pytest.mark.anyio
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
MIDNIGHT = datetime(2026, 3, 29, tzinfo=UTC)
"""The night Europe's clocks change: UTC's do not."""


async def _rows(db: Database, query: UsageQuery) -> list[UsageRow]:
    async with db.view() as session:
        return await Usage(session).rows(query)


async def test_a_request_counts_where_it_was_settled(db: Database) -> None:
    await open_requests(db, "a", "b", at=MIDNIGHT - HOUR)
    await settle(db, "a", at=MIDNIGHT - timedelta(microseconds=1))
    await settle(db, "b", at=MIDNIGHT)
    rows = await _rows(db, UsageQuery(MIDNIGHT - DAY, MIDNIGHT + DAY, DAY))
    assert [(row.bucket, row.requests) for row in rows] == [(MIDNIGHT - DAY, 1), (MIDNIGHT, 1)]
    assert [row.requests for row in await _rows(db, UsageQuery(MIDNIGHT, MIDNIGHT + MINUTE, MINUTE))] == [1]
    assert await _rows(db, UsageQuery(MIDNIGHT + MINUTE, MIDNIGHT + DAY, MINUTE)) == []


async def test_every_figure_of_one_request(db: Database) -> None:
    await open_requests(db, "a")
    await settle(db, "a", at=MIDNIGHT)
    [row] = await _rows(db, UsageQuery(MIDNIGHT, MIDNIGHT + HOUR, HOUR, ("model",)))
    assert row.group == {"model": "tiny"}
    assert row.sums == {
        "prompt_tokens": 100,
        "cached_tokens": 48,
        "generated_tokens": 20,
        "delivered_tokens": 20,
        "visible_tokens": 20,
        "completion_tokens": 20,
        "prediction_tokens": 30,
        "accepted_prediction_tokens": 11,
        "rejected_prediction_tokens": 4,
        "steps": 7,
        "idle_passes": 1,
        "accepted_delivered": 12,
        "drafted_tokens": 20,
        "accepted_tokens": 12,
    }
    assert (row.requests, row.measured_requests, row.decode_tokens, row.mean_request_acceptance) == (1, 1, 19, 0.6)
    assert row.by_proposer == {
        "lookup": ProposerFigures(2, 4, 1, (1,)),
        "prediction": ProposerFigures(3, 16, 11, (3, 2, 2, 2, 2)),
    }
    assert row.timings == dict.fromkeys(TIMINGS, 0) | {"queue": 250_000, "prefill": 500_000, "decode": 1_500_000}
    assert row.outcomes == dict.fromkeys(OUTCOMES, 0) | {"completed": 1}
    spread = {"queue": 250_000, "prefill": 500_000, "decode": 1_500_000, "token": 78_947}
    assert row.latencies == {name: Histogram.of([micros]) for name, micros in spread.items()}


async def test_the_mean_rate_weighs_requests_alike_and_skips_those_without_drafts(db: Database) -> None:
    drafts = {"long": (90, 90), "short": (10, 0), "none": (0, 0)}
    for name, (drafted, accepted) in drafts.items():
        await open_requests(db, name)
        figures = replace(ENDED, by_proposer={"lookup": ProposerFigures(1, drafted, accepted)})
        await settle(db, name, figures, at=MIDNIGHT)
    [row] = await _rows(db, UsageQuery(MIDNIGHT, MIDNIGHT + DAY, DAY))
    assert (row.mean_request_acceptance, row.sums["accepted_tokens"], row.sums["drafted_tokens"]) == (0.5, 90, 100)


async def test_a_request_cut_by_a_dead_process_is_billed_but_not_measured(db: Database) -> None:
    await open_requests(db, "whole", "cut", "open")
    await settle(db, "whole", at=MIDNIGHT)
    partial = replace(ENDED, final=False, steps=3, visible_tokens=5, delivered_tokens=5, completion_tokens=5)
    async with db.unit() as session:
        await Ledger(session).settle(Settlement("cut", "engine_lost", partial, MIDNIGHT))
    [row] = await _rows(db, UsageQuery(MIDNIGHT, MIDNIGHT + DAY, DAY))
    assert (row.requests, row.measured_requests, row.sums["visible_tokens"]) == (2, 1, 25)
    assert row.decode_tokens == row.sums["steps"] + row.sums["accepted_delivered"] == 19
    assert row.by_proposer["prediction"].accepted == 11


async def _many(db: Database) -> None:
    """360 requests over two days: 3 tenants, 4 keys, 2 models; one in five cut. Written at once, to be quick."""
    async with db.unit() as session:
        await session.execute(insert(ledger_entries), [_settled(number) for number in range(360)])


def _settled(number: int) -> dict[str, Any]:
    tenant, key, model = f"t{number % 3}", f"key{number % 4}", ("tiny", "模型")[number % 2]
    at = MIDNIGHT + number * timedelta(minutes=7, seconds=13)
    opened = open_values(opening(f"r{number}", tenant_id=tenant, key_id=key, model=model), at)
    figures = replace(ENDED, prompt_tokens=100 + number, final=number % 5 > 0)
    settled = settle_values(Settlement(f"r{number}", "completed", figures), at)
    return opened | settled | {"entry_id": uuid7(), "kind": "settle", "seq": 1}


async def test_the_sum_of_buckets_and_of_groups_is_the_sum_of_rows(db: Database) -> None:
    await _many(db)
    end = MIDNIGHT + 3 * DAY
    expected = {"prompt_tokens": sum(100 + n for n in range(360)), "steps": 7 * 288, "visible_tokens": 20 * 360}
    for width in (MINUTE, HOUR, DAY):
        for group_by in ((), ("tenant_id",), ("key_id", "model"), ("tenant_id", "key_id", "model")):
            total: Counter[str] = Counter()
            proposers: Counter[str] = Counter()
            days = [MIDNIGHT + n * DAY for n in range(3)] if width == MINUTE else [MIDNIGHT]
            asked = [UsageQuery(day, min(end, day + 3 * DAY // len(days)), width, group_by) for day in days]  # type: ignore[arg-type]
            for row in chain(*[await _rows(db, query) for query in asked]):
                assert set(row.sums) == {*SUMMED, *MEASURED}
                assert row.bucket.timestamp() % width.total_seconds() == 0
                assert row.decode_tokens == row.sums["steps"] + row.sums["accepted_delivered"]
                total.update({"requests": row.requests, **row.sums})
                proposers.update({name: totals.accepted for name, totals in row.by_proposer.items()})
            assert {name: total[name] for name in expected} == expected
            assert total["requests"] == 360
            assert proposers == {"prediction": 11 * 288, "lookup": 288}


async def test_days_add_up_to_their_range_and_filters_to_the_whole(db: Database) -> None:
    await _many(db)
    days = [await _rows(db, UsageQuery(MIDNIGHT + n * DAY, MIDNIGHT + (n + 1) * DAY, DAY)) for n in range(3)]
    assert list(chain(*days)) == await _rows(db, UsageQuery(MIDNIGHT, MIDNIGHT + 3 * DAY, DAY))
    query = UsageQuery(MIDNIGHT, MIDNIGHT + 3 * DAY, DAY)
    by_tenant = [await _rows(db, replace(query, tenant_ids=[f"t{n}"])) for n in range(3)]
    assert [sum(row.requests for row in rows) for rows in by_tenant] == [120, 120, 120]
    both = await _rows(db, replace(query, tenant_ids=["t0"], key_ids=["key0", "key1"], models=["tiny"]))
    assert sum(row.requests for row in both) == sum(n % 3 == 0 and n % 4 == 0 for n in range(360))
    assert await _rows(db, replace(query, models=["' OR 1=1 --"])) == []


async def test_a_report_of_one_tenant_goes_through_its_index(db: Database) -> None:
    await _many(db)
    async with db.unit() as session:
        await session.execute(text("ANALYZE ledger_entries"))
    ran: list[tuple[str, Any]] = []
    async with db.view() as session:
        sync = session.sync_connection
        assert sync is not None
        event.listen(sync, "before_cursor_execute", lambda *args: ran.append((args[2], args[3])))
        if session.dialect.name == "postgresql":
            # With 720 rows the planner would rather read them all.
            await session.execute(text("SET LOCAL enable_seqscan = off"))
        await Usage(session).rows(UsageQuery(MIDNIGHT, MIDNIGHT + 3 * DAY, DAY, (), ["t1"]))
        explain = "EXPLAIN QUERY PLAN " if session.dialect.name == "sqlite" else "EXPLAIN "
        [settled] = [(statement, parameters) for statement, parameters in ran if "kind = 'settle'" in statement]
        plan = await session.exec_driver_sql(explain + settled[0], settled[1])
        assert "ix_ledger_entries_tenant_id_at" in repr(plan.all())


async def test_minutes_of_more_than_a_day_are_refused() -> None:
    UsageQuery(MIDNIGHT, MIDNIGHT + DAY, MINUTE)
    UsageQuery(MIDNIGHT, MIDNIGHT + 90 * DAY, HOUR)
    with pytest.raises(ValueError, match="at most 24 hours"):
        UsageQuery(MIDNIGHT, MIDNIGHT + DAY + MINUTE, MINUTE)


async def test_without_a_width_the_range_is_one_bucket(db: Database) -> None:
    await _many(db)
    query = UsageQuery(MIDNIGHT, MIDNIGHT + 3 * DAY, None, ("model",))
    whole = await _rows(db, query)
    days = await _rows(db, replace(query, width=DAY))
    assert [row.bucket for row in whole] == [MIDNIGHT, MIDNIGHT]
    for row in whole:
        assert row == merged((day for day in days if day.group == row.group), MIDNIGHT, row.group)


async def test_what_was_not_noted_is_a_group_and_can_be_asked_for(db: Database) -> None:
    for name, deployment, cohort in (("a", "dep_1", "treated"), ("b", "dep_1", "control"), ("c", None, None)):
        await open_requests(db, name, deployment_id=deployment, config_version=deployment and 3, cohort=cohort)
        await settle(db, name, at=MIDNIGHT)
    query = UsageQuery(MIDNIGHT, MIDNIGHT + DAY, DAY, ("deployment_id", "config_version", "cohort"))
    found = [tuple(row.group.values()) for row in await _rows(db, query)]
    assert found == [(None, None, None), ("dep_1", 3, "control"), ("dep_1", 3, "treated")]
    assert [row.requests for row in await _rows(db, replace(query, group_by=(), cohorts=["control", None]))] == [2]
    assert [row.requests for row in await _rows(db, replace(query, group_by=(), config_versions=[3]))] == [2]


async def test_nothing_settled_is_nothing_reported(db: Database) -> None:
    await open_requests(db, "open")
    assert await _rows(db, UsageQuery(MIDNIGHT, MIDNIGHT + 1000 * DAY, DAY)) == []
