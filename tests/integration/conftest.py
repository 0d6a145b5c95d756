"""One server on the real model for all the files that `tests/one_server.py` names."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inference.models_catalog import DEFAULT_MODEL, ensure_model
from tests.integration.served import Served, served

MakeHome = Callable[[], Path]


@pytest.fixture(scope="session")
def make_home(tmp_path_factory: pytest.TempPathFactory) -> MakeHome:
    """A home that never started, but for the model, which is fetched and converted once for all tests."""
    state = Path(os.environ.get("SPECGATE_TEST_MODELS", Path(__file__).parents[2] / ".specgate"))
    folder = ensure_model(DEFAULT_MODEL, state)

    def make() -> Path:
        home = tmp_path_factory.mktemp("home")
        (home / "models").mkdir()
        (home / "models" / DEFAULT_MODEL).symlink_to(folder)
        return home

    return make


@pytest.fixture(scope="session")
def server(make_home: MakeHome) -> Iterator[Served]:
    with served(make_home()) as running:
        running.wait_ready()
        yield running
