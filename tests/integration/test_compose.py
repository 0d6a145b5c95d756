"""The production files are well-formed, name only settings that exist, and need nothing that an image lacks."""

import json
import re
import shutil
import stat
import subprocess
import sys
from importlib.metadata import distribution, packages_distributions

import jsonschema_rs
import pytest
from packaging.requirements import Requirement

from gateway.settings import Settings, variable
from inference.__main__ import SECRET, _parser
from tests.integration.compose import ROOT, VARIABLE, Compose, env_file

SETTINGS = {variable(name, field) for name, field in Settings.model_fields.items()}
DOCKERFILE = (ROOT / "Dockerfile").read_text()
TEXT = (ROOT / "docker-compose.yml").read_text()
TAKEN_WHERE_FOUND = {"pip", "setuptools", "sniffio"}
"""Looked for by other packages, and not missed."""
POSTGRES = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD"}


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What `make env` makes."""
    folder = tmp_path_factory.mktemp("env")
    for name in ("Makefile", ".env.example"):
        shutil.copy(ROOT / name, folder / name)
    subprocess.run(["make", "env"], cwd=folder, check=True, capture_output=True)
    assert stat.S_IMODE((folder / ".env").stat().st_mode) == 0o600
    return env_file(folder / ".env")


@pytest.fixture
def compose(env: dict[str, str]) -> Compose:
    return Compose(env)


def gateways(compose: Compose) -> list[str]:
    return [name for name, service in compose.services.items() if service["image"] == "specgate-gateway"]


def test_the_file_keeps_the_compose_schema(compose: Compose) -> None:
    schema = json.loads((ROOT / "tests" / "data" / "compose-spec.json").read_text())
    assert [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(compose.document)] == []


def test_every_secret_is_drawn_and_none_has_a_default(env: dict[str, str]) -> None:
    named = {match[1]: match[2] for match in VARIABLE.finditer(TEXT)}
    secrets = {name for name, operator in named.items() if operator == "?"}
    drawn = [env[name] for name in secrets]
    assert len(set(drawn)) == len(secrets) == 7
    assert all(re.fullmatch(r"[0-9a-f]{64}|sk-sg-[0-9a-f]{12}-[0-9a-f]{64}", value) for value in drawn)
    assert {*named, "COMPOSE_PROJECT_NAME"} == set(env)


def test_every_environment_name_is_a_setting(compose: Compose) -> None:
    for name, service in compose.services.items():
        known = SETTINGS if service["image"] == "specgate-gateway" else {SECRET} | POSTGRES
        assert set(compose.environment(name)) <= known, name


def test_the_gateways_share_everything_but_their_volume(compose: Compose) -> None:
    a, b = compose.services["gateway-a"], compose.services["gateway-b"]
    assert compose.environment("gateway-a") == compose.environment("gateway-b")
    assert a["volumes"] != b["volumes"]
    assert "SPECGATE_SECRET" in compose.environment("gateway-a"), "or each would draw one of its own"


def test_the_settings_of_a_gateway_are_taken(compose: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in compose.environment("gateway-a").items():
        monkeypatch.setenv(name, value)
    settings = Settings()
    assert not settings.serves_admin, "admin routes have a port of their own"
    assert (settings.host, settings.port) == ("0.0.0.0", 8000)
    assert settings.engine_url == "http://inference:8100"


def test_every_option_of_the_worker_exists(compose: Compose) -> None:
    for name in ("inference", "inference-gpu"):
        assert compose.command(name)[:3] == ["python", "-m", "inference"]
        asked = _parser().parse_args(compose.command(name)[3:])
        assert (asked.host, asked.port) == ("inference", 8100)


def test_only_the_gateways_are_published_and_admin_routes_on_loopback(compose: Compose) -> None:
    published = {name for name, service in compose.services.items() if service.get("ports")}
    assert published == {"gateway-a", "gateway-b"}
    ports = [port for name in published for port in compose.services[name]["ports"]]
    assert all(port.startswith("127.0.0.1:") for port in ports if port.endswith(":8001"))
    assert compose.document["networks"]["backend"]["internal"] is True


def test_containers_run_without_privileges(compose: Compose) -> None:
    assert re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE) == ["10001:10001"] * 2
    assert DOCKERFILE.count("HEALTHCHECK") == 2
    for name, service in compose.services.items():
        if service["image"].startswith("specgate-"):
            assert service["cap_drop"] == ["ALL"], name
            assert service["security_opt"] == ["no-new-privileges:true"], name


def test_what_the_images_are_built_from_exists_and_is_sent() -> None:
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [name for line in re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.MULTILINE) for name in line.split()]
    assert set(copied) == set(sent)
    assert [name for name in sent if not (ROOT / name).exists()] == []


def packages_of(extra: str) -> set[str]:
    """What `pip install .[extra]` brings, by what is installed here."""
    found: set[str] = set()
    waiting = [Requirement(f"specgate[{extra}]")]
    while waiting:
        requirement = waiting.pop()
        wanted = requirement.extras or {""}
        for text in distribution(requirement.name).requires or ():
            needed = Requirement(text)
            if needed.marker is None or any(needed.marker.evaluate({"extra": one}) for one in wanted):
                key = re.sub(r"[-_.]+", "-", needed.name).lower()
                if key not in found or needed.extras:
                    found.add(key)
                    waiting.append(Requirement(f"{needed.name}[{','.join(needed.extras)}]"))
    return found


def imported_by(module: str) -> set[str]:
    """Distributions of everything that is loaded when it is imported, in a process of its own."""
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    owners = packages_distributions()
    names = {owner for top in shown.stdout.split() for owner in owners.get(top, ())}
    return {re.sub(r"[-_.]+", "-", name).lower() for name in names} - {"specgate"}


def test_the_gateway_image_has_what_the_gateway_imports_and_no_torch() -> None:
    packages = packages_of("gateway")
    assert not packages & {"torch", "transformers", "tokenizers", "safetensors", "numpy"}
    assert imported_by("gateway.cli, gateway.serve, psycopg") <= packages | TAKEN_WHERE_FOUND


def test_the_inference_image_has_what_the_worker_imports_and_no_database() -> None:
    packages = packages_of("inference")
    assert not packages & {"sqlalchemy", "psycopg", "redis", "fastapi"}
    assert imported_by("inference.server.app, inference.models_catalog") <= packages | TAKEN_WHERE_FOUND


def test_the_two_images_name_the_python_that_is_supported() -> None:
    versions = re.findall(r"^ARG PYTHON=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert versions == ["3.12"]
