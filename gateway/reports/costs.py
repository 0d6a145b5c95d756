"""OpenAI's costs: what each day added to the month's bill. Pure.

A line of a bill (a deployment, a version of its prices, an item) is rounded once, for the month as a whole. So that
days add up to it to the unit, a day's part is the month so far, rounded, less the month up to the day before: never
the day's own tokens rounded by themselves. Days are whole ones, in UTC. Grouped by project or key, each has lines of
its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gateway.reports.figures import Object
from gateway.usage_query import GROUPS, ReportQuery
from storage.bills import PINNED, used_in
from storage.money import FREE, ITEMS, Item, Price, cost
from storage.prices import Pinned
from storage.usage import Group, UsageRow

SPLIT: tuple[Group, ...] = ("tenant_id", *PINNED)
"""What has a bill, and lines of it."""
NAMES: Mapping[Item, str] = {
    "input": "input_tokens",
    "cached": "cached_input_tokens",
    "output": "output_tokens",
    "rejected": "rejected_prediction_tokens",
}
ADJUSTMENTS = "adjustments"
MICROS = 1_000_000
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Charge:
    """What one line of a bill came to on one day."""

    day: datetime
    group: Mapping[str, Any]
    line_item: str
    tokens: int
    micros: int


@dataclass(frozen=True, slots=True)
class Terms:
    prices: Mapping[Pinned, Price]
    names: Mapping[str, str]
    """Of deployments."""
    currency: str


def charges(rows: Iterable[UsageRow], terms: Terms) -> Iterator[Charge]:
    """Of days in their order, from the first of a month on."""
    so_far: dict[Key, int] = defaultdict(int)
    for row in rows:
        pinned: Any = tuple(row.group[name] for name in PINNED)
        price, used = terms.prices.get(pinned, FREE), used_in(row)
        for item in ITEMS:
            line = (row.bucket.year, row.bucket.month, *row.group.values(), item)
            before = so_far[line]
            so_far[line] += used.of(item) * price.of(item)
            if used.of(item):
                micros = cost(so_far[line]) - cost(before)
                yield Charge(row.bucket, row.group, _line_item(row, item, terms), used.of(item), micros)
        if row.adjust_micros:
            yield Charge(row.bucket, row.group, ADJUSTMENTS, 0, row.adjust_micros)


def results(found: Iterable[Charge], query: ReportQuery, currency: str) -> Iterator[tuple[datetime, Object]]:
    """By day and group; those that no filter leaves out."""
    wanted = query.filters.get("line_items")
    sums: dict[Key, list[int]] = defaultdict(lambda: [0, 0])
    for charge in found:
        if wanted is None or charge.line_item in wanted:
            key = (charge.day, *(_member(charge, name) for name in query.group_by))
            sums[key][0] += charge.tokens
            sums[key][1] += charge.micros
    for (day, *values), (tokens, micros) in sorted(sums.items(), key=lambda item: tuple(map(str, item[0]))):
        yield day, result(dict(zip(query.group_by, values, strict=True)), tokens, micros, currency)


def result(group: Mapping[str, Any], tokens: int, micros: int, currency: str) -> Object:
    """`amount_micros` is the amount in whole micro-units; `value`, as OpenAI tells it, is a number of `currency`."""
    has_quantity = group.get("line_item", ADJUSTMENTS) != ADJUSTMENTS
    return {
        "object": "organization.costs.result",
        "amount": {"value": micros / MICROS, "currency": currency.lower()},
        "amount_micros": micros,
        "line_item": group.get("line_item"),
        "quantity": tokens if has_quantity else None,
        "quantity_unit": "tokens" if has_quantity else None,
        "project_id": group.get("project_id"),
        "api_key_id": group.get("api_key_id"),
        "organization_id": group.get("organization_id"),
        "user_id": None,
        "api_source": group.get("api_source"),
    }


def _line_item(row: UsageRow, item: Item, terms: Terms) -> str:
    deployment = row.group["deployment_id"]
    return f"{terms.names.get(str(deployment), deployment or 'unassigned')}, {NAMES[item]}"


def _member(charge: Charge, name: str) -> Any:
    match name:
        case "line_item":
            return charge.line_item
        case "api_source":
            return "unlabeled"
        case _:
            return charge.group[GROUPS[name]] if name in GROUPS else None
