"""Reports as they are asked for: read from storage, told by `gateway.reports`. For the API and the dashboard alike.

`tenant_id` is the only tenant that a report may tell of; None: it tells of all.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from gateway.reports import completions, costs, speculation
from gateway.reports.break_even import break_even
from gateway.reports.figures import Object
from gateway.reports.pages import Report
from gateway.reports.savings import savings_object
from gateway.usage_query import ReportQuery, utc
from storage.database import Session
from storage.deployments import Deployments
from storage.models import EPOCH, MICROSECOND
from storage.prices import Prices
from storage.rollups.facts import Facts
from storage.savings.book import SavingsBook
from storage.usage import Usage, UsageQuery, UsageReport, UsageRow
from storage.values import ProposerFigures

NOTHING = Facts().as_row(EPOCH, {})
"""What no request used: told in any report, it has every member."""
Told = Iterable[tuple[datetime, Object]]
"""Results, by the start of their bucket."""


async def completions_report(session: Session, query: ReportQuery, tenant_id: str | None) -> Report:
    found = await _read(session, query, tenant_id)
    told = ((row.bucket, completions.result(row, query)) for row in found.rows)
    return _report(query, found, told, completions.result(NOTHING, query))


async def proposers_report(session: Session, query: ReportQuery, tenant_id: str | None) -> Report:
    """What `speculation_report` is, grouped by proposer."""
    found = await _read(session, query, tenant_id)
    told = (
        (row.bucket, speculation.proposer_result(row, name, totals))
        for row in found.rows
        for name, totals in row.by_proposer.items()
    )
    return _report(query, found, told, speculation.proposer_result(NOTHING, "", ProposerFigures()))


async def speculation_report(session: Session, query: ReportQuery, tenant_id: str | None) -> Report:
    """Controls are taken from every tenant; no more is told of them than how many they are and their time a token."""
    found = await _read(session, query, tenant_id)
    savings = await SavingsBook(session).savings(query.for_storage(tenant_id))

    def tell(row: UsageRow) -> Object:
        saving = savings.get((_micros(row.bucket), *row.group.values()))
        return speculation.result(row, break_even(row, saving), savings_object(saving))

    return _report(query, found, ((row.bucket, tell(row)) for row in found.rows), tell(NOTHING))


async def costs_report(session: Session, query: ReportQuery, tenant_id: str | None, currency: str | None) -> Report:
    """`currency`: that of the settings, until a price has fixed it."""
    asked = query.for_storage(tenant_id)
    wide = replace(
        asked, start=asked.start.replace(day=1), group_by=list(dict.fromkeys((*asked.group_by, *costs.SPLIT)))
    )
    found = await _found(session, query, wide)
    terms = await _terms(session, found.rows, currency)
    first = query.buckets[0][0]
    charges = (one for one in costs.charges(found.rows, terms) if one.day >= utc(first))
    told = costs.results(charges, query, terms.currency)
    return _report(query, found, told, costs.result({}, 0, 0, terms.currency))


async def _terms(session: Session, rows: Iterable[UsageRow], currency: str | None) -> costs.Terms:
    prices = Prices(session)
    ids = {id for row in rows if isinstance(id := row.group["deployment_id"], str)}
    names = await Deployments(session).names(ids)
    return costs.Terms(await prices.of(ids), names, await prices.currency(currency))


async def _read(session: Session, query: ReportQuery, tenant_id: str | None) -> UsageReport:
    return await _found(session, query, query.for_storage(tenant_id))


async def _found(session: Session, query: ReportQuery, asked: UsageQuery) -> UsageReport:
    usage = Usage(session)
    if query.asks_for_nothing:
        return UsageReport([], await usage.rolled_up_through())
    return await usage.report(asked)


def _report(query: ReportQuery, found: UsageReport, told: Told, template: Object) -> Report:
    by_bucket: dict[datetime, list[Object]] = {utc(start - start % query.width): [] for start, _ in query.buckets}
    for bucket, result in told:
        by_bucket[bucket].append(result)
    return Report(query, list(by_bucket.values()), found.rolled_up_through, template)


def _micros(at: datetime) -> int:
    return (at - EPOCH) // MICROSECOND
