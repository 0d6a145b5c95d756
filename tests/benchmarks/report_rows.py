"""Made-up settled rows, many and fast: an hour at a time, as tuples in the order of COLUMNS. Seeded.

200 tenants with 5 keys each, busy by rank, on 5 deployments with 3 workloads, 4 proposers and 2 % controls. The
figures are drawn from a few thousand that were worked out before.
"""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from storage.entries import settle_values
from storage.models import EPOCH
from storage.values import Figures, ProposerFigures, Settlement

END = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""The end of the last hour that is full. Reports are asked half an hour later."""
NOW = END + timedelta(minutes=30)
TENANTS, KEYS, DEPLOYMENTS = 200, 5, 5
WORKLOADS = ("edits", "chat", None)
PROPOSERS = ("prediction", "lookup", "suffix", "eagle")
POOL = 4096
HOUR, MICROSECOND = timedelta(hours=1), timedelta(microseconds=1)
JSONS = ("by_proposer", "timings", "config_versions")


class Rows:
    def __init__(self, number: int, days: int, seed: int = 1) -> None:
        self._draw = random.Random(seed)
        self.start = END - timedelta(days=days)
        self.hours = days * 24 + 1
        self._an_hour = number / (days * 24 + 0.5)
        self._figures = [_figures(self._draw) for _ in range(POOL)]
        self._jsons = [{name: json.dumps(values[name]) for name in JSONS} for values in self._figures]
        self._who = [_who(self._draw, rank) for rank in range(TENANTS * KEYS)]
        self._weights = [1 / (rank // KEYS + 10) for rank in range(TENANTS * KEYS)]
        self._number = 0
        self.columns = tuple(self._row(0, self._who[0], 0))

    def by_hour(self) -> Iterator[tuple[datetime, list[dict[str, Any]]]]:
        """The last is half an hour."""
        for number in range(self.hours):
            at = self.start + number * HOUR
            span = HOUR if at < END else NOW - END
            yield at, self._rows(at, span, round(self._an_hour * (span / HOUR)))

    def _rows(self, at: datetime, span: timedelta, number: int) -> list[dict[str, Any]]:
        draw, first, width = self._draw, (at - EPOCH) // MICROSECOND, span // MICROSECOND
        moments = sorted(first + int(draw.random() * width) for _ in range(number))
        people = draw.choices(self._who, self._weights, k=number)
        return [self._row(moment, who, draw.randrange(POOL)) for moment, who in zip(moments, people, strict=True)]

    def _row(self, at: int, who: dict[str, Any], figures: int) -> dict[str, Any]:
        self._number += 1
        name = f"{self._number:032x}"
        pinned = _pinned(self._draw, who)
        entry = {"entry_id": name, "request_id": f"req_{name}", "kind": "settle", "seq": 2**31 - 1, "at": at}
        return self._figures[figures] | pinned | entry

    def as_tuple(self, row: dict[str, Any], jsons: dict[int, tuple[str, ...]]) -> tuple[Any, ...]:
        """With JSON as text, which is written once for all rows that share figures."""
        texts = jsons.get(id(row["timings"]))
        if texts is None:
            texts = jsons[id(row["timings"])] = tuple(json.dumps(row[name]) for name in JSONS)
        return (*(row[name] for name in self.columns if name not in JSONS), *texts)

    @property
    def order(self) -> tuple[str, ...]:
        """Of the columns in `as_tuple`."""
        return (*(name for name in self.columns if name not in JSONS), *JSONS)


def as_object(row: dict[str, Any]) -> Any:
    """As the fold reads it."""
    return SimpleNamespace(**row)


def _who(draw: random.Random, rank: int) -> dict[str, Any]:
    tenant, key = divmod(rank, KEYS)
    home = draw.randrange(DEPLOYMENTS)
    return {
        "tenant_id": f"tenant-{tenant:03d}",
        "project_id": f"proj_{tenant:03d}{key % 2}",
        "key_id": f"key{tenant:03d}{key:06d}",
        "home": home,
    }


def _pinned(draw: random.Random, who: dict[str, Any]) -> dict[str, Any]:
    """Four in five requests of a key go to one deployment."""
    chance = draw.random()
    deployment = who["home"] if chance < 0.8 else int(chance * 1000) % DEPLOYMENTS
    return {
        "tenant_id": who["tenant_id"],
        "project_id": who["project_id"],
        "key_id": who["key_id"],
        "model": f"model-{deployment}",
        "deployment_id": f"dep_{deployment}",
        "config_version": 2,
        "price_version": 1,
        "workload": WORKLOADS[int(chance * 100_000) % 3],
        "cohort": "control" if int(chance * 10_000_000) % 50 == 0 else "treated",
        "holdout_ppm": 20_000,
        "route": "/v1/chat/completions",
        "owner": "bench",
        "rejected_prediction": "free",
        "choices": 1,
    }


def _figures(draw: random.Random) -> dict[str, Any]:
    proposers = draw.sample(PROPOSERS, draw.choice([0, 1, 2, 2]))
    accepted = {name: draw.randint(0, 40) for name in proposers}
    steps, total = draw.randint(10, 200), sum(accepted.values())
    decode = int(steps * draw.lognormvariate(10, 0.4))
    times = {"queue": draw.expovariate(1 / 2000), "prefill": draw.lognormvariate(11, 0.6), "decode": decode}
    tokens = steps + total + 1
    figures = Figures(
        final=draw.random() < 0.98,
        prompt_tokens=draw.randint(20, 4000),
        generated_tokens=tokens,
        delivered_tokens=tokens,
        visible_tokens=tokens,
        completion_tokens=tokens,
        steps=steps,
        accepted_delivered=total,
        choices_with_output=1,
        timings={name: value / 1e6 for name, value in times.items()} | {"verify": decode / 1e6},
        by_proposer={name: ProposerFigures(20, n + 15, n, _positions(n)) for name, n in accepted.items()},
    )
    values = settle_values(Settlement("r", "completed", figures), EPOCH)
    return {name: value for name, value in values.items() if name != "at"}


def _positions(accepted: int) -> tuple[int, ...]:
    return tuple(-(-accepted // 2 ** (n + 1)) for n in range(min(8, accepted)))
