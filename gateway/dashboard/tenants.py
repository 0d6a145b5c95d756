"""Whose figures a page shows: one key's, one tenant's, or all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from gateway import access
from gateway.access import Scope
from gateway.errors import NotFound
from gateway.parts import principal_of
from storage.database import Session
from storage.tenants import Tenants
from storage.values import Tenant


@dataclass(frozen=True, slots=True)
class Tenancy:
    tenant_id: str | None
    """None: every tenant."""
    key_id: str | None
    """Only what this key did. None: what all keys of the tenant did."""
    choices: Sequence[Tenant] = ()
    """Those that may be picked from."""

    @property
    def is_own_key(self) -> bool:
        return self.key_id is not None


async def tenancy_of(request: Request, session: Session, asked: str | None, scope: Scope = "usage.read") -> Tenancy:
    """A key without `scope` sees itself. Who names a tenant that is not theirs is told as of one that is not there."""
    principal = principal_of(request)
    is_operator = principal.kind == "operator"
    is_theirs = asked in (None, principal.tenant_id)
    if not is_theirs and (not is_operator or await Tenants(session).get(asked or "") is None):
        raise NotFound("No such tenant. Choose another, or leave it out.")
    if not access.holds(scope, principal.kind, principal.scopes):
        return Tenancy(principal.tenant_id, principal.key_id)
    return Tenancy(asked, None, await Tenants(session).list()) if is_operator else Tenancy(principal.tenant_id, None)
