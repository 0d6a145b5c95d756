"""Concurrency and rates in Redis: one script, one answer, or `RatesAway` in no time."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from storage.limits.lua import CHANGE, LOOK, PREAMBLE, RESERVE, RESTORE
from storage.limits.values import RATES, TRAFFIC, Amounts, Claim, Dimension, Reservation, Subject, Usage, Verdict

PREFIX = "specgate:{limits}:"
EPOCH = f"{PREFIX}epoch"
CONNECTIONS = 16


class RatesAway(Exception):
    """No answer. It is unknown whether anything was done."""


class MemoryLost(Exception):
    """Redis was started anew without its data, or emptied: nothing was done."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What one gateway charged a subject in one second."""

    subject: str
    second: int
    requests: int
    input_tokens: int
    output_tokens: int


class RedisRates:
    """`patience`: seconds for one answer. `clock`: unix seconds; None for Redis' own."""

    def __init__(self, url: str, lease_seconds: float, patience: float, clock: Any = None) -> None:
        pool: BlockingConnectionPool = BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=None,
            socket_timeout=None,
            socket_connect_timeout=None,
            protocol=2,
            # Once more at once: connections to a Redis that was started anew are dead.
            retry=Retry(NoBackoff(), 1),
        )
        self._redis = Redis.from_pool(pool)
        self._lease_ms, self._patience, self._clock = int(lease_seconds * 1000), patience, clock
        self._epoch = ""
        scripts = {"reserve": RESERVE, "change": CHANGE, "look": LOOK, "restore": RESTORE}
        self._scripts = {name: self._redis.register_script(PREAMBLE + body) for name, body in scripts.items()}

    async def connect(self) -> str:
        """Agree with the others on Redis' epoch: another one, whenever it lost its memory."""
        agreeing = self._redis.pipeline()
        agreeing.set(EPOCH, uuid4().hex, nx=True)
        agreeing.get(EPOCH)
        _, found = await self._in_time(agreeing.execute())
        self._epoch = str(found.decode())
        return self._epoch

    async def reserve(self, claim: Claim) -> Verdict:
        asked = (claim.id, self._lease_ms, claim.input_tokens, claim.output_tokens)
        return await self._run("reserve", claim.subjects, *asked, *_limits(claim.subjects))

    async def change(self, reservation: Reservation, by: Amounts, ends: bool = False) -> Verdict:
        """Increases must fit, decreases always do."""
        claim = reservation.claim
        asked = (reservation.second, *(by.of(rate) for rate in RATES), claim.id if ends else "")
        return await self._run("change", claim.subjects, *asked, *_limits(claim.subjects))

    async def look(self, subjects: Sequence[Subject]) -> Verdict:
        return await self._run("look", subjects)

    async def restore(self, claims: Iterable[Claim], charges: Iterable[Charge]) -> Verdict:
        """These run, and this was charged besides what Redis knows."""
        leases = [(subject.name, claim.id) for claim in claims for subject in claim.limited_in("concurrency")]
        told = list(charges)
        names = [name for name, _ in leases] + [charge.subject for charge in told]
        spent = [v for c in told for v in (c.second, c.requests, c.input_tokens, c.output_tokens)]
        answer = await self._call("restore", names, self._lease_ms, len(leases), *(id for _, id in leases), *spent)
        return Verdict(answer[1] / 1000, [])

    async def close(self) -> None:
        await self._redis.aclose(close_connection_pool=True)

    async def _run(self, script: str, subjects: Sequence[Subject], *asked: Any) -> Verdict:
        answer = await self._call(script, [subject.name for subject in subjects], *asked)
        now, usages = answer[1] / 1000, [_usage(found) for found in answer[2]]
        if answer[0] == b"HELD":
            return Verdict(now, usages)
        dimension = TRAFFIC[answer[4] - 1]
        charges = _charges(answer[5], dimension) if dimension != "concurrency" else ()
        return Verdict(now, usages, (answer[3] - 1, dimension), charges)

    async def _call(self, script: str, names: Sequence[str], *asked: Any) -> Any:
        now = "" if self._clock is None else int(self._clock() * 1000)
        keys = [EPOCH, *(f"{PREFIX}{name}:{kind}" for name in names for kind in ("runs", "spent"))]
        answer = await self._in_time(self._scripts[script](keys=keys, args=[now, self._epoch, *asked]))
        if answer[0] == b"LOST":
            raise MemoryLost
        return answer

    async def _in_time(self, asking: Any) -> Any:
        try:
            async with asyncio.timeout(self._patience):
                return await asking
        except (RedisError, OSError, TimeoutError) as error:
            raise RatesAway from error


def _limits(subjects: Sequence[Subject]) -> list[int | str]:
    limits = [subject.limits.of(dimension) for subject in subjects for dimension in TRAFFIC]
    return ["" if limit is None else limit for limit in limits]


def _usage(found: list[int]) -> Usage:
    *amounts, newest = found
    return Usage(Amounts(*amounts), None if newest < 0 else newest)


def _charges(flat: list[bytes], dimension: Dimension) -> tuple[tuple[int, int], ...]:
    column = TRAFFIC.index(dimension) - 1
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return tuple((int(second), int(spent.split()[column])) for second, spent in pairs)
