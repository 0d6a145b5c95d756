"""Drafters are changed by a form: looked at first, with a reason, never over somebody else's change, and back again."""

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Eye, Served, Windows
from tests.browser.test_signing_in import csrf, sign_in

PATH = "/dashboard/deployments/dep_coder"


def change(eye: Eye, label: str, value: str, why: str = "", press: str = "Save") -> None:
    eye.page.get_by_label(label, exact=True).fill(value)
    eye.page.get_by_label("Why", exact=True).fill(why)
    eye.page.get_by_role("button", name=press, exact=True).click()


def at_work(served: Served, operator: str) -> tuple[int, int]:
    """The version of the drafters, and the length of their drafts."""
    headers = {"authorization": f"Bearer {operator}"}
    found = httpx.get(f"{served.url}/admin/v1/deployments/dep_coder", headers=headers, trust_env=False).json()
    return found["speculation_version"]["version"], found["speculation"]["drafter"]["length"]


def test_preview_save_and_roll_back(eye: Eye, served: Served, operator: str) -> None:
    eye.sign_in(operator, PATH)
    version, _ = at_work(served, operator)
    length = "Tokens a step at most"
    change(eye, length, "12", "shorter ones", press="Preview")
    expect(eye.page.get_by_role("status")).to_contain_text("Saving would change 1 setting")
    expect(eye.page.get_by_role("status")).to_contain_text("16 → 12")
    assert at_work(served, operator) == (version, 16)
    assert eye.page.get_by_label("Why", exact=True).input_value() == "shorter ones"

    eye.page.get_by_role("button", name="Save", exact=True).click()
    expect(eye.page.get_by_role("status")).to_contain_text("Saved.")
    assert at_work(served, operator) == (version + 1, 12)
    newest = eye.page.get_by_role("region", name="History", exact=True).locator("tbody tr").first
    expect(newest).to_contain_text("shorter ones")
    expect(newest).to_contain_text(operator[6:18])

    eye.page.get_by_label(f"Why go back to version {version}").fill("longer ones were better")
    eye.page.get_by_role("button", name=f"Roll back to version {version}").click()
    expect(eye.page.get_by_role("status")).to_contain_text("Rolled back, as a new version.")
    assert at_work(served, operator) == (version + 2, 16)


def test_who_comes_second_is_shown_what_the_first_did(windows: Windows, served: Served, operator: str) -> None:
    first, second = windows.open(), windows.open()
    for eye in (first, second):
        eye.sign_in(operator, PATH)
    version, _ = at_work(served, operator)
    change(first, "Longest match", "6", "a longer match")
    expect(first.page.get_by_role("status")).to_contain_text("Saved.")
    with second.page.expect_response(lambda answer: answer.request.method == "POST") as answered:
        change(second, "Tokens a step at most", "9", "short")
    assert answered.value.status == 412
    told = second.page.get_by_role("alert")
    expect(told).to_contain_text("Somebody was faster.")
    expect(told).to_contain_text("«a longer match»")
    expect(told.get_by_role("listitem")).to_have_text(["drafter.length: 16 → 9"])
    assert second.page.get_by_label("Longest match").input_value() == "6"
    assert at_work(served, operator) == (version + 1, 16)
    second.shoot("conflict-desktop-light")
    second.page.get_by_role("button", name="Save", exact=True).click()
    expect(second.page.get_by_role("status")).to_contain_text("Saved.")
    assert at_work(served, operator) == (version + 2, 9)
    change(second, "Tokens a step at most", "16", "as before")


@pytest.mark.parametrize(
    ("label", "value", "why", "told"),
    [
        ("Shortest", "eight", "x", "Invalid type for 'speculation.adaptive.minimum'"),
        ("Held out", "0.9", "x", "speculation.holdout_rate"),
        ("Longest", "12", "", "reason"),
    ],
)
def test_what_cannot_be_is_told_at_its_field(
    eye: Eye, operator: str, label: str, value: str, why: str, told: str
) -> None:
    eye.sign_in(operator, PATH)
    change(eye, label, value, why)
    expect(eye.page.get_by_role("alert")).to_contain_text(told)
    at_fault = eye.page.locator("[aria-invalid=true]")
    assert at_fault.count() == 1
    assert eye.page.get_by_label(label, exact=True).input_value() == value


def test_only_operators_change_anything(served: Served) -> None:
    with httpx.Client(base_url=served.url, trust_env=False, headers={"accept": "text/html"}, timeout=20) as http:
        sign_in(http, served.seeded.admins["acme"])
        sent = {"csrf": csrf(http, "/dashboard"), "version": "1", "to": "1", "reason": "x", "action": "save"}
        for path in (PATH, f"{PATH}/rollback"):
            assert http.post(path, data=sent).status_code == 403
