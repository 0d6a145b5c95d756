"""What sums are kept of: a series is one combination of dimensions at a level. Pure.

    key       everything that a row tells              keys       tenant, project and key alone
    project   without the key                          projects   tenant and project alone
    fleet     without tenant, project and key

The same rows are counted at all of them, and a report reads the one that answers it in the fewest sums. A scope is
what owns the series of a level: a key, a project, or the fleet; its sums lie together, in the order of time. Ids are
the first 63 bits of a hash of what they name: the same wherever and whenever a row is counted, with nothing to look up.
"""

import json
from collections.abc import Collection
from hashlib import blake2b
from typing import Any, Literal

from storage.values.usage import GROUPS, Group, GroupValue

Level = Literal["key", "project", "fleet", "keys", "projects"]
OWNERS: tuple[Group, ...] = ("tenant_id", "project_id", "key_id")
LEFT_OUT: dict[Level, frozenset[Group]] = {
    "fleet": frozenset(OWNERS),
    "projects": frozenset(GROUPS) - {"tenant_id", "project_id"},
    "keys": frozenset(GROUPS) - set(OWNERS),
    "project": frozenset({"key_id"}),
    "key": frozenset(),
}
"""Fewest sums first."""
SUMMED_FROM: dict[Level, Level | None] = {
    "key": None,
    "project": "key",
    "fleet": "project",
    "keys": "key",
    "projects": "keys",
}
"""None: from rows."""
OWNED_BY: dict[Level, tuple[Group, ...]] = {
    "key": OWNERS,
    "keys": OWNERS,
    "project": OWNERS[:2],
    "projects": OWNERS[:2],
    "fleet": (),
}
"""What names a scope."""
Dimensions = tuple[GroupValue, ...]
"""By GROUPS; those that the level leaves out are None."""


def at_level(level: Level, dimensions: Dimensions) -> Dimensions:
    out = LEFT_OUT[level]
    return tuple(None if name in out else value for name, value in zip(GROUPS, dimensions, strict=True))


def level_for(asked: Collection[Group]) -> Level:
    """The one of the fewest sums that tells these dimensions apart."""
    return next(level for level in LEFT_OUT if not LEFT_OUT[level] & set(asked))


def series_row(level: Level, dimensions: Dimensions) -> dict[str, Any]:
    named: dict[str, GroupValue] = dict(zip(GROUPS, dimensions, strict=True))
    scope = _hash(level, *(named[name] for name in OWNED_BY[level]))
    ids = {"id": _hash(level, *dimensions), "scope": scope, "level": level}
    return ids | named | {"model": named["model"] or ""}


def _hash(*names: GroupValue) -> int:
    digest = blake2b(json.dumps(names).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
