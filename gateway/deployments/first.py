"""The deployment that the first start makes from the settings (SPECGATE_MODEL, …). From then on the database is the
truth: a later start with other settings changes nothing, and says so.
"""

from pathlib import Path

from gateway.deployments.speculation import Speculation
from gateway.settings import Settings
from storage import Database
from storage.deployments import FIRST, Deployments
from storage.values.deployments import DeploymentSpec

MEMBERS = ("model", "device", "dtype", "max_model_len")
"""Settings that a deployment has too."""


async def ensure_first(db: Database, settings: Settings) -> list[str]:
    """What there is to tell of settings that are not followed."""
    spec = first_spec(settings)
    async with db.unit() as session:
        deployments = Deployments(session)
        await deployments.ensure_first(spec, Speculation().model_dump(mode="json"), "Made at the first start.")
        kept = await deployments.get(FIRST)
    if kept is None:
        return []
    return [_ignored(name, spec, kept.spec) for name in MEMBERS if _differs(name, spec, kept.spec, settings)]


def first_spec(settings: Settings) -> DeploymentSpec:
    path = Path(settings.model).expanduser()
    return DeploymentSpec(
        name=model_name(settings.model),
        model=str(path.resolve()) if path.is_dir() else settings.model,
        device=settings.device,
        dtype=settings.dtype,
        max_model_len=settings.max_model_len,
    )


def model_name(model: str) -> str:
    """What clients call it: the catalogue's name, or a folder's last part."""
    return Path(model).name if "/" in model else model


def _differs(name: str, asked: DeploymentSpec, kept: DeploymentSpec, settings: Settings) -> bool:
    return name in settings.model_fields_set and getattr(asked, name) != getattr(kept, name)


def _ignored(name: str, asked: DeploymentSpec, kept: DeploymentSpec) -> str:
    return (
        f"SPECGATE_{name.upper()} is {getattr(asked, name)}, but deployment {kept.name} has {getattr(kept, name)}: "
        f"settings count at the first start only. Change it with PATCH /admin/v1/deployments/{FIRST}."
    )
