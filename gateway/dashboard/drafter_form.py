"""A drafter configuration as a form: its fields follow from the model's schema, so that none is forgotten. Pure.

What a form sends becomes a patch; whether it holds is the model's to say, and the member it names is shown at its
field. Settings that have one value only are left out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import JsonValue

from gateway.api.merge_patch import Document
from gateway.deployments.speculation import Speculation

Kind = Literal["tick", "choice", "number"]
PREFIX = "speculation."
"""Of the names of members at fault."""
GROUPS = {
    "": "Speculation",
    "prediction": "Clients' predictions",
    "drafter": "The deployment's own drafter",
    "adaptive": "Length of drafts",
    "auto_disable": "Rest by itself",
}
LABELS = {
    "enabled": ("Draft at all", ""),
    "allow_opt_out": ("Requests may opt out", 'Those with speculation: "off".'),
    "holdout_rate": ("Held out", "Part of the requests that run without it, so that time saved can be measured."),
    "drafter.kind": ("Kind", ""),
    "drafter.length": ("Tokens a step at most", "Empty: as many as the longest draft."),
    "drafter.ngram.min": ("Shortest match", "Tokens that must have stood somewhere before."),
    "drafter.ngram.max": ("Longest match", ""),
    "drafter.scope": ("Learns from", "tenant, with kind suffix alone: also what the same tenant was answered lately."),
    "drafter.suffix.min_match": ("Suffix: shortest match", "Tokens that must have stood somewhere before."),
    "drafter.suffix.factor": ("Suffix: draft a matched token", "Tokens drafted for each token that matched."),
    "prediction.enabled": ("Draft from predictions", ""),
    "prediction.max_tokens": ("Tokens of it at most", "Empty: all of it."),
    "adaptive.mode": ("How it is found", "cost weighs gain against price; schedule only climbs."),
    "adaptive.start": ("At first", ""),
    "adaptive.minimum": ("Shortest", ""),
    "adaptive.maximum": ("Longest", ""),
    "auto_disable.min_acceptance": ("Under this acceptance", "From 0 to 1. Empty: never."),
    "auto_disable.max_running": ("While more run than", "Sequences. Empty: never."),
}


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: Kind
    value: JsonValue
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    is_whole: bool = True
    is_optional: bool = False

    @property
    def id(self) -> str:
        return self.name.replace(".", "-")

    @property
    def label(self) -> str:
        return LABELS.get(self.name, (self.name.rpartition(".")[2].replace("_", " ").capitalize(), ""))[0]

    @property
    def note(self) -> str:
        return LABELS.get(self.name, ("", ""))[1]


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    fields: tuple[Field, ...]


def groups(config: Mapping[str, JsonValue]) -> list[Group]:
    """The form, with these values in it."""
    found: dict[str, list[Field]] = {name: [] for name in GROUPS}
    for field in _fields(config):
        found.setdefault(field.name.partition(".")[0] if "." in field.name else "", []).append(field)
    return [Group(GROUPS.get(name, name), tuple(fields)) for name, fields in found.items() if fields]


def patch(sent: Mapping[str, str]) -> Document:
    """What a form says; a tick that is not sent is off. A number that is none is handed on, to be refused by name."""
    wanted: Document = {}
    for field in _fields({}):
        if field.kind != "tick" and field.name not in sent:
            continue
        *place, last = field.name.split(".")
        within = wanted
        for name in place:
            within = within.setdefault(name, {})  # type: ignore[assignment]
        within[last] = _value(field, sent.get(field.name, ""))
    return wanted


def rebased(wanted: JsonValue, base: JsonValue, now: JsonValue) -> JsonValue:
    """`now`, with what `wanted` changed of `base`: somebody else's change of another setting is kept."""
    if isinstance(wanted, dict) and isinstance(base, dict) and isinstance(now, dict):
        return {name: rebased(value, base.get(name), now.get(name)) for name, value in wanted.items()}
    return now if wanted == base else wanted


def _value(field: Field, text: str) -> JsonValue:
    if field.kind == "tick":
        return text == "on"
    if field.kind == "choice":
        return text
    if not text.strip() and field.is_optional:
        return None
    try:
        return int(text) if field.is_whole else float(text)
    except ValueError:
        return text


def _fields(config: Mapping[str, JsonValue]) -> Iterator[Field]:
    schema = Speculation.model_json_schema()
    yield from _within(schema, schema["$defs"], config, "")


def _within(schema: dict[str, Any], defs: dict[str, Any], config: Mapping[str, JsonValue], at: str) -> Iterator[Field]:
    for name, member in schema["properties"].items():
        value = config.get(name, member.get("default"))
        if "$ref" in member:
            inner = value if isinstance(value, Mapping) else {}
            yield from _within(defs[member["$ref"].rpartition("/")[2]], defs, inner, f"{at}{name}.")
        elif (field := _field(at + name, member, value)) is not None:
            yield field


def _field(name: str, member: dict[str, Any], value: JsonValue) -> Field | None:
    options = [one for one in member.get("anyOf", [member]) if one.get("type") != "null"]
    if len(options) != 1 or "const" in options[0]:
        return None
    [one] = options
    least, most = one.get("minimum"), one.get("maximum")
    match one.get("type"):
        case "boolean":
            return Field(name, "tick", value)
        case "string" if len(one.get("enum", ())) > 1:
            return Field(name, "choice", value, choices=tuple(one["enum"]))
        case "integer" | "number" if least is None or least != most:
            return Field(name, "number", value, (), least, most, one["type"] == "integer", "anyOf" in member)
    return None
