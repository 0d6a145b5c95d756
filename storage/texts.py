"""Text that both databases can keep."""

import re

LABEL = re.compile(r"[a-z0-9_.-]{1,64}")


def check_text(name: str, value: str, limit: int) -> None:
    """Refuse what PostgreSQL or an index could not hold. The message never quotes the value."""
    if not value or len(value) > limit:
        raise ValueError(f"{name} has {len(value)} characters; 1 to {limit} are allowed")
    if "\0" in value:
        raise ValueError(f"{name} holds a NUL character; remove it")
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise ValueError(f"{name} holds half a surrogate pair; send valid UTF-8")


def check_label(name: str, value: str) -> None:
    """A workload label: at most 64 of a-z, 0-9, `_`, `.` and `-`."""
    if not LABEL.fullmatch(value):
        raise ValueError(f"{name} must be 1 to 64 characters of a-z, 0-9, '_', '.' and '-'")
