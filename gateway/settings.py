"""Every setting of the gateway, once: name, default, environment variable.

A setting `x` is read from `SPECGATE_X` (three keep the names that every host knows: HOST, PORT, DATABASE_URL),
else from the TOML file `SPECGATE_CONFIG` (default `$SPECGATE_HOME/specgate.toml`), else from its default; a value
passed to `Settings(…)` wins over all. A key in the file that no setting has is an error, and so, to a command, is a
variable `SPECGATE_…`. Values are frozen.
"""

import os
import re
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, AliasChoices, Field, SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from gateway.export.signing import signing_key

DEVICE = r"^(auto|cpu|cuda(:[0-9]{1,2})?)$"
DATABASES = ("postgresql+psycopg", "sqlite+aiosqlite")
PREFIX = "SPECGATE_"
NO_SETTINGS = ("SPECGATE_CONFIG", "SPECGATE_SETUP_GB", "SPECGATE_TEST_")
"""What begins so is read by set-up and tests."""
Dtype = Literal["float32", "bfloat16", "float16"]


def _plain(name: str) -> AliasChoices:
    """An environment variable without the prefix; the file and the code say the field's own name."""
    return AliasChoices(name.lower(), name)


def _device(value: str) -> str:
    if not re.fullmatch(DEVICE, value):
        raise ValueError(f"{value!r} is no device: write auto, cpu, cuda or cuda:N (the N-th GPU, from 0)")
    return value


def _bind(value: str) -> str:
    split_bind(value)
    return value


def _address(value: SecretStr) -> SecretStr:
    if not re.match(r"https?://[^/]", value.get_secret_value()):
        raise ValueError("that is no address to post to: write http://… or https://…")
    return value


def _signs(value: SecretStr) -> SecretStr:
    signing_key(value.get_secret_value())
    return value


def _database(value: str) -> str:
    try:
        if make_url(value).drivername in DATABASES:
            return value
    except (ValueError, ArgumentError):
        pass
    raise ValueError(f"that is no URL of a database: write {' or '.join(f'{one}://…' for one in DATABASES)}")


def _redis(value: SecretStr) -> SecretStr:
    if not value.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("that is no URL of Redis: write redis://…, rediss://… or unix://…")
    return value


def _engine(value: str) -> str:
    if not re.match(r"https?://[^/]", value):
        raise ValueError("that is no URL of an engine: write http://… or https://…")
    return value


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        env_ignore_empty=True,
        hide_input_in_errors=True,
    )

    # where it listens and where it keeps its state
    host: str = Field(default="127.0.0.1", validation_alias=_plain("HOST"))
    port: int = Field(default=8000, ge=0, le=65535, validation_alias=_plain("PORT"))
    """0: any free port; the start-up line says which."""
    admin_bind: Annotated[str, AfterValidator(_bind)] | None = None
    """host:port of the admin routes. None: the same port on loopback, and no admin routes on a public bind."""
    home: Path = Path(".specgate")
    database_url: Annotated[str, AfterValidator(_database)] | None = Field(
        default=None, validation_alias=_plain("DATABASE_URL")
    )
    """None: SQLite under `home`."""
    durability: Literal["process", "power"] = "process"
    """process: what was committed survives any kill of this process; power: the loss of power too."""

    redis_url: Annotated[SecretStr, AfterValidator(_redis)] | None = None
    """Where gateways share rates and concurrency. None: in the database. Budgets are in the database always."""
    redis_seconds: float = Field(default=0.05, gt=0)
    """How long a request waits for Redis before this gateway decides alone, by its share of the limits."""
    lease_seconds: float = Field(default=15.0, ge=0.3)
    """So long after its death a gateway is taken for dead, and its requests no longer count as running."""

    # keys: None means made at the first start and kept under `home`
    bootstrap_key: SecretStr | None = None
    admin_key: SecretStr | None = None
    secret: SecretStr | None = None

    metrics_token: Annotated[SecretStr, Field(min_length=16)] | None = None
    """Good for /metrics alone. None: that takes an operator's key."""

    # the engine
    model: str = Field(default="smollm2-135m", max_length=1024)
    """A name of the catalogue or a local folder."""
    device: Annotated[str, AfterValidator(_device)] = "auto"
    dtype: Dtype | None = None
    max_model_len: int | None = Field(default=None, ge=2, le=2**31 - 1)
    engine_url: Annotated[str, AfterValidator(_engine)] | None = None
    """An engine process that runs elsewhere. None: one is started and healed here."""
    worker_secret: SecretStr | None = None
    """Shared with the engine at `engine_url`. None: drawn for the one started here."""
    holdout_rate: float = Field(default=0.02, ge=0, le=0.2)
    """Of the deployment that the first start makes: the share of requests that run without speculation."""

    currency: str | None = Field(default=None, pattern=r"^[A-Z]{3}$")
    """What prices are in, as ISO 4217 spells it. Fixed by the first price that is set. None: as it is, else USD."""

    # requests
    max_body_bytes: int = Field(default=8 * 2**20, ge=1)
    body_seconds: float = Field(default=60.0, gt=0)
    """How long a request's body may take to arrive."""
    drain_seconds: float = Field(default=30.0, ge=0)
    drain_notice_seconds: float = Field(default=0.0, ge=0)
    """How long new requests are still taken after SIGTERM, while /readyz sends balancers elsewhere."""
    keepalive_seconds: float = Field(default=8.0, gt=0)
    """A stream that is silent for so long gets a comment, so that no proxy takes it for dead."""
    header_seconds: float = Field(default=10.0, gt=0)
    """Response headers leave when the engine accepts, or after so long, whichever is first."""
    stall_seconds: float = Field(default=60.0, gt=0)
    """A client that reads nothing for so long is taken for gone."""
    storage_seconds: float = Field(default=1.0, gt=0)
    """How long a request waits for the ledger before it is refused with a 503."""
    spool_bytes: int = Field(default=8 * 2**20, ge=4096)
    """The file that keeps what streams used while the database is away; half full, no new requests are taken."""
    settle_seconds: float = Field(default=2.0, gt=0)
    """How long an aborted request may take to say what it used."""
    revocation_seconds: float = Field(default=2.0, gt=0)
    """How often an open stream asks whether its key is still good."""
    checkpoint_tokens: int = Field(default=64, ge=1)
    checkpoint_seconds: float = Field(default=1.0, gt=0)

    # what is forgotten
    usage_days: int | None = Field(default=None, ge=32, le=36500)
    """Usage rows older than this are deleted once they are rolled up; sums stay. None: all are kept."""
    audit_days: int | None = Field(default=None, ge=1, le=36500)
    """What was before and after, of older audit events, is erased; the events stay. None: all are kept."""

    # the ledger, told elsewhere
    export_url: Annotated[SecretStr, AfterValidator(_address)] | None = None
    """Settled entries are posted there. None: nowhere."""
    export_secret: Annotated[SecretStr, AfterValidator(_signs)] | None = None
    """What they are signed with."""
    export_seconds: float = Field(default=5.0, gt=0)
    """How often there is a look for new ones."""

    @property
    def database(self) -> str:
        return self.database_url or f"sqlite+aiosqlite:///{self.home.absolute() / 'specgate.db'}"

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def serves_admin(self) -> bool:
        """Whether the public application may carry admin routes."""
        return self.is_loopback and self.admin_bind is None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, EnvSettingsSource(settings_cls), TomlConfigSettingsSource(settings_cls, config_file())


def presets(settings: Settings) -> dict[str, str | None]:
    """The secrets that somebody chose."""
    names = ("bootstrap_key", "admin_key", "secret")
    chosen: dict[str, SecretStr | None] = {name: getattr(settings, name) for name in names}
    return {name: value.get_secret_value() if value else None for name, value in chosen.items()}


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def split_bind(bind: str) -> tuple[str, int]:
    """`host:port`, IPv6 hosts in brackets."""
    host, colon, port = bind.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"{bind!r} is no bind: write host:port, as 127.0.0.1:8001")
    return host.strip("[]"), int(port)


def variable(name: str, field: FieldInfo) -> str:
    """The environment variable of a setting."""
    alias = field.validation_alias
    return str(alias.choices[-1]) if isinstance(alias, AliasChoices) else f"{PREFIX}{name.upper()}"


def unknown_variables(environment: Iterable[str]) -> list[str]:
    """Names that begin as ours do, and set nothing: most often a slip of the pen."""
    known = {variable(name, field) for name, field in Settings.model_fields.items()}
    ours = (name for name in environment if name.startswith(PREFIX) and not name.startswith(NO_SETTINGS))
    return sorted(name for name in ours if name not in known)


def config_file() -> Path:
    home = os.environ.get("SPECGATE_HOME") or ".specgate"
    return Path(os.environ.get("SPECGATE_CONFIG") or Path(home) / "specgate.toml")
