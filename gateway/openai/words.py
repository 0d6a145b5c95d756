"""What a validator found, in the words that OpenAI has for it. Pure."""

from collections.abc import Mapping
from typing import Any

Context = Mapping[str, Any]
_BOUNDS = {
    "greater_than_equal": ("below minimum", ">=", "ge"),
    "greater_than": ("below minimum", ">", "gt"),
    "less_than_equal": ("above maximum", "<=", "le"),
    "less_than": ("above maximum", "<", "lt"),
}
_LENGTHS = {
    "too_long": ("long", "maximum", "max_length"),
    "string_too_long": ("long", "maximum", "max_length"),
    "too_short": ("short", "minimum", "min_length"),
    "string_too_short": ("short", "minimum", "min_length"),
}


def invalid(kind: str, param: str | None, given: object, context: Context) -> str:
    """A value of the right type that is not one of those allowed."""
    where = f"'{param}'" if param else "body"
    if kind in _BOUNDS:
        return f"Invalid {where}: {_bound(kind, given, context)}"
    if kind in _LENGTHS:
        return f"Invalid {where}: {_length(kind, given, context)}"
    if kind == "string_pattern_mismatch":
        told = f"Expected a string that matches the pattern '{context['pattern']}'."
        return f"Invalid {where}: string does not match pattern. {told}"
    if kind == "finite_number":
        return f"Invalid {where}: the number is not finite."
    if kind == "int_parsing_size":
        return f"Invalid {where}: the integer has too many digits."
    return f"Invalid value for {where}. GET /openapi.json says which are allowed."


def invalid_json(said: str) -> str:
    """Where the text breaks off is worth keeping; half of a surrogate pair is no syntax error to who sent it."""
    what, at, place = said.partition(" at line ")
    if "hex escape" in what or "surrogate" in what:
        what = "a \\u escape is half of a surrogate pair, which is no character"
    elif what.startswith("EOF"):
        what = "it ends too early"
    elif what == "recursion limit exceeded":
        what = "it is nested too deeply"
    elif what in ("expected ident", "expected value"):
        what = "a value was expected"
    elif "unicode" in what.lower():
        what = "it is not UTF-8"
    return f"The body is not valid JSON: {what}{at}{place}."


def _bound(kind: str, given: object, context: Context) -> str:
    side, sign, name = _BOUNDS[kind]
    what = "decimal" if isinstance(given, float) or isinstance(context[name], float) else "integer"
    shown = str(given) if isinstance(given, float) or (isinstance(given, int) and abs(given) < 10**20) else "another"
    return f"{what} {side} value. Expected a value {sign} {_plain(context[name])}, but got {shown} instead."


def _length(kind: str, given: object, context: Context) -> str:
    side, bound, name = _LENGTHS[kind]
    what = "string" if isinstance(given, str) else "object" if isinstance(given, dict) else "array"
    length = len(given) if isinstance(given, (str, list, tuple, dict)) else context.get("actual_length")
    article = "a" if what == "string" else "an"
    told = f"Expected {article} {what} with {bound} length {context[name]}"
    return f"{what} too {side}. {told}, but got {article} {what} with length {length} instead."


def _plain(bound: object) -> object:
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound
