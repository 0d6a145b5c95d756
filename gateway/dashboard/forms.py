"""What a form sent: fields by name, each once, from the page that it was shown on."""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from gateway.dashboard.visitor import require_form_token
from gateway.errors import InvalidRequest

CSRF = "csrf"
MOST_FIELDS = 200


async def form(request: Request) -> Mapping[str, str]:
    """Raises InvalidRequest, PermissionDenied where the form's token is not this session's."""
    try:
        pairs = parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise InvalidRequest("That was no form of this dashboard.") from error
    fields = dict(pairs)
    require_form_token(request, fields.pop(CSRF, ""))
    if any("\0" in value for value in fields.values()):
        raise InvalidRequest("A field holds a NUL character; remove it.")
    return fields
