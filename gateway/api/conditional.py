"""Lost updates are refused: a row's version is its ETag, and a change says which version it changes.

Call `require_match` inside the change's unit of work, with the row read for update: who comes second then sees the
version of who came first.
"""

from starlette.requests import Request

from gateway.errors import PreconditionFailed, PreconditionRequired


def etag(version: int) -> str:
    return f'"{version}"'


def require_match(request: Request, version: int) -> None:
    """Raises PreconditionRequired without If-Match, PreconditionFailed where none of its tags is `version`'s."""
    if "if-match" not in request.headers:
        raise PreconditionRequired(etag(version))
    match_if_given(request, version)


def match_if_given(request: Request, version: int) -> None:
    """For OpenAI's own paths, whose official clients send no If-Match. Raises PreconditionFailed."""
    header = request.headers.get("if-match")
    if header is not None and not _names(header, version):
        raise PreconditionFailed(etag(version))


def _names(header: str, version: int) -> bool:
    """`*` is any version. A proxy that compresses makes a tag weak (`W/"3"`); it still names the version."""
    tags = {tag.strip().removeprefix("W/") for tag in header.split(",")}
    return bool(tags & {"*", etag(version)})
