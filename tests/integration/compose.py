"""docker-compose.yml as Compose reads it: merged, with the values of an environment file put in."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


class Compose:
    """Its services, as plain values."""

    def __init__(self, env: Mapping[str, str], path: Path = ROOT / "docker-compose.yml") -> None:
        self._env = env
        self.document: dict[str, Any] = self._filled(yaml.safe_load(path.read_text()))
        self.services: dict[str, dict[str, Any]] = self.document["services"]

    def environment(self, service: str) -> dict[str, str]:
        return self.services[service].get("environment", {})

    def command(self, service: str) -> list[str]:
        return self.services[service]["command"]

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._filled(member) for name, member in value.items()}
        if isinstance(value, list):
            return [self._filled(member) for member in value]
        return VARIABLE.sub(self._value, value) if isinstance(value, str) else value

    def _value(self, match: re.Match[str]) -> str:
        name, operator, word = match.groups()
        if self._env.get(name):
            return self._env[name]
        assert operator == "-", f"{name} is not set: {word}"
        return word


def env_file(path: Path) -> dict[str, str]:
    pairs = (line.split("=", 1) for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return dict(pairs)
