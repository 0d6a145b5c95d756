"""What is looked at when Prometheus asks: engines, ledger, database, limiter, as this process sees them.

An engine's figures bear the names of its own /metrics, with its deployment and replica. Every gateway tells of the
same engines and the same ledger: take the maximum over instances, not their sum.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from gateway.deployments.fleet import READY
from gateway.deployments.serving import Serving, state_of
from gateway.export.exporter import ExportState
from gateway.parts import Parts
from inference.protocol import WorkerLoad
from storage import StorageAway
from storage.ledger_health import LedgerHealth, ledger_health

WINDOW = timedelta(hours=1)
"""How far back unsettled requests are counted."""
REPLICA = ("deployment", "replica")
BY_PROPOSER = (*REPLICA, "proposer")
GAUGES: dict[str, Callable[[WorkerLoad], float]] = {
    "waiting_sequences": lambda load: load.waiting,
    "running_sequences": lambda load: load.running,
    "free_blocks": lambda load: load.free_blocks,
    "blocks": lambda load: load.num_blocks,
    "speculation_config_version": lambda load: load.config_version,
}
COUNTERS: dict[str, Callable[[WorkerLoad], float]] = {
    "passes_total": lambda load: load.passes,
    "preemptions_total": lambda load: load.preemptions,
}
Loads = Sequence[tuple[tuple[str, str], WorkerLoad]]


async def look(parts: Parts) -> list[Metric]:
    health = await _health(parts)
    return [
        _flag("specgate_database_up", "Whether the database answers.", health is not None),
        _flag("specgate_limiter_degraded", "Whether limits are enforced by shares alone.", parts.limiter.is_degraded),
        GaugeMetricFamily(
            "specgate_ledger_spooled_settlements", "Waiting in a file for the database.", parts.books.num_spooled
        ),
        *(_ledger(health, datetime.now(UTC)) if health else ()),
        *(_export(parts.exporter.state) if parts.exporter else ()),
        *_deployments(list(parts.fleet.servings.values())),
        *_engines(list(_loads(parts.fleet.servings.values()))),
    ]


async def _health(parts: Parts) -> LedgerHealth | None:
    """None: the database does not answer."""
    try:
        async with asyncio.timeout(parts.settings.storage_seconds), parts.db.view() as session:
            return await ledger_health(session, datetime.now(UTC) - WINDOW)
    except (StorageAway, TimeoutError):
        return None


def _ledger(health: LedgerHealth, now: datetime) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "specgate_ledger_unsettled_requests", "Opened within the last hour, not settled yet.", health.unsettled
    )
    age = GaugeMetricFamily(
        "specgate_rollup_age_seconds", "Since the end of the last hour that is rolled up.", labels=("rollup",)
    )
    for name, through in health.rolled_up.items():
        age.add_metric((name,), (now - through).total_seconds())
    yield age


def _export(state: ExportState) -> Iterator[Metric]:
    about = "How long the oldest entry that is due for the webhook has been so."
    yield GaugeMetricFamily("specgate_export_lag_seconds", about, state.behind_seconds)


def _deployments(servings: Sequence[Serving]) -> Iterator[Metric]:
    up = GaugeMetricFamily("specgate_deployment_up", "Whether it takes requests.", labels=("deployment",))
    info = GaugeMetricFamily(
        "specgate_deployment_info",
        "Always 1: what it does, and the drafter that is asked of it now.",
        labels=("deployment", "phase", "drafter", "drafter_version"),
    )
    for serving in servings:
        name, phase = serving.deployment.spec.name, state_of(serving).phase
        up.add_metric((name,), phase in READY)
        info.add_metric((name, phase, serving.speculation.kind, str(serving.version.version)), 1)
    yield from (up, info)


def _loads(servings: Iterable[Serving]) -> Iterator[tuple[tuple[str, str], WorkerLoad]]:
    for serving in servings:
        for replica in serving.current.replicas if serving.current else ():
            if replica.load is not None:
                yield (serving.deployment.spec.name, str(replica.index)), replica.load


def _engines(loads: Loads) -> Iterator[Metric]:
    for name, read in GAUGES.items():
        gauge = GaugeMetricFamily(f"specgate_engine_{name}", "As the engine says.", labels=REPLICA)
        yield _each(gauge, loads, read)
    for name, read in COUNTERS.items():
        counter = CounterMetricFamily(f"specgate_engine_{name}", "As the engine says.", labels=REPLICA)
        yield _each(counter, loads, read)
    faults = CounterMetricFamily("specgate_engine_drafter_faults_total", "Drafts lost to faults.", labels=BY_PROPOSER)
    resting = GaugeMetricFamily("specgate_engine_drafter_resting", "1 for a drafter that rests.", labels=BY_PROPOSER)
    for replica, load in loads:
        for proposer, number in load.drafter_faults.items():
            faults.add_metric((*replica, proposer), number)
        for proposer in load.resting_drafters:
            resting.add_metric((*replica, proposer), 1)
    yield from (faults, resting)


Family = TypeVar("Family", GaugeMetricFamily, CounterMetricFamily)


def _each(family: Family, loads: Loads, read: Callable[[WorkerLoad], float]) -> Family:
    for replica, load in loads:
        family.add_metric(replica, read(load))
    return family


def _flag(name: str, about: str, holds: bool) -> Metric:
    return GaugeMetricFamily(name, about, int(holds))
