"""In with a key and out again; wrong keys, ended keys and strange forms open nothing."""

import re
import time
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import expect

from gateway.dashboard import attempts
from storage.api_keys import ApiKeys
from tests.browser.conftest import Eye, Served

CSRF = re.compile(r'name="csrf" value="([0-9a-f]{64})"')
HTML = {"accept": "text/html"}


@pytest.fixture
def http(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, headers=HTML, timeout=20, trust_env=False) as client:
        yield client


def csrf(http: httpx.Client, path: str = "/dashboard/sign-in") -> str:
    found = CSRF.search(http.get(path).text)
    assert found is not None
    return found[1]


def sign_in(http: httpx.Client, key: str, **more: str) -> httpx.Response:
    return http.post("/dashboard/sign-in", data={"csrf": csrf(http), "key": key} | more)


def new_key(served: Served) -> str:
    async def make() -> str:
        async with served.gateway.parts.db.unit() as session:
            return (await ApiKeys(session).create("initech", "tenant_admin", "for one test")).key

    return str(served.do(make))


def revoke(served: Served, key: str) -> None:
    async def end() -> None:
        async with served.gateway.parts.db.unit() as session:
            assert await ApiKeys(session).revoke(key[6:18])

    served.do(end)


def test_in_to_where_one_meant_to_go_and_out_again(eye: Eye, operator: str) -> None:
    assert eye.open("/dashboard/limits?zone=Europe%2FBerlin") == 401
    expect(eye.page.get_by_label("API key")).to_be_focused()
    eye.page.keyboard.type(operator)
    eye.page.keyboard.press("Enter")
    expect(eye.page).to_have_url(f"{eye.url}/dashboard/limits?zone=Europe%2FBerlin")
    expect(eye.page.get_by_role("heading", name="Limits", exact=True)).to_be_visible()
    [cookie] = eye.page.context.cookies()
    assert (cookie["name"], cookie["path"], cookie["httpOnly"], cookie["sameSite"]) == (
        *("specgate_session", "/dashboard", True, "Strict"),
    )
    eye.page.get_by_role("button", name="Sign out").click()
    expect(eye.page.get_by_role("heading", name="Sign in")).to_be_visible()
    eye.page.go_back()
    expect(eye.page.get_by_label("API key")).to_be_visible()


def test_a_wrong_key_is_told_at_the_field(eye: Eye) -> None:
    eye.sign_in("sk-sg-nonsense")
    expect(eye.page.get_by_role("alert")).to_contain_text("No live key reads so.")
    expect(eye.page.get_by_label("API key")).to_have_attribute("aria-invalid", "true")


def test_a_revoked_key_ends_its_sessions_within_a_second(eye: Eye, served: Served) -> None:
    key = new_key(served)
    eye.sign_in(key)
    expect(eye.page.get_by_role("heading", name="Overview")).to_be_visible()
    revoke(served, key)
    revoked = time.monotonic()
    assert eye.open("/dashboard/limits") == 401
    assert time.monotonic() - revoked < 1
    expect(eye.page.get_by_role("status")).to_contain_text("your session has ended")


def test_a_session_is_another_after_signing_in_and_none_after_signing_out(http: httpx.Client, operator: str) -> None:
    http.get("/dashboard/sign-in")
    before = http.cookies["specgate_session"]
    assert sign_in(http, operator).status_code == 303
    signed_in = http.cookies["specgate_session"]
    assert signed_in != before
    assert http.get("/dashboard").status_code == 200
    assert http.post("/dashboard/sign-out", data={"csrf": csrf(http, "/dashboard")}).status_code == 303
    http.cookies.clear()
    for old in (before, signed_in):
        assert http.get("/dashboard", headers={"cookie": f"specgate_session={old}"}).status_code == 401


def test_the_cookie_is_for_tls_alone_where_tls_is(http: httpx.Client) -> None:
    plain = http.get("/dashboard/sign-in").headers["set-cookie"]
    http.cookies.clear()
    behind = http.get("/dashboard/sign-in", headers={"x-forwarded-proto": "https"}).headers["set-cookie"]
    assert "Secure" not in plain
    assert "Secure" in behind


@pytest.mark.parametrize("path", ["/dashboard/sign-in", "/dashboard/sign-out", "/dashboard/deployments/dep_default"])
@pytest.mark.parametrize("token", [None, "", "0" * 64])
def test_a_form_without_its_token_is_refused(http: httpx.Client, operator: str, path: str, token: str | None) -> None:
    sign_in(http, operator)
    sent = {"key": operator, "version": "1", "action": "save", "reason": "x"} | (
        {} if token is None else {"csrf": token}
    )
    refused = http.post(path, data=sent)
    assert refused.status_code == 403
    assert "does not belong to your session" in refused.text
    assert http.get("/dashboard").status_code == 200


def test_a_token_of_another_session_is_refused(http: httpx.Client, served: Served, operator: str) -> None:
    with httpx.Client(base_url=served.url, headers=HTML, trust_env=False) as other:
        theirs = csrf(other)
    sign_in(http, operator)
    assert http.post("/dashboard/sign-out", data={"csrf": theirs}).status_code == 403


@pytest.mark.parametrize(
    "place", ["https://evil.example", "//evil.example", "/\\evil", "/dashboard\n", "/v1/models", ""]
)
def test_nobody_is_led_away(http: httpx.Client, operator: str, place: str) -> None:
    assert sign_in(http, operator, next=place).headers["location"] == "/dashboard"


def test_keys_are_tried_a_few_times_a_minute(http: httpx.Client, served: Served) -> None:
    wrong = f"sk-sg-{'z' * 12}-{'y' * 43}"
    tried = [sign_in(http, wrong) for _ in range(attempts.PER_KEY + 1)]
    assert [answer.status_code for answer in tried] == [401] * attempts.PER_KEY + [429]
    assert 0 < int(tried[-1].headers["retry-after"]) <= attempts.WINDOW
    assert "Too many keys were tried" in tried[-1].text


def test_programs_are_told_in_the_words_of_the_api(served: Served) -> None:
    refused = httpx.get(f"{served.url}/dashboard", trust_env=False)
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
