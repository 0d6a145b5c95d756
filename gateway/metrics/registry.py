"""The counters and histograms of one gateway, or of several processes behind one socket (`shared`)."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from gateway.metrics.increments import increments
from gateway.metrics.names import COUNTERS, HISTOGRAMS
from gateway.metrics.settled import Account, Settled
from gateway.metrics.shared import shared_folder

MOST_ACCOUNTS = 2000
"""So many have series of their own; tenants and versions beyond them are counted as `other`."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNKNOWN_METHOD = "_OTHER"
"""OpenTelemetry's word."""


class Metrics:
    """`folder`: where processes keep figures that they share. None: this one counts for itself."""

    def __init__(self, folder: Path | None = None, most_accounts: int = MOST_ACCOUNTS) -> None:
        own = CollectorRegistry()
        self._counters = {name: Counter(name, m.about, m.labels, registry=own) for name, m in COUNTERS.items()}
        self._histograms = {
            name: Histogram(name, m.about, m.labels, buckets=m.buckets, registry=own) for name, m in HISTOGRAMS.items()
        }
        self._adding: dict[tuple[str, tuple[str, ...]], Callable[[float], None]] = {}
        self._accounts: set[Account] = set()
        self._most_accounts = most_accounts
        self.source = cast(Collector, own if folder is None else _files(folder))
        """What a scrape reads."""

    @classmethod
    def of_this_process(cls) -> "Metrics":
        return cls(shared_folder())

    def settled(self, settled: Settled) -> None:
        for series, amount in increments(self._bounded(settled)):
            self._add(series, amount)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Any HTTP request, by its route's template."""
        labels = (method if method in METHODS else UNKNOWN_METHOD, route, str(status))
        self._add(("http_server_request_duration_seconds", labels), seconds)

    def _bounded(self, settled: Settled) -> Settled:
        account = settled.account
        if account in self._accounts:
            return settled
        if len(self._accounts) < self._most_accounts:
            self._accounts.add(account)
            return settled
        return settled.pooled

    def _add(self, series: tuple[str, tuple[str, ...]], amount: float) -> None:
        add = self._adding.get(series)
        if add is None:
            add = self._adding[series] = self._new(*series)
        add(amount)

    def _new(self, name: str, labels: tuple[str, ...]) -> Callable[[float], None]:
        if name in self._counters:
            return self._counters[name].labels(*labels).inc
        return self._histograms[name].labels(*labels).observe


def _files(folder: Path) -> object:
    return MultiProcessCollector(None, str(folder))  # type: ignore[no-untyped-call]
