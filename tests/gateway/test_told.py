"""Limits as clients read them: headers, durations, and the two kinds of 429."""

import pytest

from gateway.limits.told import duration, error, headers
from storage.limits.values import Dimension, Limits, Refusal, Standing, Subject

KEY = Subject("key", "k", Limits())
TENANT = Subject("tenant", "t", Limits())


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0ms"),
        (0.0121, "13ms"),
        (0.9999, "1s"),
        (1, "1s"),
        (7.66, "7.66s"),
        (59.9996, "1m0s"),
        (360, "6m0s"),
        (3600, "1h0m0s"),
        (90061.5, "25h1m1.5s"),
    ],
)
def test_durations_are_spelt_as_openai_does(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def standing(subject: Subject, dimension: Dimension, limit: int, used: int, resets_in: float = 1) -> Standing:
    return Standing(subject, dimension, limit, used, resets_in)


def test_headers_tell_of_the_limit_that_ends_first() -> None:
    told = headers(
        [
            standing(TENANT, "requests_per_minute", 100, 98),
            standing(KEY, "requests_per_minute", 10, 7, 30.25),
            standing(TENANT, "input_tokens_per_minute", 500, 499),
            standing(KEY, "output_tokens_per_minute", 100, 110, 61),
            standing(KEY, "concurrency", 1, 1),
            standing(KEY, "monthly_tokens", 10, 10),
        ]
    )
    assert told == {
        "x-ratelimit-limit-requests": "100",
        "x-ratelimit-remaining-requests": "2",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "100",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "1m1s",
    }
    assert headers([standing(KEY, "concurrency", 1, 0)]) == {}


def refusal(dimension: Dimension, retry_after: float | None) -> Refusal:
    return Refusal(KEY, dimension, 10, 9, 2, retry_after, (standing(KEY, "requests_per_minute", 10, 9),))


def test_a_rate_says_when_to_come_back() -> None:
    told = error(refusal("requests_per_minute", 7.0521))
    assert (told.status, told.type, told.code) == (429, "rate_limit_error", "rate_limit_exceeded")
    assert (told.headers["retry-after"], told.headers["retry-after-ms"]) == ("8", "7053")
    assert told.headers["x-ratelimit-remaining-requests"] == "1"
    assert "requests a minute" in told.message
    assert "Try again in 7.053s" in told.message


@pytest.mark.parametrize("dimension", ["input_tokens_per_minute", "output_tokens_per_minute"])
def test_what_never_fits_is_not_to_be_tried_again(dimension: Dimension) -> None:
    told = error(refusal(dimension, None))
    assert told.code == "rate_limit_exceeded"
    assert told.headers["x-should-retry"] == "false"
    assert "retry-after" not in told.headers


@pytest.mark.parametrize("retry_after", [None, 86400.0])
@pytest.mark.parametrize("dimension", ["monthly_tokens", "monthly_micros"])
def test_a_used_up_budget_is_not_to_be_tried_again(dimension: Dimension, retry_after: float | None) -> None:
    told = error(refusal(dimension, retry_after))
    assert (told.status, told.type, told.code) == (429, "insufficient_quota", "insufficient_quota")
    assert told.headers["x-should-retry"] == "false"
    assert "retry-after" not in told.headers
    assert ("24h0m0s" in told.message) == (retry_after is not None)


@pytest.mark.parametrize(
    ("dimension", "limit", "advice"),
    [
        ("concurrency", 0, "Nothing passes until the limit is raised."),
        ("monthly_tokens", 0, "Nothing passes until the budget is raised."),
        ("input_tokens_per_minute", 5, "It alone is over the limit: ask for less, or have the limit raised."),
        ("monthly_micros", 5, "It alone is over the budget: ask for less, or have the budget raised."),
    ],
)
def test_what_lets_nothing_pass_does_not_ask_for_less(dimension: Dimension, limit: int, advice: str) -> None:
    assert str(error(Refusal(KEY, dimension, limit, 0, 9, None))).endswith(f" {advice}")
