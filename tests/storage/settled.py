"""Random settled rows, written at once: what reports and roll-ups add up."""

import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, get_args

from sqlalchemy import insert

from storage import Database
from storage.entries import open_values, settle_values
from storage.ids import uuid7
from storage.models import ledger_entries
from storage.values import Figures, Outcome, ProposerFigures, Settlement
from tests.storage.entries import ENDED, opening

HOUR = timedelta(hours=1)
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


def settled_row(request_id: str, at: datetime, figures: Figures = ENDED, **changes: Any) -> dict[str, Any]:
    outcome: Outcome = changes.pop("outcome", "completed")
    opened = open_values(opening(request_id, **changes), at)
    return opened | settle_values(Settlement(request_id, outcome, figures), at) | _entry("settle")


def adjustment(request_id: str, at: datetime, micros: int, **changes: Any) -> dict[str, Any]:
    values = settle_values(Settlement(request_id, "completed", Figures()), at)
    opened = open_values(opening(request_id, **changes), at)
    return opened | values | _entry("adjust") | {"outcome": None, "micros": micros}


def of_an_old_release(row: dict[str, Any]) -> dict[str, Any]:
    """Without projects, deployments, cohorts and integer times."""
    none = ("project_id", "deployment_id", "config_version", "price_version", "cohort")
    return row | dict.fromkeys(none) | {name: 0 for name in row if name.endswith("_us")}


def random_rows(seed: int, number: int, start: datetime, span: timedelta) -> list[dict[str, Any]]:
    """Of 3 tenants with 2 projects and 4 keys each; one in ten an adjustment, one in five of an old release.

    In eight hours of the span: so many steps make a roll-up long enough.
    """
    draw = random.Random(seed)
    hours = draw.sample(range(span // HOUR), min(8, span // HOUR))
    moments = [start + (draw.choice(hours) + draw.random()) * HOUR for _ in range(number)]
    return [_random_row(draw, f"r{seed}-{n}", at) for n, at in enumerate(moments)]


def _random_row(draw: random.Random, request_id: str, at: datetime) -> dict[str, Any]:
    tenant, key = draw.choice("abc"), draw.randrange(4)
    who = {"tenant_id": tenant, "project_id": f"proj_{tenant}{key % 2}", "key_id": f"{tenant}-{key}"}
    versions = {"config_version": draw.choice([1, 2]), "price_version": draw.choice([None, 1])}
    what = {"model": draw.choice(["tiny", "模型"]), "deployment_id": draw.choice(["dep_1", "dep_2"])}
    kind = {"workload": draw.choice([None, "edits"]), "cohort": draw.choice([None, "treated", "control"])}
    changes: dict[str, Any] = who | versions | what | kind
    if draw.random() < 0.1:
        return adjustment(request_id, at, draw.randint(-500, 500), **changes)
    row = settled_row(request_id, at, _figures(draw), outcome=draw.choice(OUTCOMES), **changes)
    return of_an_old_release(row) if draw.random() < 0.2 else row


def _figures(draw: random.Random) -> Figures:
    steps, accepted, decode = draw.randint(0, 40), draw.randint(0, 30), draw.uniform(0, 3)
    proposers = {name: ProposerFigures(2, accepted + 3, accepted, (accepted, 0)) for name in ("lookup", "prediction")}
    return replace(
        ENDED,
        steps=steps,
        accepted_delivered=accepted,
        generated_tokens=steps + accepted + 1,
        final=draw.random() < 0.8,
        by_proposer={name: proposers[name] for name in draw.sample(sorted(proposers), draw.randint(0, 2))},
        timings={"queue": draw.uniform(0, 0.1), "prefill": draw.uniform(0, 0.5), "decode": decode, "verify": decode},
    )


def _entry(kind: str) -> dict[str, Any]:
    return {"entry_id": uuid7(), "kind": kind, "seq": 1, "micros": 0}


async def write(db: Database, rows: Iterable[dict[str, Any]]) -> None:
    async with db.unit() as session:
        await session.execute(insert(ledger_entries), list(rows))
