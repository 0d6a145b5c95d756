"""One deployment: what is asked of it, and the engines that do it.

    current   answers requests
    coming    loads beside it where a change needs another load; takes over when all of it is ready
    leaving   answers what it has, then ends

A load that fails leaves the current one at work. Drafter configurations need no load: replicas take them as they are.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Literal

from gateway.deployments.document import LOADED
from gateway.deployments.generation import Generation
from gateway.deployments.host import StartEngine
from gateway.deployments.speculation import Speculation, engine_config, read
from gateway.routing import Route
from inference.speculation_config import SpeculationConfig
from storage.values.deployments import Deployment, DeploymentSpec, DrafterVersion
from storage.values.prices import PriceVersion

Phase = Literal["loading", "ready", "degraded", "draining", "failed", "disabled"]


@dataclass(frozen=True, slots=True)
class ServingState:
    phase: Phase
    detail: str


class Serving:
    def __init__(self, deployment: Deployment, version: DrafterVersion, start: StartEngine, drain: float) -> None:
        self.current: Generation | None = None
        self.coming: Generation | None = None
        self.leaving: list[Generation] = []
        self.speculation = Speculation(enabled=False)
        self.prices: PriceVersion | None = None
        self._start, self._drain = start, drain
        self._going: set[asyncio.Task[None]] = set()
        self.follow(deployment, version)

    def follow(self, deployment: Deployment, version: DrafterVersion) -> None:
        """What the database says now."""
        self.deployment, self.version = deployment, version
        found = read(version.config)
        self.speculation = found or self.speculation
        self.problem = None if found else f"Version {version.version} of its drafters was written by another release."
        self._config = engine_config(self.speculation, version.version, deployment.id)
        for generation in self._live:
            for replica in generation.replicas:
                replica.nudge()

    @property
    def wanted(self) -> SpeculationConfig:
        return self._config

    @property
    def route(self) -> Route | None:
        """Where its requests go; None while it takes none."""
        spec, generation = self.deployment.spec, self.current
        if generation is None or not spec.enabled:
            return None
        return Route(
            deployment_id=self.deployment.id,
            name=spec.name,
            client=generation.client,
            fingerprint=generation.fingerprint,
            created=int(self.deployment.created_at.timestamp()),
            config_version=self.version.version,
            allow_opt_out=self.speculation.allow_opt_out,
            drafter=self.speculation.kind,
            prices=self.prices,
            holdout_rate=self.speculation.drawn_rate,
            weights={alias.name: alias.weight for alias in spec.aliases},
            is_ready=any(replica.is_ready for replica in generation.replicas),
        )

    @property
    def is_settled(self) -> bool:
        """Whether every engine that is there runs what it should."""
        replicas = self.current.replicas if self.current else []
        return self.coming is None and all(one.is_current or one.refusal for one in replicas if one.is_ready)

    async def settle(self) -> None:
        """Bring the engines a step nearer to what is asked. Called again and again."""
        spec = self.deployment.spec
        if not spec.enabled:
            self._leave(self.current, self.coming)
            self.current = self.coming = None
            return
        self._begin_load(spec)
        for generation in self._live:
            await generation.grow(spec.replicas)
            if len(generation.replicas) > spec.replicas:
                self._go_on(generation.shrink(spec.replicas, self._drain))
        if self.coming is not None and self.coming.is_ready:
            self._leave(self.current)
            self.current, self.coming = self.coming, None

    async def close(self, drain: float) -> None:
        """No new requests; returns when its engines have ended."""
        self._drain = drain
        self._leave(self.current, self.coming)
        self.current = self.coming = None
        await asyncio.gather(*self._going)

    @property
    def _live(self) -> list[Generation]:
        return [generation for generation in (self.current, self.coming) if generation is not None]

    def _begin_load(self, spec: DeploymentSpec) -> None:
        if any(_load(generation.deployment.spec) == _load(spec) for generation in self._live[-1:]):
            return
        self._leave(self.coming)
        self.coming = None
        if self.current is not None and _load(self.current.deployment.spec) == _load(spec):
            return
        new = Generation(self.deployment, self._start, lambda: self.wanted)
        if self.route is not None and self.route.is_ready:
            self.coming = new
        else:
            self._leave(self.current)
            self.current = new

    def _leave(self, *generations: Generation | None) -> None:
        for generation in generations:
            if generation is not None:
                self.leaving.append(generation)
                self._go_on(self._drained(generation))

    async def _drained(self, generation: Generation) -> None:
        await generation.shrink(0, self._drain)
        self.leaving.remove(generation)

    def _go_on(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._going.add(task)
        task.add_done_callback(self._going.discard)


def _load(spec: DeploymentSpec) -> tuple[object, ...]:
    return tuple(getattr(spec, name) for name in LOADED)


def state_of(serving: Serving) -> ServingState:
    """In words that /readyz may say to anybody."""
    if not serving.deployment.spec.enabled:
        drains = any(generation.in_flight for generation in serving.leaving)
        return ServingState("draining", "It finishes its last requests.") if drains else DISABLED
    replicas = serving.current.replicas if serving.current else []
    told = list(dict.fromkeys(one.engine.state.detail for one in replicas if not one.is_known))
    if not any(one.is_known for one in replicas):
        is_lost = bool(replicas) and all(one.engine.state.phase == "failed" for one in replicas)
        return ServingState("failed" if is_lost else "loading", " ".join(told) or "Its engines are being started.")
    told += [f"Replica {one.index} keeps the drafters it has." for one in replicas if one.refusal]
    told += [serving.problem] if serving.problem else []
    told += [f"The change cannot be loaded: {why} The engines before it go on." for why in _failures(serving)]
    if told:
        return ServingState("degraded", " ".join(told))
    return ServingState("ready", "A change is being loaded beside it." if serving.coming else "It is ready.")


def causes_of(serving: Serving) -> list[str]:
    """What lies behind the state, with paths and the last lines of logs: for operators only."""
    current = serving.current.replicas if serving.current else []
    states = [*(one.engine.state for one in current), *(serving.coming.failures if serving.coming else ())]
    refusals = (f"Replica {one.index}: {one.refusal}" for one in current if one.refusal)
    return list(dict.fromkeys([*(state.cause for state in states if state.cause), *refusals]))


def _failures(serving: Serving) -> list[str]:
    return list(dict.fromkeys(state.detail for state in serving.coming.failures)) if serving.coming else []


DISABLED = ServingState("disabled", "It is switched off (enabled: false).")
