"""What pages show, to whom; figures are those of the API."""

import csv
import io

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import Eye, Served, Windows
from tests.browser.seeding import TENANTS
from tests.browser.test_look import PAGES

SMALL = 300_000


def test_the_overview_says_what_the_api_says(eye: Eye, served: Served, operator: str) -> None:
    eye.sign_in(operator)
    page = eye.page
    for card in ("Requests", "Tokens", "Acceptance", "Time saved"):
        expect(page.get_by_role("region", name=card, exact=True)).to_be_visible()
    download = page.context.request.get(page.get_by_role("link", name="Download as CSV").evaluate("a => a.href"))
    assert download.headers["content-disposition"].startswith('attachment; filename="specgate-')
    rows = list(csv.DictReader(io.StringIO(download.text())))
    table = page.get_by_role("table", name="Use by deployment")
    assert table.get_by_role("row").count() - 1 == len(rows) == 4
    shown = [cell.inner_text() for cell in table.locator("tbody td[data-label=Requests]").all()]
    assert shown == [row["num_model_requests"] for row in rows]
    requests = sum(int(row["num_model_requests"]) for row in rows)
    expect(page.get_by_role("region", name="Requests", exact=True)).to_contain_text(f"{requests}")


def test_every_chart_has_a_table(eye: Eye, operator: str) -> None:
    eye.sign_in(operator)
    for summary in eye.page.get_by_text("As a table").all():
        summary.click()
    assert eye.page.locator("figure").count() == eye.page.locator("figure table").count() == 3
    over_time = eye.page.get_by_role("table", name="Drafted tokens by day")
    assert over_time.get_by_role("row").count() >= 7


def test_a_zone_names_times_anew(eye: Eye, operator: str) -> None:
    eye.sign_in(operator, "/dashboard?zone=Asia/Tokyo")
    eye.page.get_by_text("As a table").first.click()
    first = eye.page.get_by_role("table", name="Drafted tokens by day").locator("tbody th").first
    assert first.inner_text().endswith("09:00")
    eye.page.get_by_role("link", name="Deployments").click()
    expect(eye.page.get_by_text("times in Asia/Tokyo")).to_be_visible()
    assert eye.open("/dashboard?zone=Mars/Olympus") == 400
    expect(eye.page.get_by_role("alert")).to_contain_text("Invalid zone")


@pytest.mark.parametrize("tenant", TENANTS)
def test_a_tenant_sees_itself_alone(eye: Eye, served: Served, tenant: str) -> None:
    eye.sign_in(served.seeded.admins[tenant])
    assert eye.page.get_by_label("Tenant").count() == 0
    assert eye.page.get_by_role("link", name="Deployments").count() == 0
    for path in ("/dashboard", "/dashboard?bucket=hour", "/dashboard/limits", "/dashboard/usage.csv"):
        text = eye.page.context.request.get(eye.url + path).text()
        for other, name in TENANTS.items():
            if other != tenant:
                assert other not in text
                assert name not in text
                assert served.seeded.inference[other][6:18] not in text
    foreign, unknown = (
        eye.page.context.request.get(f"{eye.url}/dashboard?tenant={id}") for id in ("default", "nowhere")
    )
    assert (foreign.status, unknown.status) == (404, 404)


def requests_of(windows: Windows, key: str) -> int:
    """As the table's download says to this key."""
    eye = windows.open()
    eye.sign_in(key)
    rows = csv.DictReader(io.StringIO(eye.page.context.request.get(f"{eye.url}/dashboard/usage.csv").text()))
    return sum(int(row["num_model_requests"]) for row in rows)


def test_an_inference_key_sees_itself_alone(eye: Eye, windows: Windows, served: Served) -> None:
    keys, admin = (served.seeded.inference["acme"], served.seeded.batch), served.seeded.admins["acme"]
    parts = [requests_of(windows, key) for key in keys]
    assert min(parts) > 0
    assert sum(parts) == requests_of(windows, admin)
    eye.sign_in(keys[0])
    expect(eye.page.get_by_text("this key alone")).to_be_visible()
    assert keys[1][6:18] not in eye.page.content()
    eye.open("/dashboard/limits")
    expect(eye.page.get_by_role("heading", name="Acme Software editor")).to_be_visible()
    assert eye.open("/dashboard/deployments") == 403
    expect(eye.page.get_by_role("alert")).to_contain_text("This needs a key of another kind: operator.")


def test_the_operator_picks_a_tenant(eye: Eye, operator: str) -> None:
    eye.sign_in(operator)
    eye.page.get_by_label("Tenant").select_option("globex")
    eye.page.get_by_role("button", name="Show").click()
    expect(eye.page.get_by_text("tenant globex")).to_be_visible()
    assert eye.page.get_by_label("Tenant").input_value() == "globex"


def test_limits_that_are_near_are_told_first(eye: Eye, operator: str) -> None:
    eye.sign_in(operator, "/dashboard/limits?tenant=acme")
    near = eye.page.get_by_role("status")
    expect(near).to_contain_text("tenant Acme Software: tokens a month, 87% used")
    expect(near).to_contain_text("key Acme Software editor: tokens a month, used up")
    assert eye.page.get_by_role("heading", name="Globex").count() == 0


def test_pages_that_are_not_there_have_the_same_face(eye: Eye, operator: str) -> None:
    eye.sign_in(operator)
    for path in ("/dashboard/nothing", "/dashboard/deployments/dep_nowhere", "/dashboard?tenant=nowhere"):
        assert eye.open(path) == 404
        expect(eye.page.get_by_role("navigation", name="Pages")).to_be_visible()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_pages_are_usable_by_everyone(windows: Windows, operator: str, scheme: str) -> None:
    """axe's rules, contrast among them; and no page is large or brings a script."""
    eye = windows.open(color_scheme=scheme)
    eye.open()
    assert Axe().run(eye.page).response["violations"] == []
    eye.sign_in(operator)
    for path in PAGES.values():
        eye.open(path)
        assert [(one["id"], one["nodes"][0]["html"]) for one in Axe().run(eye.page).response["violations"]] == []
        content = eye.page.content()
        assert len(content.encode()) < SMALL
        assert "<script" not in content
        assert " style=" not in content


def test_a_page_may_fetch_from_here_alone_and_run_nothing(eye: Eye) -> None:
    answer = eye.page.goto(f"{eye.url}/dashboard/sign-in")
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"


def test_the_keyboard_reaches_everything(eye: Eye, operator: str) -> None:
    eye.sign_in(operator)
    keyboard, page = eye.page.keyboard, eye.page
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    keyboard.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    reached = []
    for _ in range(40):
        keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        reached.append(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.id"))
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none", f"{reached[-1]} shows no focus"
    for wanted in ("Today", "from", "zone", "Show", "As a table", "Download as CSV"):
        assert wanted in reached


def test_tenants_add_up_to_what_the_operator_sees(windows: Windows, served: Served, operator: str) -> None:
    parts = [requests_of(windows, served.seeded.admins[tenant]) for tenant in TENANTS]
    assert min(parts) > 0
    assert sum(parts) == requests_of(windows, operator)
