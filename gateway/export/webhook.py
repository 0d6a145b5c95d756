"""One batch of entries as a POST of JSON lines.

`webhook-id` is the last entry's, so a batch that is sent again has the id it had.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from gateway.export.signing import signature, signing_key


class Undelivered(Exception):
    """It was not taken, or nobody said so; the message names no address."""


class Webhook:
    """Close it at the end. `patience`: seconds for one batch, from connection to answer."""

    def __init__(self, url: str, secret: str | None, patience: float) -> None:
        self._url, self._patience = url, patience
        self._key = None if secret is None else signing_key(secret)
        self._client = httpx.AsyncClient(follow_redirects=False, timeout=None)

    async def send(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Returns once it answered 2xx. Raises Undelivered."""
        body = b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)
        headers = self._headers(f"msg_{entries[-1]['id']}", int(time.time()), body)
        try:
            async with (
                asyncio.timeout(self._patience),
                # Of the answer only its status is read: what else comes is not ours to keep.
                self._client.stream("POST", self._url, content=body, headers=headers) as answer,
            ):
                if not answer.is_success:
                    raise Undelivered(f"it answered {answer.status_code}")
        except TimeoutError as error:
            raise Undelivered(f"it did not answer within {self._patience:g} s") from error
        except httpx.HTTPError as error:
            raise Undelivered(f"the connection failed ({type(error).__name__})") from error

    async def close(self) -> None:
        await self._client.aclose()

    def _headers(self, id: str, at: int, body: bytes) -> dict[str, str]:
        headers = {"content-type": "application/jsonl", "webhook-id": id, "webhook-timestamp": str(at)}
        return headers if self._key is None else headers | {"webhook-signature": signature(self._key, id, at, body)}
