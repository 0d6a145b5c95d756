"""A usage report's questions are read strictly."""

import pytest

from gateway.errors import InvalidRequest
from gateway.usage_query import COMPLETIONS, COSTS, SPECULATION, parse_query

DAY = 86_400
START = 1_772_323_200
"""2026-03-01 00:00 UTC."""
NOW = START + 10 * DAY + 5000


def _ask(**parameters: object) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in {"start_time": START, **parameters}.items()]


def test_the_defaults_are_openai_s() -> None:
    query = parse_query(_ask(), NOW)
    assert query.buckets == [(START + n * DAY, START + (n + 1) * DAY) for n in range(7)]
    assert query.next_page == f"page_{START + 7 * DAY}"
    assert (query.group_by, query.filters, query.asks_for_nothing) == ((), {}, False)
    assert len(parse_query(_ask(bucket_width="1h"), NOW).buckets) == 24
    assert len(parse_query(_ask(bucket_width="1m"), NOW).buckets) == 60


def test_pages_follow_until_the_running_bucket() -> None:
    first = parse_query(_ask(), NOW)
    last = parse_query(_ask(page=first.next_page), NOW)
    assert last.buckets == [(START + n * DAY, START + (n + 1) * DAY) for n in range(7, 11)]
    assert last.next_page is None


def test_the_first_and_the_last_bucket_are_cut_to_the_range() -> None:
    query = parse_query(_ask(start_time=START + 100, end_time=START + DAY + 200), NOW)
    assert query.buckets == [(START + 100, START + DAY), (START + DAY, START + DAY + 200)]
    assert query.next_page is None
    asked = query.for_storage()
    assert (asked.start.timestamp(), asked.end.timestamp()) == (START + 100, START + DAY + 200)


def test_lists_are_read_with_and_without_brackets() -> None:
    items = [*_ask(), ("group_by", "model"), ("group_by[]", "project_id"), ("models[]", "a"), ("models", "b")]
    query = parse_query([*items, ("project_ids[]", "p"), ("api_key_ids", "k"), ("group_by[]", "model")], NOW)
    assert query.group_by == ("model", "project_id")
    assert query.filters == {"models": ("a", "b"), "project_ids": ("p",), "api_key_ids": ("k",)}
    asked = query.for_storage()
    assert (asked.models, asked.project_ids, asked.key_ids) == (["a", "b"], ["p"], ["k"])
    assert asked.group_by == ["model", "project_id"]


def test_what_is_ours_is_asked_alike() -> None:
    items = [*_ask(group_by="deployment_id"), ("group_by", "drafter_version"), ("drafter_versions", "7")]
    query = parse_query([*items, ("deployment_ids", "d"), ("workloads", "w"), ("cohorts[]", "control")], NOW)
    asked = query.for_storage("t")
    assert asked.group_by == ["deployment_id", "config_version"]
    assert (asked.config_versions, asked.deployment_ids, asked.workloads) == ([7], ["d"], ["w"])
    assert (asked.cohorts, asked.tenant_ids) == (["control"], ("t",))


@pytest.mark.parametrize(("parameters", "is_nothing"), [({"batch": "true"}, True), ({"batch": "false"}, False)])
def test_nothing_here_is_a_batch(parameters: dict[str, object], is_nothing: bool) -> None:
    assert parse_query(_ask(**parameters), NOW).asks_for_nothing is is_nothing
    assert parse_query(_ask(user_ids="user_1"), NOW).asks_for_nothing


def test_each_report_has_its_own_words() -> None:
    assert parse_query(_ask(group_by="proposer"), NOW, SPECULATION).group_by == ("proposer",)
    assert len(parse_query(_ask(limit=180, end_time=START + 365 * DAY), NOW, COSTS).buckets) == 180
    for parameters, words in (
        ({"group_by": "proposer"}, COMPLETIONS),
        ({"group_by": "line_item"}, SPECULATION),
        ({"batch": "true"}, SPECULATION),
        ({"bucket_width": "1h"}, COSTS),
        ({"models": "m"}, COSTS),
    ):
        with pytest.raises(InvalidRequest) as refused:
            parse_query(_ask(**parameters), NOW, words)
        assert refused.value.param == next(iter(parameters))


@pytest.mark.parametrize(
    ("parameters", "param"),
    [
        ({"start_time": ""}, "start_time"),
        ({"start_time": "-1"}, "start_time"),
        ({"start_time": "1e9"}, "start_time"),
        ({"start_time": 10**12}, "start_time"),
        ({"start_time": "9" * 400}, "start_time"),
        ({"end_time": START}, "end_time"),
        ({"end_time": "tomorrow"}, "end_time"),
        ({"bucket_width": "1w"}, "bucket_width"),
        ({"limit": 0}, "limit"),
        ({"limit": 32}, "limit"),
        ({"limit": 169, "bucket_width": "1h"}, "limit"),
        ({"limit": 1441, "bucket_width": "1m"}, "limit"),
        ({"group_by": "tenant_id"}, "group_by"),
        ({"drafter_versions": "1.5"}, "drafter_versions"),
        ({"drafter_versions": 2**31}, "drafter_versions"),
        ({"format": "xml"}, "format"),
        ({"group_by": "model; DROP TABLE tenants"}, "group_by"),
        ({"page": "page_1"}, "page"),
        ({"page": f"page_{START + 1}"}, "page"),
        ({"page": "../"}, "page"),
        ({"page": f"page_{START + 400 * DAY}"}, "page"),
        ({"line_items": "x"}, "line_items"),
        ({"batch": "maybe"}, "batch"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(parameters: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_query(_ask(**parameters), NOW)
    assert (refused.value.status, refused.value.param) == (400, param)
    assert len(refused.value.message) < 250


def test_the_start_is_required() -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_query([], NOW)
    assert (refused.value.param, refused.value.code) == ("start_time", "missing_required_parameter")
