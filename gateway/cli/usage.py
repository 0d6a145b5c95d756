"""`specgate usage`: what was used and what speculation did, as a table or as it came; `export`: by entry."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import httpx
import typer

from gateway.cli.admin import AsJson, BaseUrl, Organization
from gateway.cli.console import load_settings, stop, wide_console
from gateway.cli.remote import admin_address, connect, credentials, require_ok
from gateway.cli.usage_table import GROUPS, table
from gateway.reports.csv import lines
from gateway.reports.entries import COLUMNS

app = typer.Typer(help="What was used, and what speculation did.", invoke_without_command=True)
REPORT = "/v1/organization/usage/speculation"
ENTRIES = "/v1/organization/usage/entries"
DAY = 86_400
PAGE = 1000
Time = Annotated[str | None, typer.Option(help="A UTC date or time, as 2026-03-01, or unix seconds.")]


@app.callback()
def usage(
    context: typer.Context,
    days: Annotated[int, typer.Option(min=1, max=31, help="How far back.")] = 7,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Group by, with commas or repeated: tenant, project, key, model, deployment, drafter, proposer, "
            "workload, cohort."
        ),
    ] = None,
    tenant: Organization = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="For spreadsheets.")] = False,
    base_url: BaseUrl = None,
) -> None:
    """By day: what was used, what speculation did, and whether it pays."""
    if context.invoked_subcommand is not None:
        return
    groups = list(dict.fromkeys(GROUPS.get(name, name) for part in by or [] for name in part.split(",") if name))
    start = int(time.time()) // DAY * DAY - (days - 1) * DAY
    query: dict[str, Any] = {"start_time": start, "bucket_width": "1d", "limit": days, "group_by": groups}
    with _asking(base_url, tenant) as client:
        response = client.get(REPORT, params=query | ({"format": "csv"} if as_csv else {}))
        require_ok(response)
    if as_csv:
        sys.stdout.write(response.text)
    elif as_json:
        typer.echo(json.dumps(response.json(), indent=2))
    else:
        console = wide_console()
        console.print(table(response.json(), groups, console.width))


@app.command()
def export(
    format: Annotated[Literal["csv", "jsonl"], typer.Option(help="CSV, or a JSON object a line.")] = "jsonl",
    start: Time = None,
    end: Time = None,
    tenant: Organization = None,
    base_url: BaseUrl = None,
) -> None:
    """Every settlement and adjustment, in the order the ledger took them, as far as all is final."""
    query = {"start_time": _seconds("start", start), "end_time": _seconds("end", end)}
    with _asking(base_url, tenant) as client:
        found = entries(client, {name: value for name, value in query.items() if value is not None})
        told = lines(found, COLUMNS) if format == "csv" else (json.dumps(entry) + "\n" for entry in found)
        for line in told:
            sys.stdout.write(line)


def entries(client: httpx.Client, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Page after page. The first says how far all is final: what is settled meanwhile is another export's."""
    query = query | {"limit": PAGE}
    has_more = True
    while has_more:
        response = client.get(ENTRIES, params=query)
        require_ok(response)
        page = response.json()
        yield from page["data"]
        has_more = page["has_more"]
        query |= {"after": page["last_id"], "end_time": query.get("end_time", page["finalised_through"])}


@contextmanager
def _asking(base_url: str | None, tenant: str | None) -> Iterator[httpx.Client]:
    settings = load_settings()
    with connect(admin_address(settings, base_url), credentials(settings).operator_key) as client:
        if tenant is not None:
            client.headers["OpenAI-Organization"] = tenant
        yield client


def _seconds(name: str, told: str | None) -> int | None:
    if told is None or told.isdigit():
        return None if told is None else int(told)
    try:
        at = datetime.fromisoformat(told)
    except ValueError:
        stop(f"--{name} {told!r} is no time: write 2026-03-01, 2026-03-01T12:00:00Z or unix seconds.", 2)
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
