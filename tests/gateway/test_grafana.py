"""The Grafana dashboard and the alerts: Grafana's own types know every member, and a real scrape every series."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.parser import text_string_to_metric_families as parse

from storage.rollups.watermark import Watermarks
from tests.gateway.fake_engine import FakeEngine, Script
from tests.gateway.running import client, running

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "specgate.json").read_text())
ALERTS: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())


def queries() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m")
    for rule in ALERTS["groups"][0]["rules"]:
        yield rule["alert"], rule["expr"]


def selectors(query: str) -> list[promql_parser.VectorSelector]:
    """Raises ValueError for what is no PromQL."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(promql_parser.parse(query), visit)
    return found


def test_grafana_knows_every_member_of_the_dashboard() -> None:
    plugins.register_default_plugins()
    read: dict[str, Any] = json.loads(JSONEncoder().encode(Dashboard.from_json(DASHBOARD)))
    assert _of(DASHBOARD, read) == DASHBOARD


def _of(written: Any, read: Any) -> Any:
    """What was read of what is written; Grafana adds its defaults."""
    if isinstance(written, dict) and isinstance(read, dict):
        return {key: _of(value, read[key]) for key, value in written.items() if key in read}
    if isinstance(written, list) and isinstance(read, list):
        return [_of(one, other) for one, other in zip(written, read, strict=True)]
    return read


def test_panels_have_ids_and_places_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) == 21
    taken = [(x, y) for panel in panels for x, y in _cells(panel["gridPos"])]
    assert len(taken) == len(set(taken))
    assert all(x < 24 for x, _ in taken)


def _cells(at: dict[str, int]) -> Iterator[tuple[int, int]]:
    return ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"]))


@pytest.mark.anyio
async def test_every_query_asks_for_series_that_a_real_scrape_has(tmp_path: Path) -> None:
    engine = FakeEngine(Script(words=("a", "b", "c"), step=2, rejected=1))
    nowhere = {"export_url": "http://127.0.0.1:9/"}
    async with running(tmp_path, engine, **nowhere) as gateway, client(gateway.url, gateway.operator_key) as operator:
        await gateway.chat()
        async with gateway.parts.db.unit() as session:
            await Watermarks(session).begin("usage", datetime.now(UTC))
        labels: dict[str, set[str]] = {}
        for family in parse((await operator.get("/metrics")).text):
            for sample in family.samples:
                labels.setdefault(sample.name, set()).update(sample.labels)
    asked: set[str] = set()
    for title, query in queries():
        for selector in selectors(query):
            asked.add(str(selector.name))
            assert selector.name in labels, title
            assert {matcher.name for matcher in selector.matchers.matchers} <= labels[str(selector.name)], title
    assert len(asked) >= 18
    unshown = {name for name in labels if name.startswith("specgate_") and name.endswith("_total")} - asked
    assert all(name.startswith("specgate_engine_") for name in unshown), "a counter is on no panel"


@pytest.mark.parametrize("broken", ["sum(rate(x[5m])", "rate(x)", "sum by (rate(x[5m]))"])
def test_what_is_no_promql_is_found(broken: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        selectors(broken)
