"""Signatures of webhooks, as Standard Webhooks say: who knows the secret can tell that a batch is ours, and whole.

`webhook-signature` is `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`. A secret that begins with
`whsec_` is base64 itself.
"""

import base64
import binascii
import hashlib
import hmac

KNOWN = "whsec_"


def signing_key(secret: str) -> bytes:
    """Raises ValueError for a `whsec_` that is not base64."""
    if not secret.startswith(KNOWN):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(KNOWN), validate=True)
    except binascii.Error as error:
        raise ValueError(f"what follows {KNOWN} is no base64") from error


def signature(key: bytes, id: str, at: int, body: bytes) -> str:
    mark = hmac.digest(key, f"{id}.{at}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(mark).decode()}"
