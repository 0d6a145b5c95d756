"""Identifiers that sort by the time they were made (UUID version 7, RFC 9562, method 3)."""

import secrets
import time
from datetime import datetime


def uuid7() -> str:
    """48 bits of milliseconds, 12 bits of their fraction, 62 random bits; 32 hexadecimal digits."""
    millis, rest = divmod(time.time_ns(), 1_000_000)
    fraction = rest * 4096 // 1_000_000
    value = (millis << 80) | (0x7 << 76) | (fraction << 64) | (0b10 << 62) | secrets.randbits(62)
    return f"{value:032x}"


def floor_of(at: datetime) -> str:
    """No identifier that was made since then sorts before it."""
    return f"{int(at.timestamp() * 1000) << 80:032x}"
