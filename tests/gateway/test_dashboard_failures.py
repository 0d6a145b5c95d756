"""Whatever goes wrong behind a page, a browser gets a page that says no more than it should."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.serve import open_parts
from storage import StorageAway
from tests.gateway.fake_engine import FakeEngine
from tests.gateway.running import serving, settings_for
from tests.gateway.test_dashboard_access import csrf

pytestmark = pytest.mark.anyio


class Broken:
    """A limiter that cannot say how limits stand."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def standings(self, subjects: Any) -> Any:
        raise self._error


@pytest.mark.parametrize(
    ("error", "status", "title"),
    [
        (RuntimeError("the secret of the house"), 500, "Something went wrong here"),
        (StorageAway("db.internal:5432"), 503, "Not available now"),
    ],
)
async def test_a_failure_has_a_page(tmp_path: Path, error: Exception, status: int, title: str) -> None:
    async with open_parts(settings_for(tmp_path), lambda *_: nullcontext(FakeEngine())) as (parts, opened):
        broken: Any = Broken(error)
        async with (
            serving(replace(parts, limiter=broken)) as url,
            httpx.AsyncClient(base_url=url, headers={"accept": "text/html"}, trust_env=False) as http,
        ):
            sent = {"csrf": await csrf(http, "/dashboard/sign-in"), "key": opened.credentials.operator_key}
            await http.post("/dashboard/sign-in", data=sent)
            answer = await http.get("/dashboard/limits")
            assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
            assert f"<h1>{title}</h1>" in answer.text
            assert answer.headers["x-request-id"] in answer.text
            assert str(error) not in answer.text
            assert "Sign out" in answer.text
