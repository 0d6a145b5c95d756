"""`specgate demo-traffic`: a fresh installation gets something to report."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from gateway.cli.admin import Admin, admin
from gateway.cli.console import load_settings, wide_console
from gateway.cli.demo_traffic_cases import Asked, traffic
from gateway.cli.demo_traffic_scene import HELD_OUT, TENANT, deployment_of, held_out, keys, make_tenant, priced
from gateway.cli.remote import BaseUrl, address, admin_address, connect
from gateway.cli.usage_table import table

CHAT = "/v1/chat/completions"
REPORT = "/v1/organization/usage/speculation"
DAY = 86_400
WORDS = 8
"""Lines of a stream after which somebody leaves."""


def demo_traffic(
    requests: Annotated[int, typer.Option(min=1, max=100_000, help="How many to ask, at most.")] = 400,
    seconds: Annotated[float, typer.Option(min=1, help="How long to ask, at most.")] = 240,
    model: Annotated[str | None, typer.Option(help="The deployment to ask; else the first that answers.")] = None,
    base_url: BaseUrl = None,
) -> None:
    """Ask the running server as two projects of a tenant `demo` would, then show what it reports of them."""
    console = Console(highlight=False, soft_wrap=True)
    where = address(load_settings(), base_url)
    with admin(base_url) as api:
        deployment = deployment_of(api, model)
        make_tenant(api)
        with keys(api.of(TENANT)) as found, held_out(api, deployment) as before, priced(api, deployment) as is_priced:
            for line in told_of(deployment["name"], before, is_priced):
                console.print(line)
            told = ask_all(where, found, list(traffic(deployment["name"], requests)), seconds, console)
        console.print(", ".join(f"{number} {outcome}" for outcome, number in told.most_common()))
        show_report(api.of(TENANT))
    dashboard = admin_address(load_settings(), base_url)
    console.print(f"{dashboard}/dashboard shows the same; sign in with the operator key of credentials.json.")


def ask_all(
    where: str, keys: Mapping[str, str], asked: Sequence[Asked], seconds: float, console: Console
) -> Counter[str]:
    """One after the other, until all are answered or the time is up; how they ended."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    until, told = time.monotonic() + seconds, Counter[str]()
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(*columns, console=console, disable=not console.is_terminal))
        clients = {project: stack.enter_context(connect(where, key)) for project, key in keys.items()}
        for one in progress.track(asked, description="requests"):
            if time.monotonic() > until:
                told["not asked: the time was up"] = len(asked) - told.total()
                break
            told[ask(clients[one.project], one)] += 1
    return told


def ask(client: httpx.Client, asked: Asked) -> str:
    with client.stream("POST", CHAT, json=asked.body) as response:
        if not response.is_success:
            return f"refused with {response.status_code}"
        for number, _ in enumerate(response.iter_lines()):
            if asked.leaves and number >= WORDS:
                return "left half-way"
    return "answered"


def told_of(name: str, before: float, is_priced: bool) -> Iterator[str]:
    """What is changed, and put back."""
    if before != HELD_OUT:
        yield f"{name}: {HELD_OUT:.0%} of requests run without speculation while this lasts, then {before:.0%} again."
    if is_priced:
        yield f"{name}: its tokens have a price while this lasts, then none again."


def show_report(api: Admin) -> None:
    """What its requests of today came to, by kind of work, those without speculation apart."""
    since, groups = int(time.time()) // DAY * DAY, ["workload", "cohort"]
    console = wide_console()
    console.print(table(api.get(REPORT, start_time=since, bucket_width="1d", group_by=groups), groups, console.width))
