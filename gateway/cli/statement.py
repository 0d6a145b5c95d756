"""`specgate usage statement`: what a tenant's month costs, line by line."""

from typing import Annotated, Any

import typer
from rich.console import Group
from rich.table import Table

from gateway.cli.admin import AsJson, BaseUrl, Organization, admin
from gateway.cli.console import print_json, visible, wide_console
from gateway.statement import amount

LINES = ("model", "price_version", "item", "tokens", "price", "micros")


def statement(
    month: Annotated[str, typer.Option(help="As 2026-11, in UTC.")],
    tenant: Organization = None,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
) -> None:
    """A tenant's bill: tokens by deployment, price and item, adjustments, and the total to the unit."""
    with admin(base_url, tenant) as api:
        found = api.get("/v1/organization/usage/statement", month=month)
    if as_json:
        print_json(found)
    else:
        wide_console().print(shown(found))


def shown(found: dict[str, Any]) -> Group:
    table = Table("deployment", "prices", "item", "tokens", "price a million", "cost", box=None, pad_edge=False)
    for line in found["lines"]:
        model, version, item, tokens, price, micros = (line[name] for name in LINES)
        told = (model or "-", "-" if version is None else str(version), item)
        table.add_row(*told, f"{tokens:,}", amount(price), amount(micros))
    for one in found["adjustments"]:
        table.add_row("adjustment", "", visible(one["reason"]), "", one["request_id"], amount(one["micros"]))
    table.add_row("total", "", "", "", found["currency"], found["total"])
    for column in table.columns[3:]:
        column.justify = "right"
    state = "final" if found["is_final"] else "not over yet"
    return Group(f"{found['organization_id']}, {found['month']} (UTC, {state})", table)
