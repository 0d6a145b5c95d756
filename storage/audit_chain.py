"""The arithmetic of the audit log: what an event's mark covers, and what a chain must satisfy. Pure.

    details_mac = HMAC(key, details)
    mac         = HMAC(key, previous mac ‖ every column but details, mac)

Details may be erased later without a break: the mark covers their mark. Without the key no event can be changed,
taken out, moved or added; that the last ones were cut off shows in the head, which is kept in another table.
"""

import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

from storage.values.audit import AuditProblem, Head

COVERED = (
    "seq",
    "id",
    "at",
    "action",
    "target",
    "tenant_id",
    "project_id",
    "actor_kind",
    "actor_id",
    "request_id",
    "source",
    "details_mac",
    "previous",
)


@dataclass(slots=True)
class ChainCheck:
    """Follows a chain event by event."""

    key: bytes
    last: Head = field(default_factory=Head)
    erased: int = 0
    problems: list[AuditProblem] = field(default_factory=list)

    def follow(self, events: Iterable[Mapping[str, Any]]) -> None:
        for event in events:
            for rule in self._broken(event):
                self.problems.append(AuditProblem(rule, event["seq"]))
            self.erased += event["details"] is None
            self.last = Head(event["seq"], event["mac"])

    def end(self, head: Head | None, head_mac: str | None) -> None:
        """`head` is what the log says of itself, apart from its events."""
        if head is None:
            self.problems.append(AuditProblem("the head is missing", self.last.seq))
        elif head_mac != mac_of_head(self.key, head):
            self.problems.append(AuditProblem("the head was changed", head.seq))
        elif head != self.last:
            self.problems.append(AuditProblem("the end was cut off or added to", self.last.seq))

    def _broken(self, event: Mapping[str, Any]) -> Iterable[str]:
        if event["seq"] != self.last.seq + 1:
            yield "events are missing before this one"
        if event["previous"] != self.last.mac:
            yield "it does not follow the event before it"
        if event["mac"] != mac_of_event(self.key, event):
            yield "it was changed"
        if event["details"] is not None and event["details_mac"] != mac_of_text(self.key, event["details"]):
            yield "its details were changed"


def mac_of_event(key: bytes, event: Mapping[str, Any]) -> str:
    return mac_of_text(key, json.dumps([_plain(event[name]) for name in COVERED]))


def mac_of_head(key: bytes, head: Head) -> str:
    return mac_of_text(key, json.dumps(["head", head.seq, head.mac]))


def mac_of_text(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), sha256).hexdigest()


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
