"""In which tenant an organization route acts. OpenAI's organization is our tenant.

A tenant admin acts in its own. An operator acts in the one that the header `OpenAI-Organization` names, else in that
of its key. Whoever names a tenant that is not theirs is told the same as for one that does not exist.
"""

from starlette.requests import Request

from gateway.errors import NotFound
from gateway.parts import principal_of
from storage.database import Session
from storage.tenants import Tenants

HEADER = "openai-organization"


class OrganizationNotFound(NotFound):
    def __init__(self) -> None:
        super().__init__("No such organization. Send its id in the header OpenAI-Organization, or leave it out.")


async def organization_of(request: Request, session: Session) -> str:
    """The tenant's id. Raises OrganizationNotFound."""
    return await named_organization(request, session) or principal_of(request).tenant_id


async def reported_organization(request: Request, session: Session) -> str | None:
    """The only tenant that a report may tell of; None, for an operator who names none: all. Raises as above."""
    named = await named_organization(request, session)
    principal = principal_of(request)
    return named or (None if principal.kind == "operator" else principal.tenant_id)


async def named_organization(request: Request, session: Session) -> str | None:
    """None where the header is not sent. Raises OrganizationNotFound."""
    named = request.headers.get(HEADER)
    if named is None:
        return None
    principal = principal_of(request)
    is_theirs = named == principal.tenant_id
    if not is_theirs and (principal.kind != "operator" or await Tenants(session).get(named) is None):
        raise OrganizationNotFound
    return named
