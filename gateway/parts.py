"""What the application is built from, made once by `serve` (or a test) and handed to `build_app`."""

from dataclasses import dataclass
from typing import Protocol

from starlette.requests import Request

from gateway.admission import Admission
from gateway.answers import Service
from gateway.auth import Authenticator, Principal
from gateway.books import Books
from gateway.deployments.fleet import Fleet
from gateway.drain import Drain
from gateway.export.exporter import Exporter
from gateway.holdout import Holdout
from gateway.metrics.registry import Metrics
from gateway.routing import Router
from gateway.settings import Settings
from gateway.workloads import Workloads
from storage import Database
from storage.limits.limiter import Limiter


class EngineState(Protocol):
    """What an engine is doing, in words that /readyz may say."""

    @property
    def phase(self) -> str:
        """`ready` when it takes requests."""
        ...

    @property
    def detail(self) -> str: ...

    @property
    def cause(self) -> str:
        """What lies behind it: for the terminal, never for clients."""
        ...


class HasState(Protocol):
    @property
    def state(self) -> EngineState: ...


@dataclass(frozen=True, slots=True)
class Parts:
    settings: Settings
    db: Database
    authenticator: Authenticator
    router: Router
    fleet: Fleet
    books: Books
    limiter: Limiter
    admission: Admission
    drain: Drain
    metrics: Metrics
    holdout: Holdout
    workloads: Workloads
    secret: bytes
    """The installation's secret; each use takes its own sub-key."""
    exporter: Exporter | None = None
    """None: there is nowhere to export to."""

    @property
    def service(self) -> Service:
        return Service(self.settings, self.authenticator, self.admission, self.drain, self.metrics)


def parts_of(request: Request) -> Parts:
    parts = request.app.state.parts
    assert isinstance(parts, Parts)
    return parts


def principal_of(request: Request) -> Principal:
    """Who asks, as the application found before it called the route."""
    principal = request.state.principal
    assert isinstance(principal, Principal)
    return principal
