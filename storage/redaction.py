"""What may be written down of a value: no secret, whatever it is called and wherever it lies."""

import re

from pydantic import JsonValue

KEY = re.compile(r"(sk-sg-[a-z0-9]{12})-[A-Za-z0-9_-]{16,}")
SECRET_NAMES = re.compile(r"secret|password|passwd|authorization|credential|(^|_)(value|token|api_key)$", re.IGNORECASE)
REDACTED = "[redacted]"


def redacted(value: JsonValue, name: str = "") -> JsonValue:
    """The value without secrets: members with a telling name are masked, keys inside text lose their secret part."""
    if isinstance(value, dict):
        return {key: redacted(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [redacted(inner, name) for inner in value]
    if isinstance(value, str):
        return REDACTED if SECRET_NAMES.search(name) else without_keys(value)
    return value


def without_keys(text: str) -> str:
    return KEY.sub(rf"\1-{REDACTED}", text)
