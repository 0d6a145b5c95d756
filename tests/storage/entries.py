"""Ledger values for tests."""

from dataclasses import replace
from datetime import datetime

from storage import Database
from storage.deployments import Deployments
from storage.ledger import Ledger
from storage.money import Price
from storage.prices import Prices
from storage.values import Figures, OpenEntry, Problem, ProposerFigures, Settlement
from storage.values.deployments import DeploymentSpec

ENDED = Figures(
    prompt_tokens=100,
    cached_tokens=48,
    generated_tokens=20,
    delivered_tokens=20,
    visible_tokens=20,
    completion_tokens=20,
    prediction_tokens=30,
    accepted_prediction_tokens=11,
    rejected_prediction_tokens=4,
    steps=7,
    idle_passes=1,
    accepted_delivered=12,
    choices_with_output=1,
    final=True,
    by_proposer={
        "prediction": ProposerFigures(drafts=3, drafted=16, accepted=11, accepted_by_position=(3, 2, 2, 2, 2)),
        "lookup": ProposerFigures(drafts=2, drafted=4, accepted=1, accepted_by_position=(1,)),
    },
    timings={"queue": 0.25, "prefill": 0.5, "decode": 1.5},
    config_versions={1: 7},
)
"""20 tokens of one choice: 20 - 1 = 7 steps + 12 accepted."""


def opening(request_id: str, **changes: object) -> OpenEntry:
    entry = OpenEntry(
        request_id="r",
        tenant_id="default",
        key_id="abcdefghijkl",
        model="tiny",
        route="/v1/chat/completions",
        owner="home:1",
    )
    return replace(entry, **{"request_id": request_id, **changes})  # type: ignore[arg-type]


async def open_requests(db: Database, *request_ids: str, **changes: object) -> None:
    for request_id in request_ids:
        async with db.unit() as session:
            assert await Ledger(session).open(opening(request_id, **changes))


async def settle(db: Database, request_id: str, figures: Figures = ENDED, at: datetime | None = None) -> bool:
    async with db.unit() as session:
        return await Ledger(session).settle(Settlement(request_id, "completed", figures, at))


async def problems(db: Database) -> list[Problem]:
    async with db.view() as session:
        return await Ledger(session).verify()


async def priced(db: Database, *prices: Price, name: str = "tiny") -> str:
    """The id of a new deployment that had these prices, one after the other."""
    async with db.unit() as session:
        made = await Deployments(session).create(DeploymentSpec(name, "m"), {}, "system", "a test")
        assert made is not None
        for version, price in enumerate(prices):
            assert await Prices(session).add(made.id, price, "system", "a test", version)
    return made.id
