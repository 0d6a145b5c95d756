"""`specgate ledger adjust`: a correction of what a request cost, through a running server."""

from typing import Annotated

import typer

from gateway.cli.admin import AsJson, BaseUrl, Reason, admin, show

COLUMNS = ("id", "request_id", "organization_id", "micros", "reason")


def adjust(
    request: Annotated[str, typer.Option(help="Its id: the x-request-id of its answer.")],
    micros: Annotated[int, typer.Option(help="Micro-units added to its cost; negative: given back.")],
    reason: Reason,
    as_json: AsJson = False,
    base_url: BaseUrl = None,
) -> None:
    """Add to what a request cost. Made twice it counts twice; nothing is ever taken out of the ledger."""
    with admin(base_url) as api:
        made = api.post(f"/admin/v1/requests/{request}/adjustments", {"micros": micros, "reason": reason})
        show(made, COLUMNS, as_json)
