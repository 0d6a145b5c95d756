"""The audit events of one request: who, from where, under which request id; written with the change itself."""

from starlette.requests import Request

from gateway.parts import parts_of, principal_of
from gateway.secret import audit_key
from gateway.telemetry import note, request_id
from storage.audit import Audit
from storage.database import Session
from storage.values.audit import Actor, Document


async def record(
    request: Request,
    session: Session,
    action: str,
    target: str,
    before: Document | None = None,
    after: Document | None = None,
    *,
    tenant_id: str | None,
    project_id: str | None = None,
) -> None:
    """Last in the unit of work. `tenant_id`: who may read it; None leaves it to operators.

    The log line of the request names the event's mark: a head of the chain that is kept apart from the database.
    """
    source = request.client.host if request.client else None
    actor = Actor("api_key", principal_of(request).key_id, request_id(request.scope), source)
    audit = Audit(session, audit_key(parts_of(request).secret))
    head = await audit.record(actor, action, target, before, after, tenant_id=tenant_id, project_id=project_id)
    note(request.scope, audit_seq=head.seq, audit_mac=head.mac)
