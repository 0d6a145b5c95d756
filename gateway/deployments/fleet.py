"""The deployments of this gateway: follows the database, and says what there is to route to.

Every gateway looks for itself, more than once a second, so that all of them come to the same; a change made here is
followed at once (`sync`). A database that is away changes nothing.
"""

import asyncio
import contextlib
import logging
from typing import Self

from gateway.deployments.host import StartEngine
from gateway.deployments.serving import Serving, ServingState, causes_of, state_of
from gateway.routing import Route
from gateway.supervisor import EngineState, Phase
from gateway.telemetry import describe
from storage import Database, StorageError
from storage.deployments import Deployments
from storage.prices import Prices
from storage.values.deployments import Deployment, DrafterVersion

POLL_SECONDS = 0.5
READY, OFF = ("ready", "degraded"), ("draining", "disabled")
log = logging.getLogger("specgate.deployments")


class Fleet:
    def __init__(self, db: Database, start: StartEngine, drain: float, poll: float = POLL_SECONDS) -> None:
        self._db, self._start = db, start
        self._drain, self._poll = drain, poll
        self.servings: dict[str, Serving] = {}
        """By id of the deployment, oldest first."""
        self._syncing = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def __aenter__(self) -> Self:
        await self.sync()
        self._following = asyncio.create_task(self._follow(), name="deployments")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._following is not None
        self._is_closed = True
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
        await asyncio.gather(*(serving.close(drain=0) for serving in self.servings.values()), *self._closing)

    @property
    def routes(self) -> list[Route]:
        return [route for serving in self.servings.values() if (route := serving.route) is not None]

    @property
    def states(self) -> dict[str, ServingState]:
        """By name."""
        return {serving.deployment.spec.name: state_of(serving) for serving in self.servings.values()}

    @property
    def state(self) -> EngineState:
        """Ready when anything can be asked; else what the first one waits for."""
        if self._is_closed:
            return EngineState("stopped", "The engines were stopped with the gateway.")
        states = [state for state in self.states.values() if state.phase not in OFF]
        if not states:
            return EngineState("failed", "No deployment is enabled. Add one with POST /admin/v1/deployments.")
        if any(state.phase in READY for state in states):
            return EngineState("ready", "The engine is ready.")
        waiting = [state for state in states if state.phase != "failed"]
        return self._away("loading", waiting[0].detail) if waiting else self._away("failed", states[0].detail)

    def _away(self, phase: Phase, detail: str) -> EngineState:
        causes = [cause for serving in self.servings.values() for cause in causes_of(serving)]
        return EngineState(phase, detail, cause=" ".join(dict.fromkeys(causes)))

    async def sync(self) -> None:
        """Look at the database and follow it. Raises StorageError."""
        async with self._syncing:
            async with self._db.view() as session:
                current, prices = await Deployments(session).current(), await Prices(session).current()
            self._leave({deployment.id for deployment, _ in current})
            for deployment, version in current:
                self._follow_one(deployment, version)
                self.servings[deployment.id].prices = prices.get(deployment.id)
            await asyncio.gather(*map(self._settle, list(self.servings.values())))

    async def settled(self, id: str, seconds: float) -> None:
        """Returns when the engines run what they should, or after `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while id in self.servings and not self.servings[id].is_settled:
                    await asyncio.sleep(0.01)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._poll)
            try:
                await self.sync()
            except StorageError as error:
                log.warning("deployments not read", extra={"fields": {"error": type(error).__name__}})

    def _follow_one(self, deployment: Deployment, version: DrafterVersion) -> None:
        serving = self.servings.get(deployment.id)
        if serving is None:
            self.servings[deployment.id] = Serving(deployment, version, self._start, self._drain)
        elif deployment.version > serving.deployment.version:
            serving.follow(deployment, version)

    def _leave(self, staying: set[str]) -> None:
        for id in self.servings.keys() - staying:
            task = asyncio.create_task(self.servings.pop(id).close(self._drain))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _settle(self, serving: Serving) -> None:
        try:
            await serving.settle()
        except Exception as error:  # noqa: BLE001 - one deployment's trouble is not the others'; it is tried again
            fields = {"deployment": serving.deployment.id, "error": describe(error)}
            log.error("deployment not settled", extra={"fields": fields})
