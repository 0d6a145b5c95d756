"""What a key looks like: `sk-sg-<public id>-<secret>`. The public id names the key, the secret has 256 bits.

A fast hash is right for it: the secret is drawn at random, so there is no dictionary to try.
"""

import hashlib
import re
import secrets
import string

from storage.errors import KeyRefused
from storage.values import NewKey

FORMAT = re.compile(r"sk-sg-([a-z0-9]{12})-([A-Za-z0-9_-]{43,128})")
ALPHABET = string.ascii_lowercase + string.digits


def parse_key(full: str) -> NewKey | None:
    """The parts of a key, None where it is not one."""
    match = FORMAT.fullmatch(full)
    return NewKey(match[1], match[2]) if match else None


def parse_preset(full: str) -> NewKey:
    """The parts of a key that someone chose. Raises KeyRefused with the reason."""
    parts = parse_key(full)
    if parts is None:
        raise KeyRefused(
            "The preset key is not of the form sk-sg-<12 lower-case letters or digits>-<43 to 128 letters, digits, "
            "'-' or '_'>. Leave it unset to have one made."
        )
    if len(set(parts.secret)) < 10:
        raise KeyRefused("The preset key's secret has fewer than 10 different characters; use a random one.")
    return parts


def draw_key() -> NewKey:
    """A new random key; nobody knows it yet."""
    return NewKey("".join(secrets.choice(ALPHABET) for _ in range(12)), secrets.token_urlsafe(32))


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
