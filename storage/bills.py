"""What usage costs: a line for each deployment, version of its prices and item. Pure.

Costs are never stored: prices never change, so a bill follows from the sums of tokens whenever it is asked for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from storage.money import FREE, Line, Price, Used
from storage.prices import Pinned
from storage.values.usage import Group, UsageRow

PINNED: tuple[Group, ...] = ("deployment_id", "price_version")
"""What usage is grouped by to be billed."""


@dataclass(frozen=True, slots=True)
class BillLine:
    deployment_id: str | None
    """None: entries of releases without deployments, which cost nothing."""
    price_version: int | None
    line: Line


def used_in(row: UsageRow) -> Used:
    completion, visible = row.sums["completion_tokens"], row.sums["visible_tokens"]
    return Used(row.sums["prompt_tokens"], completion, row.sums["cached_tokens"], completion - visible)


def bill(rows: Iterable[UsageRow], prices: Mapping[Pinned, Price]) -> list[BillLine]:
    """`rows`: grouped by `PINNED`, one row for each."""
    lines: list[BillLine] = []
    for row in rows:
        deployment_id, version = (row.group[name] for name in PINNED)
        assert deployment_id is None or isinstance(deployment_id, str)
        assert version is None or isinstance(version, int)
        price = prices.get((deployment_id, version), FREE)
        lines += [BillLine(deployment_id, version, line) for line in price.lines(used_in(row))]
    return lines
