"""JSON Merge Patch (RFC 7396): what a PATCH leaves out stays, null takes away, an object is merged, all else replaces.

The result is read by the resource's own strict model, so a patch may say nothing that a whole document could not:
a member the model does not have (`tenant_id`, `version`, …) is refused by name.
"""

import json
from collections.abc import Iterator, Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, RootModel

from gateway.openai.parse import parse

M = TypeVar("M", bound=BaseModel)
Document = dict[str, JsonValue]


class Patch(RootModel[Document]):
    model_config = ConfigDict(allow_inf_nan=False)


def patched(current: M, raw: bytes) -> M:
    """`current` as the patch in `raw` makes it. Raises InvalidRequest naming the member at fault."""
    merged = merge(current.model_dump(mode="json"), parse(raw, Patch).root)
    return parse(json.dumps(merged).encode(), type(current))


def merge(target: JsonValue, patch: JsonValue) -> JsonValue:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def differences(before: JsonValue, after: JsonValue, path: str = "") -> Iterator[dict[str, JsonValue]]:
    """Every member that differs, as `{"field": "a.b", "from": …, "to": …}`: what a dry run tells."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys((*before, *after)):
            yield from differences(before.get(name), after.get(name), f"{path}.{name}" if path else name)
    elif before != after or isinstance(before, bool) != isinstance(after, bool):
        yield {"field": path, "from": before, "to": after}
