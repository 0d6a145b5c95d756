"""How pages look: wide and narrow, light and dark; kept as pictures in build/screenshots."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.browser.conftest import Served, Windows

PAGES = {
    "overview": "/dashboard",
    "hours": f"/dashboard?bucket=hour&zone=Europe/Berlin&from={datetime.now(UTC).date() - timedelta(days=2)}",
    "deployments": "/dashboard/deployments",
    "deployment": "/dashboard/deployments/dep_default",
    "limits": "/dashboard/limits",
    "not-found": "/dashboard/nothing/here",
}
SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 360, "height": 740}}

CUT = """
[...document.querySelectorAll(".scroll:has(.stack)")].filter(e => e.scrollWidth > e.clientWidth).map(e => e.ariaLabel)
"""
"""Tables that become lists on a phone, and yet are wider than it. Others may be scrolled."""
LOOKS = [
    ("desktop", "light"),
    ("phone", "dark"),
    pytest.param("desktop", "dark", marks=pytest.mark.long),
    pytest.param("phone", "light", marks=pytest.mark.long),
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_every_page_is_drawn(windows: Windows, served: Served, operator: str, size: str, scheme: str) -> None:
    eye = windows.open(viewport=SIZES[size], color_scheme=scheme)
    eye.open()
    eye.shoot(f"sign-in-{size}-{scheme}")
    eye.sign_in(operator)
    for name, path in PAGES.items():
        eye.open(path)
        eye.shoot(f"{name}-{size}-{scheme}")
        width = eye.page.evaluate("document.documentElement.scrollWidth")
        assert width <= SIZES[size]["width"], f"{name} is wider than the window"
        assert eye.page.evaluate(CUT) == [], f"{name} has lists that are cut at the side"
