"""`specgate audit`: who changed what, and whether the log is as it was written."""

from typing import Annotated

import typer

from gateway.cli.admin import AsJson, BaseUrl, admin, show

app = typer.Typer(help="Look at the audit log.", no_args_is_help=True)
COLUMNS = ("seq", "effective_at", "organization_id", "type", "actor.name", "request_id")


@app.command("list")
def list_some(
    tenant: Annotated[str | None, typer.Option(help="Of this tenant alone.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100)] = 20,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
) -> None:
    """The newest events: of every tenant, and of deployments and prices."""
    with admin(base_url, tenant) as api:
        show(api.get("/v1/organization/audit_logs", limit=limit)["data"], COLUMNS, as_json)


@app.command()
def verify(as_json: AsJson = False, base_url: BaseUrl = None) -> None:
    """Read the whole chain; ends with 1 where it does not hold."""
    with admin(base_url) as api:
        report = api.get("/admin/v1/audit/verify")
    show(report, tuple(name for name in report if name != "object"), as_json)
    raise typer.Exit(0 if report["holds"] else 1)
