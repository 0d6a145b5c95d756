"""How the commands reach a running server: its address from the settings, its keys from `credentials.json`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import httpx
import typer

from gateway.bootstrap import Credentials, HomeRefused, read_credentials
from gateway.cli.console import stop, visible
from gateway.settings import Settings, split_bind

BaseUrl = Annotated[str | None, typer.Option(help="Where the server is, when HOST and PORT do not say it.")]
NOT_TAKEN = (
    "This key is from credentials.json of SPECGATE_HOME: name the home of that server, or, where its operator key was "
    "deleted, run `specgate keys reset-admin`."
)
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def address(settings: Settings, base_url: str | None) -> str:
    if base_url:
        return base_url.rstrip("/").removesuffix("/v1")
    return _url(settings.host, settings.port)


def admin_address(settings: Settings, base_url: str | None) -> str:
    """Where the admin routes are: SPECGATE_ADMIN_BIND where it is set."""
    if base_url or not settings.admin_bind:
        return address(settings, base_url)
    return _url(*split_bind(settings.admin_bind))


def _url(host: str, port: int) -> str:
    reached = EVERYWHERE.get(host, host)
    return f"http://{f'[{reached}]' if ':' in reached else reached}:{port}"


def credentials(settings: Settings) -> Credentials:
    try:
        found = read_credentials(settings.home)
    except HomeRefused as error:
        stop(str(error))
    return found or stop(
        f"there is no credentials.json in {settings.home}. Start the server once with `specgate serve`, "
        "or set SPECGATE_HOME to its folder."
    )


@contextmanager
def connect(url: str, key: str) -> Iterator[httpx.Client]:
    """A client of the running server; what goes wrong on the way ends the command with what to do."""
    timeout = httpx.Timeout(300, connect=5)
    try:
        with httpx.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=timeout) as client:
            yield client
    except httpx.ConnectError:
        stop(f"no server answers at {url}. Start one with `specgate serve`, or name it with --base-url.")
    except httpx.HTTPError as error:
        stop(f"the connection to {url} broke ({type(error).__name__}). Its log says why.")


def require_ok(response: httpx.Response) -> None:
    """Refusals carry their reason in OpenAI's envelope."""
    if response.is_success:
        return
    response.read()
    try:
        reason = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        reason = response.text[:200]
    more = f" {NOT_TAKEN}" if response.status_code == 401 else ""
    stop(visible(f"{response.request.url.path} answered {response.status_code}: {reason}{more}"))
