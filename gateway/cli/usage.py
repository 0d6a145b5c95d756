"""`specgate usage`: the server's usage report as a table, or as it came."""

import json
import time
from typing import Annotated, Any

import typer
from rich.table import Table

from gateway.cli.console import load_settings, wide_console
from gateway.cli.remote import BaseUrl, admin_address, connect, credentials, require_ok

PATH = "/v1/organization/usage/completions"
DAY = 86_400
COLUMNS = {
    "requests": "num_model_requests",
    "input": "input_tokens",
    "cached": "input_cached_tokens",
    "output": "output_tokens",
    "passes": "steps",
    "passes saved": "passes_saved",
    "drafts accepted": "acceptance_rate",
    "prediction accepted": "accepted_prediction_tokens",
    "rejected": "rejected_prediction_tokens",
}
"""Heading → member of a result, or of its `speculation`."""


def usage(
    days: Annotated[int, typer.Option(min=1, max=31, help="How far back.")] = 7,
    by: Annotated[list[str] | None, typer.Option(help="Group by: model, project_id, api_key_id. Repeatable.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The report as the server gives it.")] = False,
    base_url: BaseUrl = None,
) -> None:
    """What was used by day, and what speculation saved."""
    settings = load_settings()
    start = int(time.time()) // DAY * DAY - (days - 1) * DAY
    query: dict[str, Any] = {"start_time": start, "bucket_width": "1d", "limit": days, "group_by": by or []}
    with connect(admin_address(settings, base_url), credentials(settings).operator_key) as client:
        response = client.get(PATH, params=query)
        require_ok(response)
        report = response.json()
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        wide_console().print(table(report, by or []))


def table(report: dict[str, Any], by: list[str]) -> Table:
    """A row for each group of each day that had a request."""
    shown = Table("day", *by, *COLUMNS, box=None, pad_edge=False)
    for column in shown.columns[1 + len(by) :]:
        column.justify = "right"
    for bucket in report["data"]:
        day = bucket["start_time_iso"][:10]
        for result in bucket["results"]:
            figures = {**result, **result["speculation"]}
            shown.add_row(
                day, *(str(result[name]) for name in by), *(_told(figures[name]) for name in COLUMNS.values())
            )
    return shown


def _told(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1%}" if isinstance(value, float) else f"{value:,}"
