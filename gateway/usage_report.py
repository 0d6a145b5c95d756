"""Reports as they are asked for: read from storage, told by `gateway.reports`. For the API and the dashboard alike.

`tenant_id` is the only tenant that a report may tell of; None: it tells of all.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby

from gateway.reports import completions, speculation
from gateway.reports.break_even import Spent, break_even, by_deployment
from gateway.reports.figures import Object
from gateway.reports.pages import Report
from gateway.usage_query import ReportQuery, utc
from storage.database import Session
from storage.models import EPOCH
from storage.rollups.facts import Facts
from storage.usage import Group, ProposerTotals, Usage, UsageQuery, UsageReport, UsageRow, merged

NOTHING = Facts().as_row(EPOCH, {})
"""What no request used: told in any report, it has every member."""
CONTROL = "control"
PARTS: tuple[Group, ...] = ("deployment_id", "cohort")
"""What a group must be split by to say whether speculation pays."""
Told = Iterable[tuple[datetime, Object]]
"""Results, by the start of their bucket."""


async def completions_report(session: Session, query: ReportQuery, tenant_id: str | None) -> Report:
    found = await _read(session, query, query.for_storage(tenant_id))
    told = ((row.bucket, completions.result(row, query)) for row in found.rows)
    return _report(query, found, told, completions.result(NOTHING, query))


async def proposers_report(session: Session, query: ReportQuery, tenant_id: str | None) -> Report:
    """What `speculation_report` is, grouped by proposer."""
    found = await _read(session, query, query.for_storage(tenant_id))
    told = (
        (row.bucket, speculation.proposer_result(row, name, totals))
        for row in found.rows
        for name, totals in row.by_proposer.items()
    )
    return _report(query, found, told, speculation.proposer_result(NOTHING, "", ProposerTotals()))


async def speculation_report(session: Session, query: ReportQuery, tenant_id: str | None) -> Report:
    """Controls are taken from every tenant; no more is told of them than how many they are and their time a token."""
    asked = query.for_storage(tenant_id)
    found = await _read(session, query, _in_parts(asked))
    controls = await _controls(session, asked)

    def tell(row: UsageRow, parts: Sequence[UsageRow]) -> Object:
        speculating = by_deployment(part for part in parts if part.group["cohort"] != CONTROL)
        return speculation.result(row, break_even(speculating, controls))

    told = ((row.bucket, tell(row, parts)) for row, parts in _wholes(found.rows, asked.group_by))
    return _report(query, found, told, tell(NOTHING, []))


async def _read(session: Session, query: ReportQuery, asked: UsageQuery) -> UsageReport:
    usage = Usage(session)
    return UsageReport([], await usage.rolled_up_through()) if query.asks_for_nothing else await usage.report(asked)


async def _controls(session: Session, asked: UsageQuery) -> dict[str | None, Spent]:
    """By deployment, of the whole range."""
    every = UsageQuery(
        asked.start, asked.end, None, ["deployment_id"], deployment_ids=asked.deployment_ids, cohorts=[CONTROL]
    )
    return by_deployment(await Usage(session).rows(every))


def _in_parts(asked: UsageQuery) -> UsageQuery:
    return replace(asked, group_by=list(dict.fromkeys((*asked.group_by, *PARTS))))


def _wholes(parts: Iterable[UsageRow], group_by: Sequence[Group]) -> Iterator[tuple[UsageRow, Sequence[UsageRow]]]:
    """Each group, and the parts of it; they follow each other, since rows are in the order of their groups."""
    for (bucket, *values), found in groupby(parts, lambda row: (row.bucket, *(row.group[name] for name in group_by))):
        rows = list(found)
        yield merged(rows, bucket, dict(zip(group_by, values, strict=True))), rows


def _report(query: ReportQuery, found: UsageReport, told: Told, template: Object) -> Report:
    by_bucket: dict[datetime, list[Object]] = {utc(start - start % query.width): [] for start, _ in query.buckets}
    for bucket, result in told:
        by_bucket[bucket].append(result)
    return Report(query, list(by_bucket.values()), found.rolled_up_through, template)
