"""The installation's one secret, and the sub-keys that each use derives from it (HKDF-SHA256, RFC 5869).

The secret itself is never used for anything: a leaked sub-key tells nothing of the others.
"""

import hashlib
import hmac
import secrets
from pathlib import Path

from gateway.home import HomeRefused, read_private, write_private

SHORTEST = 32
SALT = b"specgate"


def load_secret(home: Path, preset: str | None) -> bytes:
    """`SPECGATE_SECRET` where set, else the one kept in `home`, made at the first start."""
    check_secret(preset)
    if preset is not None:
        return preset.encode()
    path = home / "secret"
    found = read_private(path)
    if found is None:
        found = secrets.token_hex(32)
        write_private(path, found)
    return found.strip().encode()


def check_secret(preset: str | None) -> None:
    """Raises HomeRefused."""
    if preset is not None and len(preset) < SHORTEST:
        raise HomeRefused(f"SPECGATE_SECRET has {len(preset)} characters; give at least {SHORTEST} random ones.")


def subkey(secret: bytes, purpose: bytes, length: int = 32) -> bytes:
    """The key for one purpose: `b"cache-salt"`, `b"worker"`, …"""
    return hkdf(secret, SALT, purpose, length)


def audit_key(secret: bytes) -> bytes:
    """The key of the audit log's chain."""
    return subkey(secret, b"audit")


def hkdf(material: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    extracted = hmac.digest(salt, material, hashlib.sha256)
    block, out = b"", b""
    for counter in range(1, -(-length // 32) + 1):
        block = hmac.digest(extracted, block + info + bytes([counter]), hashlib.sha256)
        out += block
    return out[:length]
