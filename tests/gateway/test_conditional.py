"""If-Match, as clients and proxies send it."""

import pytest
from starlette.requests import Request

from gateway.api.conditional import match_if_given, require_match
from gateway.errors import PreconditionFailed, PreconditionRequired


def _request(if_match: str | None) -> Request:
    headers = [] if if_match is None else [(b"if-match", if_match.encode())]
    return Request({"type": "http", "headers": headers})


@pytest.mark.parametrize("header", ['"3"', 'W/"3"', '"1", "3"', "*", ' "3" '])
def test_the_current_version_matches(header: str) -> None:
    require_match(_request(header), 3)
    match_if_given(_request(header), 3)


@pytest.mark.parametrize("header", ['"2"', "3", '"33"', "", '"*"', 'W/"2"'])
def test_any_other_is_told_the_current_one(header: str) -> None:
    for check in (require_match, match_if_given):
        with pytest.raises(PreconditionFailed) as refused:
            check(_request(header), 3)
        assert (refused.value.status, refused.value.headers["etag"]) == (412, '"3"')
        assert '"3"' in refused.value.message


def test_without_it_a_change_is_refused_but_on_openai_s_paths() -> None:
    match_if_given(_request(None), 3)
    with pytest.raises(PreconditionRequired) as refused:
        require_match(_request(None), 3)
    assert (refused.value.status, refused.value.headers["etag"]) == (428, '"3"')
