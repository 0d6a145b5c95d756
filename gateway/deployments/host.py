"""An engine as the fleet holds it: it generates, says what it does, and takes a drafter configuration."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from gateway.supervisor import EngineState
from inference.protocol import InferenceClient, WorkerLoad, WorkerReady
from inference.speculation_config import SpeculationConfig
from storage.values.deployments import Deployment


class EngineHost(InferenceClient, Protocol):
    """One engine, on its way, there, or given up. All that ask it raise EngineError while it is not there."""

    @property
    def state(self) -> EngineState: ...

    async def ready(self) -> WorkerReady: ...

    async def load(self) -> WorkerLoad: ...

    async def set_speculation(self, config: SpeculationConfig) -> None: ...


Wanted = Callable[[], SpeculationConfig]
"""The drafter configuration that is to be at work now."""
StartEngine = Callable[[Deployment, int, Wanted], AbstractAsyncContextManager[EngineHost]]
"""The n-th engine of a deployment: started when entered, ended when left."""
