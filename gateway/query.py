"""Query strings, read strictly: what is not known is refused by name, numbers and flags have one spelling.

Lists are read with and without `[]`, as OpenAI's clients of different ages send them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from starlette.types import Scope

from gateway.errors import InvalidRequest
from storage.paging import Cursor, Order

MAX_PAGE = 100
PAGE = ("after", "limit")


@dataclass(frozen=True, slots=True)
class Query:
    """Each single once, each list in the order given."""

    singles: dict[str, str]
    lists: dict[str, list[str]]

    def integer(self, name: str, least: int, most: int) -> int | None:
        return integer(name, self.singles[name], least, most) if name in self.singles else None

    def one_of(self, name: str, *values: str) -> str | None:
        value = self.singles.get(name)
        if value is not None and value not in values:
            raise InvalidRequest(f"Invalid {name}: use {' or '.join(values)}.", name)
        return value

    def cursor(self, default: int = 20) -> Cursor:
        """`after`, `before`, `limit` and `order`, where they were let in."""
        order: Order = "desc" if self.one_of("order", "asc", "desc") == "desc" else "asc"
        limit = self.integer("limit", 1, MAX_PAGE) or default
        return Cursor(limit, self.singles.get("after"), self.singles.get("before"), order)


def read_query(items: Iterable[tuple[str, str]], singles: Sequence[str], lists: Sequence[str] = ()) -> Query:
    """Raises InvalidRequest for what is not named here, and for a single that comes twice."""
    query = Query({}, {name: [] for name in lists})
    for raw, value in items:
        name = raw.removesuffix("[]")
        if name in query.lists:
            query.lists[name].append(value)
        elif raw not in singles:
            known = ", ".join((*singles, *lists))
            raise InvalidRequest(f"Unknown parameter: '{raw}'. This takes {known}.", raw, "unknown_parameter")
        elif raw in query.singles:
            raise InvalidRequest(f"The parameter '{raw}' comes more than once; send it once.", raw)
        else:
            query.singles[raw] = value
    return query


def integer(name: str, text: str, least: int, most: int) -> int:
    value = int(text) if re.fullmatch(r"[0-9]{1,15}", text) else -1
    if not least <= value <= most:
        raise InvalidRequest(f"Invalid {name}: use an integer from {least} to {most}.", name)
    return value


def refuse_nul(scope: Scope) -> None:
    """PostgreSQL takes no text with a NUL, whichever id or cursor it is meant to be. Raises InvalidRequest."""
    if "\0" in scope["path"] or b"%00" in scope["query_string"]:
        raise InvalidRequest("The URL holds a NUL character (%00); remove it.")
