"""JSON Merge Patch: the examples of RFC 7396, and what a strict model makes of a patch."""

import json

import pytest
from pydantic import JsonValue

from gateway.api.merge_patch import differences, merge, patched
from gateway.errors import InvalidRequest
from gateway.openai.schema import Wire


class Inner(Wire):
    a: int = 1
    b: int | None = None


class Outer(Wire):
    name: str
    inner: Inner = Inner()
    tags: tuple[str, ...] = ()


CURRENT = Outer(name="x", inner=Inner(a=5, b=6), tags=("t",))


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_rfc(target: JsonValue, patch: JsonValue, result: JsonValue) -> None:
    assert merge(target, patch) == result


def test_what_is_left_out_stays_and_null_is_the_default() -> None:
    assert patched(CURRENT, b'{"inner": {"b": null}}') == Outer(name="x", inner=Inner(a=5), tags=("t",))
    assert patched(CURRENT, b'{"inner": null, "tags": ["u"]}') == Outer(name="x", tags=("u",))
    assert patched(CURRENT, b"{}") == CURRENT


@pytest.mark.parametrize(
    ("patch", "param", "code"),
    [
        (b'{"version": 1}', "version", "unknown_parameter"),
        (b'{"inner": {"c": 1}}', "inner.c", "unknown_parameter"),
        (b'{"inner": {"a": "1"}}', "inner.a", "invalid_type"),
        (b'{"inner": [1]}', "inner", "invalid_type"),
        (b'{"name": null}', "name", "missing_required_parameter"),
        (b"[]", None, "invalid_type"),
        (b"null", None, "invalid_type"),
        (b"", None, "invalid_json"),
        (b'{"a": ' * 400, None, "invalid_json"),
    ],
)
def test_a_patch_is_read_as_strictly_as_a_document(patch: bytes, param: str | None, code: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        patched(CURRENT, patch)
    assert (refused.value.param, refused.value.code) == (param, code)


def test_every_difference_is_listed() -> None:
    before, after = (
        CURRENT.model_dump(mode="json"),
        json.loads('{"name": "x", "inner": {"a": 7, "b": null}, "tags": []}'),
    )
    assert list(differences(before, after)) == [
        {"field": "inner.a", "from": 5, "to": 7},
        {"field": "inner.b", "from": 6, "to": None},
        {"field": "tags", "from": ["t"], "to": []},
    ]
    assert list(differences({"a": 1}, {"a": True})) == [{"field": "a", "from": 1, "to": True}]
    assert list(differences(before, before)) == []
