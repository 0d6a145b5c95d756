"""A deployment as operators write it: every member that may be set, and none that may not."""

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from gateway.deployments.speculation import Speculation
from gateway.openai.fields import Label, refusal
from gateway.openai.schema import Wire
from gateway.settings import DEVICE, Dtype
from storage.values.deployments import Alias, DeploymentSpec

MOST_REPLICAS = 64
NAME = r"^[^\s\p{C}]([^\p{C}]*[^\s\p{C}])?$"
Name = Annotated[str, Field(min_length=1, max_length=256, pattern=NAME)]
"""What clients write as `model`: also a folder's name, so it may hold spaces, but not begin or end with one."""
Revision = Annotated[str, Field(min_length=4, max_length=64, pattern=r"^[0-9a-f]+$")]
Count = Annotated[int, Field(ge=1, le=1024)]


def _engine_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        is_good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or parts.username or parts.password or parts.query or parts.fragment:
        told = "Invalid value for '{param}': write http://host:port; the secret is SPECGATE_WORKER_SECRET's."
        raise refusal("invalid_value", told)
    return value


class AliasDocument(Wire):
    name: Name
    weight: Count = 1
    """Its deployment's part of the alias's requests, against the weights of others with this alias."""


class DeploymentDocument(Wire):
    name: Name
    model: Annotated[Label, Field(min_length=1, max_length=1024)]
    """A name of the catalogue or a local folder."""
    revision: Revision | None = None
    """How the revision of what is found must begin. null: any."""
    dtype: Dtype | None = None
    device: Annotated[str, Field(pattern=DEVICE)] = "auto"
    """auto, cpu, cuda, or cuda:N for the N-th GPU."""
    max_model_len: Annotated[int, Field(ge=2, le=2**31 - 1)] | None = None
    cache_gib: Annotated[float, Field(gt=0, le=65536, allow_inf_nan=False)] | None = None
    """Memory for keys and values, of each replica."""
    max_sequences: Count = 32
    engine_url: Annotated[str, Field(max_length=1024), AfterValidator(_engine_url)] | None = None
    replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] = 1
    aliases: Annotated[tuple[AliasDocument, ...], Field(max_length=64)] = ()
    enabled: bool = True
    speculation: Speculation = Speculation()

    @model_validator(mode="after")
    def _holds_together(self) -> "DeploymentDocument":
        if self.engine_url is not None and self.replicas != 1:
            raise refusal("invalid_value", "Invalid value for '{param}': with an engine_url it is 1.", "replicas")
        names = [self.name, *(alias.name for alias in self.aliases)]
        for index, name in enumerate(names[1:]):
            if name in names[: index + 1]:
                told = "Invalid value for '{param}': the deployment has that name already."
                raise refusal("invalid_value", told, "aliases", index, "name")
        return self


def spec_of(document: DeploymentDocument) -> DeploymentSpec:
    values: dict[str, Any] = {name: getattr(document, name) for name in SPEC_MEMBERS}
    return DeploymentSpec(**values | {"aliases": tuple(Alias(a.name, a.weight) for a in document.aliases)})


def document_of(spec: DeploymentSpec) -> DeploymentDocument:
    """Of what is stored, with default drafters; not validated again, since a later release may allow less."""
    values: dict[str, Any] = {name: getattr(spec, name) for name in SPEC_MEMBERS}
    aliases = tuple(AliasDocument.model_construct(name=a.name, weight=a.weight) for a in spec.aliases)
    return DeploymentDocument.model_construct(**values | {"aliases": aliases})


SPEC_MEMBERS = tuple(name for name in DeploymentDocument.model_fields if name != "speculation")
LOADED = ("model", "revision", "dtype", "device", "max_model_len", "cache_gib", "max_sequences", "engine_url")
"""Members that a running engine cannot change: engines are loaded anew."""
