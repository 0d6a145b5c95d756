"""The overview's figures: three reports of one range, as the API tells them to the same key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gateway.dashboard.filters import Filters
from gateway.dashboard.tenants import Tenancy
from gateway.reports.figures import Object
from gateway.reports.pages import Report
from gateway.usage_query import ReportQuery
from gateway.usage_report import completions_report, costs_report, speculation_report
from storage.database import Session
from storage.deployments import Deployments
from storage.prices import Prices

Series = Sequence[tuple[int, Mapping[str, Object]]]
WHOLE = 3600 * 3_000_000
"""Seconds of a bucket that every range lies in."""
DAY = 86_400
BY_DRAFTER = ("deployment_id", "drafter_version")


@dataclass(frozen=True, slots=True)
class Row:
    """What one drafter version of one deployment did."""

    name: str
    """The deployment's, else its id."""
    figures: Object


@dataclass(frozen=True, slots=True)
class Money:
    micros: int
    currency: str


@dataclass(frozen=True, slots=True)
class Figures:
    total: Object
    series: Series
    """By bucket: its start, and what each proposer did in it."""
    rows: Sequence[Row]
    finalised: datetime | None
    cost: Money

    @property
    def losing(self) -> list[Row]:
        """Where speculation costs more than it gives."""
        return [row for row in self.rows if row.figures["break_even"]["verdict"] == "does_not_pay"]


async def figures(session: Session, filters: Filters, tenancy: Tenancy, currency: str | None) -> Figures:
    """`currency`: that of the settings, until a price has fixed it."""
    width = int(filters.bucket.total_seconds())
    whole = await speculation_report(session, _query(filters, tenancy, WHOLE), tenancy.tenant_id)
    series = await completions_report(session, _query(filters, tenancy, width), tenancy.tenant_id)
    table = await by_drafter(session, filters, tenancy)
    names = {one.id: one.spec.name for one in await Deployments(session).list()}
    return Figures(
        total=next(whole.rows(), whole.row_template),
        series=[
            (start, results[0]["speculation"]["by_proposer"] if results else {})
            for (start, _), results in zip(series.query.buckets, series.results, strict=True)
        ],
        rows=[Row(_name(row, names), row) for row in table.rows()],
        finalised=whole.finalised,
        cost=await _cost(session, filters, tenancy, currency),
    )


async def by_drafter(session: Session, filters: Filters, tenancy: Tenancy) -> Report:
    return await speculation_report(session, _query(filters, tenancy, WHOLE, BY_DRAFTER), tenancy.tenant_id)


async def _cost(session: Session, filters: Filters, tenancy: Tenancy, currency: str | None) -> Money:
    report = await costs_report(session, _query(filters, tenancy, DAY), tenancy.tenant_id, currency)
    micros = sum(result["amount_micros"] for results in report.results for result in results)
    return Money(micros, await Prices(session).currency(currency))


def _query(filters: Filters, tenancy: Tenancy, width: int, group_by: tuple[str, ...] = ()) -> ReportQuery:
    start, end = int(filters.start.timestamp()), int(filters.end.timestamp())
    return ReportQuery(
        start=start,
        end=end,
        width=width,
        first=start - start % width,
        limit=(end - start) // width + 1,
        group_by=group_by,
        filters={"api_key_ids": (tenancy.key_id,)} if tenancy.key_id else {},
    )


def _name(row: Object, names: Mapping[str, str]) -> str:
    return names.get(row["deployment_id"], row["deployment_id"] or "before deployments")
