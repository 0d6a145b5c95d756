"""A week of an installation: three tenants, two deployments of which one does not pay, controls, limits near their end.

The same numbers each time; only the days follow the calendar.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from storage import Database
from storage.api_keys import ApiKeys
from storage.database import Session
from storage.deployments import FIRST, Deployments
from storage.entries import copied_from, open_values, settle_values
from storage.ids import uuid7
from storage.ledger import LAST
from storage.limits.rows import LimitRows
from storage.limits.values import Limits
from storage.models import budget_spent, ledger_entries
from storage.tenants import Tenants
from storage.values import Figures, OpenEntry, Outcome, ProposerFigures, Settlement, default_project
from storage.values.deployments import DeploymentSpec

SECOND = "dep_coder"
MODELS = {FIRST: "smollm2-135m", SECOND: "coder-7b"}
TENANTS = {"acme": "Acme Software", "globex": "Globex", "initech": "Initech"}
PER_HOUR = 6
HOURS = 6 * 24
HOLDOUT = 3
"""Every so many requests, one is a control."""


@dataclass(frozen=True)
class Seeded:
    """Whole keys, by tenant."""

    inference: dict[str, str]
    admins: dict[str, str]
    batch: str
    """Another inference key of Acme."""


async def seed(home: Path, now: datetime) -> Seeded:
    """Before the first start, so that nothing is rolled up yet."""
    db = await Database.open(f"sqlite+aiosqlite:///{home / 'specgate.db'}")
    try:
        async with db.unit() as session:
            keys = await _tenancy(session)
            await _deployments(session)
            await _requests(session, keys, now)
            await _limits(session, keys, now)
        return keys
    finally:
        await db.close()


async def _tenancy(session: Session) -> Seeded:
    inference, admins = {}, {}
    for id, name in TENANTS.items():
        await Tenants(session).create(id, name)
        inference[id] = (await ApiKeys(session).create(id, "inference", f"{name} editor")).key
        admins[id] = (await ApiKeys(session).create(id, "tenant_admin", f"{name} admin")).key
    batch = (await ApiKeys(session).create("acme", "inference", "Acme nightly batch")).key
    return Seeded(inference, admins, batch)


async def _deployments(session: Session) -> None:
    deployments = Deployments(session)
    for id, name in MODELS.items():
        spec = DeploymentSpec(name, name)
        made = await deployments.create(spec, {"drafter": {"length": 8}}, "system", "Made at the first start.", id)
        assert made is not None
        longer = {"drafter": {"length": 16}, "holdout_rate": 0.05}
        await deployments.configure(made, spec, longer, "ops000000001", "Longer drafts for code edits")


async def _requests(session: Session, keys: Seeded, now: datetime) -> None:
    draw = Random(7)
    first = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS)
    rows = []
    for number in range(HOURS * PER_HOUR):
        at = first + timedelta(hours=number // PER_HOUR, minutes=draw.randrange(60))
        if at.hour in (2, 3, 4) or at >= now - timedelta(minutes=5):
            continue
        tenant = draw.choice(list(TENANTS))
        deployment = draw.choice([FIRST, FIRST, SECOND])
        key = keys.batch if tenant == "acme" and number % 4 == 0 else keys.inference[tenant]
        rows += _request(draw, number, at, tenant, key[6:18], deployment)
    await session.execute(ledger_entries.insert(), rows)


def _request(
    draw: Random, number: int, at: datetime, tenant: str, key_id: str, deployment: str
) -> list[dict[str, object]]:
    is_control = number % HOLDOUT == 0
    version = 1 if number < HOURS * PER_HOUR // 2 else 2
    opened = OpenEntry(
        request_id=f"seeded-{number}",
        tenant_id=tenant,
        key_id=key_id,
        model=MODELS[deployment],
        route="/v1/chat/completions",
        owner="seed:1",
        project_id=default_project(tenant),
        deployment_id=deployment,
        config_version=version,
        cohort="control" if is_control else "treated",
        holdout_ppm=333_333,
        sampled=False,
        speculation="auto",
        at=at - timedelta(seconds=3),
    )
    figures = _figures(draw, version, is_control, pays=deployment == FIRST)
    outcome: Outcome = "disconnected" if draw.random() < 0.04 else "completed"
    values = copied_from(opened) | settle_values(Settlement(opened.request_id, outcome, figures), at)
    blank = dict.fromkeys(values.keys() - open_values(opened, at).keys())
    zero = {name: 0 for name, value in values.items() if name in blank and isinstance(value, int)}
    empty = {"by_proposer": {}, "timings": {}, "config_versions": {}, "final": False, "outcome": None}
    shared = {"entry_id": "", "kind": "", "seq": 0}
    return [
        shared | zero | empty | open_values(opened, at - timedelta(seconds=3)) | {"entry_id": uuid7(), "kind": "open"},
        shared | values | {"entry_id": uuid7(), "kind": "settle", "seq": LAST},
    ]


def _figures(draw: Random, version: int, is_control: bool, pays: bool) -> Figures:
    by_proposer = {} if is_control else {"prediction": _drafts(draw, 16, 0.9 if pays else 0.35)}
    if not is_control:
        by_proposer["lookup"] = _drafts(draw, 5, 0.6 if pays else 0.2)
    accepted = sum(one.accepted for one in by_proposer.values())
    length = 120 + draw.randrange(80)
    steps = max(10, length - accepted)
    generated = 1 + steps + accepted
    a_pass = 0.021 * draw.lognormvariate(0, 0.2) * (1.0 if is_control else 1.12 if pays else 1.35)
    prediction = by_proposer.get("prediction", ProposerFigures())
    decode = steps * a_pass
    return Figures(
        prompt_tokens=300 + draw.randrange(500),
        cached_tokens=draw.choice([0, 128, 256]),
        generated_tokens=generated,
        delivered_tokens=generated,
        visible_tokens=generated,
        completion_tokens=generated,
        prediction_tokens=400,
        accepted_prediction_tokens=prediction.accepted,
        rejected_prediction_tokens=min(400, prediction.rejected),
        steps=steps,
        accepted_delivered=accepted,
        choices_with_output=1,
        final=True,
        by_proposer=by_proposer,
        timings=_timings(draw, decode),
        batch_milli=1000,
        config_versions={version: steps},
    )


def _drafts(draw: Random, length: int, kept: float) -> ProposerFigures:
    """Each token is kept with this probability, where the one before it was."""
    by_position = [0] * length
    drafts = 4 + draw.randrange(6)
    for _ in range(drafts):
        for position in range(length):
            if draw.random() > kept:
                break
            by_position[position] += 1
    return ProposerFigures(drafts, drafts * length, sum(by_position), tuple(by_position))


def _timings(draw: Random, decode: float) -> dict[str, float]:
    draft, coordination = decode * 0.06, decode * 0.04
    return {
        "queue": 0.004 * draw.lognormvariate(0, 1),
        "prefill": 0.18 * draw.lognormvariate(0, 0.4),
        "decode": decode,
        "draft": draft,
        "verify": decode - draft - coordination,
        "coordination": coordination,
        "pass_share": decode * 0.8,
    }


async def _limits(session: Session, keys: Seeded, now: datetime) -> None:
    rows = LimitRows(session)
    budget = Limits(concurrency=8, requests_per_minute=120, monthly_tokens=1_000_000, monthly_micros=50_000_000)
    await rows.set("tenant", "acme", budget, 0)
    await rows.set("key", keys.inference["acme"][6:18], Limits(monthly_tokens=200_000), 0)
    await rows.set("tenant", "globex", replace(budget, monthly_tokens=2_000_000), 0)
    spent = {"tenant:acme": 870_000, f"key:{keys.inference['acme'][6:18]}": 204_000, "tenant:globex": 1_999_990}
    for subject, tokens in spent.items():
        month = now.strftime("%Y-%m")
        await session.execute(budget_spent.delete().where(budget_spent.c.subject == subject))
        values = {"subject": subject, "month": month, "tokens": tokens, "micros": tokens * 2}
        await session.execute(budget_spent.insert().values(values))
