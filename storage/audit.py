"""The audit log: who changed what, written in the transaction of the change, or neither is.

Append-only. One event after the other: `record` holds the head until the transaction ends, so call it last in the
unit of work.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue
from sqlalchemy import ColumnElement, Row, select, update

from storage.audit_chain import ChainCheck, mac_of_event, mac_of_head, mac_of_text
from storage.database import Session
from storage.ids import uuid7
from storage.inserts import insert_once
from storage.models import audit_ends, audit_events
from storage.paging import Cursor, page
from storage.redaction import redacted, without_keys
from storage.texts import check_text
from storage.values.audit import Actor, AuditEvent, AuditQuery, AuditReport, Document, Head

HEAD = "head"
BATCH = 1000
_e = audit_events.c


class Audit:
    """The log, in one unit of work. `key` is the installation's sub-key for it."""

    def __init__(self, session: Session, key: bytes) -> None:
        self._session, self._key = session, key

    async def record(
        self,
        actor: Actor,
        action: str,
        target: str,
        before: Document | None = None,
        after: Document | None = None,
        *,
        tenant_id: str | None = None,
        project_id: str | None = None,
    ) -> Head:
        """`action` as `project.updated`; `before` and `after` are the changed thing, kept without secrets."""
        check_text("audit action", action, 64)
        check_text("audit target", target, 256)
        head = await self._held_head()
        details = json.dumps(redacted({"before": _plain(before), "after": _plain(after)}), sort_keys=True)
        event: dict[str, Any] = {
            "seq": head.seq + 1,
            "id": f"audit_log-{uuid7()}",
            "at": datetime.now(UTC),
            "action": action,
            "target": without_keys(target),
            "tenant_id": tenant_id,
            "project_id": project_id,
            "actor_kind": actor.kind,
            "actor_id": actor.id,
            "request_id": actor.request_id,
            "source": actor.source,
            "details": details,
            "details_mac": mac_of_text(self._key, details),
            "previous": head.mac,
        }
        event["mac"] = mac_of_event(self._key, event)
        await self._session.execute(audit_events.insert().values(event))
        return await self._move_head(Head(event["seq"], event["mac"]))

    async def page(self, query: AuditQuery, cursor: Cursor) -> tuple[list[AuditEvent], bool]:
        """Newest first, and whether more follow. Raises UnknownCursor."""
        statement = select(audit_events).where(*_scope(query))
        rows, has_more = await page(self._session, statement, _e.seq, _e.id, replace(cursor, order="desc"))
        return [_event(row) for row in rows], has_more

    async def verify(self) -> AuditReport:
        """Follow the whole chain, and compare its end with the head."""
        check = ChainCheck(self._key)
        while True:
            statement = select(audit_events).where(_e.seq > check.last.seq).order_by(_e.seq).limit(BATCH)
            rows = list(await self._session.execute(statement))
            check.follow([dict(row._mapping) for row in rows])
            if len(rows) < BATCH:
                break
        row = (await self._session.execute(_head_row())).one_or_none()
        check.end(Head(row.seq, row.event_mac) if row else None, row.mac if row else None)
        return AuditReport(check.last.seq, check.erased, check.last, tuple(check.problems))

    async def _held_head(self) -> Head:
        """Locked until the transaction ends."""
        first = Head()
        values = {"name": HEAD, "seq": first.seq, "event_mac": first.mac, "mac": mac_of_head(self._key, first)}
        await insert_once(self._session, audit_ends, values)
        row = (await self._session.execute(_head_row().with_for_update())).one()
        return Head(row.seq, row.event_mac)

    async def _move_head(self, head: Head) -> Head:
        values = {"seq": head.seq, "event_mac": head.mac, "mac": mac_of_head(self._key, head)}
        await self._session.execute(update(audit_ends).where(audit_ends.c.name == HEAD).values(values))
        return head


def _head_row() -> Any:
    return select(audit_ends).where(audit_ends.c.name == HEAD)


def _plain(document: Document | None) -> JsonValue:
    return None if document is None else dict(document)


def _scope(query: AuditQuery) -> list[ColumnElement[bool]]:
    wanted = {
        _e.action: query.actions,
        _e.actor_id: query.actor_ids,
        _e.project_id: query.project_ids,
        _e.target: query.targets,
    }
    scope: list[ColumnElement[bool]] = [column.in_(values) for column, values in wanted.items() if values]
    if query.tenant_id is not None:
        scope.append(_e.tenant_id == query.tenant_id)
    if query.since is not None:
        scope.append(_e.at >= query.since)
    if query.until is not None:
        scope.append(_e.at < query.until)
    return scope


def _event(row: Row[Any]) -> AuditEvent:
    details = json.loads(row.details) if row.details is not None else {}
    kept = {name: row._mapping[name] for name in ("seq", "id", "at", "action", "target", "tenant_id", "project_id")}
    return AuditEvent(
        **kept,
        actor=Actor(row.actor_kind, row.actor_id, row.request_id, row.source),
        before=details.get("before"),
        after=details.get("after"),
        is_erased=row.details is None,
        mac=row.mac,
    )
