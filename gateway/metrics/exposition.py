"""Counted figures and looked-at state as one answer to a scrape, in the format that the scraper prefers."""

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


def exposition(counted: Collector, state: Sequence[Metric], accept: str) -> tuple[bytes, str]:
    """The text and its content type: OpenMetrics where `accept` asks for it, else Prometheus' own."""
    registry = CollectorRegistry()
    registry.register(_Told(counted, state))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Told(Collector):
    """Without the times at which series began: they would double their number."""

    def __init__(self, counted: Collector, state: Sequence[Metric]) -> None:
        self._counted, self._state = counted, state

    def collect(self) -> Iterator[Metric]:
        for metric in (*self._counted.collect(), *self._state):
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric

    def describe(self) -> Iterable[Metric]:
        return ()
