"""Values of deployments: what an operator asks for, and which drafter configuration was at work since when."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from storage.texts import check_text


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name clients may use. Deployments that share one get requests by their weights."""

    name: str
    weight: int = 1


@dataclass(frozen=True, slots=True)
class DeploymentSpec:
    """A model as it is to be served."""

    name: str
    """What clients call it; never changed."""
    model: str
    """A name of the catalogue, or a local folder."""
    revision: str | None = None
    dtype: str | None = None
    device: str = "auto"
    max_model_len: int | None = None
    cache_gib: float | None = None
    max_sequences: int = 32
    engine_url: str | None = None
    """An engine that runs elsewhere. None: `replicas` of them are started beside each gateway."""
    replicas: int = 1
    aliases: tuple[Alias, ...] = ()
    enabled: bool = True

    def __post_init__(self) -> None:
        check_text("deployment name", self.name, 256)
        check_text("model", self.model, 1024)
        for alias in self.aliases:
            check_text("alias", alias.name, 256)


@dataclass(frozen=True, slots=True)
class Deployment:
    """A spec under its id. `version` counts all changes, `config_version` those of the drafter configuration."""

    id: str
    spec: DeploymentSpec
    version: int
    config_version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class DrafterVersion:
    """A drafter configuration, as it was once decided."""

    deployment_id: str
    version: int
    author: str
    """The public id of a key, or `system`."""
    reason: str
    created_at: datetime
    config: Mapping[str, JsonValue]

    def __post_init__(self) -> None:
        check_text("author", self.author, 128)
        check_text("reason", self.reason, 1024)
