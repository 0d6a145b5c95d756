"""One request of the demo, streamed and timed as a client sees it."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from gateway.cli.console import stop
from gateway.cli.remote import require_ok
from gateway.told_headers import COHORT


@dataclass(frozen=True, slots=True)
class Run:
    """What came back. Seconds from sending the request."""

    text: str
    first_text: float
    total: float
    usage: Mapping[str, Any]
    is_control: bool = False
    """Drawn for the holdout: it ran without speculation, whatever it asked for."""

    @property
    def tokens(self) -> int:
        return int(self.usage["completion_tokens"])

    @property
    def accepted(self) -> int:
        """Of the prediction. Each accepted token was delivered without a pass of its own: so many passes saved."""
        return int(self.usage["completion_tokens_details"]["accepted_prediction_tokens"])

    @property
    def rejected(self) -> int:
        return int(self.usage["completion_tokens_details"]["rejected_prediction_tokens"])


def run(client: httpx.Client, body: Mapping[str, Any], on_text: Callable[[str], None] = lambda text: None) -> Run:
    """Stream it; `on_text` gets the text so far."""
    began = time.perf_counter()
    first: float | None = None
    text, usage = "", None
    streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
    with client.stream("POST", "/v1/chat/completions", json=streamed) as response:
        require_ok(response)
        is_control = response.headers.get(COHORT) == "control"
        for chunk in _chunks(response):
            usage = chunk.get("usage") or usage
            delta = "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
            if delta:
                first = first if first is not None else time.perf_counter() - began
                text += delta
                on_text(text)
    total = time.perf_counter() - began
    if usage is None:
        stop("the stream ended without its usage. The server's log says why.")
    return Run(text, total if first is None else first, total, usage, is_control)


def _chunks(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
        if data == "[DONE]":
            return
        if data:
            chunk: dict[str, Any] = json.loads(data)
            if "error" in chunk:
                stop(f"the server gave up the request: {chunk['error']['message']}")
            yield chunk
