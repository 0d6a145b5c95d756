"""A pytest plugin (`-p tests.one_server`): tests that share a server share one worker, and so start it once.

By path: xdist's own groups (`xdist_group`) are lost with pytest 9.2.
"""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

SERVED = ("test_demo.py", "test_readme.py", "test_real_model.py", "test_serve.py", "test_stop.py")

OWN_SERVERS = ("test_production.py", "test_workers.py")
"""Each of these has servers of its own, shared by its tests."""


class OneServer(LoadScopeScheduling):
    """Every other test is a unit of work of its own."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.startswith("tests/browser/"):
            return "browser"
        if file.startswith("tests/integration/") and file.endswith((*SERVED, *OWN_SERVERS)):
            return "served" if file.endswith(SERVED) else file
        return nodeid


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneServer:
    return OneServer(config, log)
