"""CSV or JSON, whichever is asked for: `?format=csv`, else what `Accept` prefers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse

from gateway.reports.csv import lines

TYPE = "text/csv"


def wants_csv(request: Request, asked: str | None) -> bool:
    """`asked`: the query's `format`, where it has one."""
    return asked == "csv" if asked else TYPE in request.headers.get("accept", "")


def csv_answer(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], headers: Mapping[str, str]
) -> StreamingResponse:
    """Line by line, so that a long report is never held as one text."""
    return StreamingResponse(lines(rows, columns), media_type=f"{TYPE}; charset=utf-8", headers=headers)
