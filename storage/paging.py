"""A list page by page: rows in the order they were made, from after (or before) one that the reader names."""

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Row, Select, literal, tuple_

from storage.database import Session
from storage.errors import UnknownCursor

Order = Literal["asc", "desc"]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page begins, and how long it may be."""

    limit: int = 20
    after: str | None = None
    before: str | None = None
    order: Order = "asc"


async def page(
    session: Session, statement: Select[Any], made: ColumnElement[Any], id: ColumnElement[str], cursor: Cursor
) -> tuple[list[Row[Any]], bool]:
    """The rows, and whether more follow. Raises UnknownCursor where the named row is not one of the list."""
    place = tuple_(made, id)
    is_up = cursor.order == "asc"
    if cursor.after is not None:
        at = await _place_of(session, statement, made, id, cursor.after, "after")
        statement = statement.where(place > at if is_up else place < at)
    if cursor.before is not None:
        at = await _place_of(session, statement, made, id, cursor.before, "before")
        statement = statement.where(place < at if is_up else place > at)
    is_backwards = cursor.before is not None and cursor.after is None
    reads_up = is_up != is_backwards
    ordered = statement.order_by(*((made, id) if reads_up else (made.desc(), id.desc())))
    rows = list(await session.execute(ordered.limit(cursor.limit + 1)))
    kept = rows[: cursor.limit]
    return (kept[::-1] if is_backwards else kept), len(rows) > cursor.limit


async def _place_of(
    session: Session, statement: Select[Any], made: ColumnElement[Any], id: ColumnElement[str], named: str, param: str
) -> ColumnElement[Any]:
    found = (await session.execute(statement.with_only_columns(made, id).where(id == named))).one_or_none()
    if found is None:
        raise UnknownCursor(param)
    return tuple_(literal(found[0], made.type), literal(found[1], id.type))
