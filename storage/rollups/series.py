"""What sums are kept of: a series is one combination of dimensions at a level. Pure.

    key       everything that a row tells              project   without the key
    fleet     without tenant, project and key

The same rows are counted at all three, and a report reads the highest that can answer it. Ids are the first 63 bits
of a hash of what they name: the same wherever and whenever a row is counted, with nothing to look up.
"""

import json
from collections.abc import Collection
from hashlib import blake2b
from typing import Any, Literal

from storage.values.usage import GROUPS, Group, GroupValue

Level = Literal["key", "project", "fleet"]
LEFT_OUT: dict[Level, frozenset[Group]] = {
    "key": frozenset(),
    "project": frozenset({"key_id"}),
    "fleet": frozenset({"tenant_id", "project_id", "key_id"}),
}
"""Each level is summed from the one before it."""
Dimensions = tuple[GroupValue, ...]
"""By GROUPS; those that the level leaves out are None."""


def at_level(level: Level, dimensions: Dimensions) -> Dimensions:
    out = LEFT_OUT[level]
    return tuple(None if name in out else value for name, value in zip(GROUPS, dimensions, strict=True))


def level_for(asked: Collection[Group]) -> Level:
    """The highest that tells these dimensions apart."""
    return next(level for level in reversed(LEFT_OUT) if not LEFT_OUT[level] & set(asked))


def series_row(level: Level, dimensions: Dimensions) -> dict[str, Any]:
    named: dict[str, GroupValue] = dict(zip(GROUPS, dimensions, strict=True))
    return {"id": _hash(level, *dimensions), "scope": _hash(level, named["tenant_id"]), "level": level, **named}


def _hash(*names: GroupValue) -> int:
    digest = blake2b(json.dumps(names).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
