"""How often a wrong key may be tried: by one address, for one key, and again a minute later."""

import pytest

from gateway.dashboard.attempts import MOST_REMEMBERED, PER_ADDRESS, PER_KEY, WINDOW, Attempts
from gateway.errors import RateLimited


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_one_key_from_many_addresses() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    for number in range(PER_KEY):
        attempts.begin(f"10.0.0.{number}", "key")
    with pytest.raises(RateLimited) as refused:
        attempts.begin("10.0.0.99", "key")
    assert refused.value.headers["retry-after"] == "60"
    attempts.begin("10.0.0.99", "another")
    clock.now += WINDOW
    attempts.begin("10.0.0.99", "key")


def test_many_keys_from_one_address() -> None:
    attempts = Attempts(Clock())
    for number in range(PER_ADDRESS):
        attempts.begin("10.0.0.1", f"key {number}")
    with pytest.raises(RateLimited):
        attempts.begin("10.0.0.1", "fresh")
    attempts.begin("10.0.0.2", "fresh")


def test_those_that_succeed_do_not_count() -> None:
    attempts = Attempts(Clock())
    for _ in range(2 * PER_ADDRESS):
        attempts.begin("10.0.0.1", "key")
        attempts.succeeded("10.0.0.1", "key")


def test_memory_is_bounded() -> None:
    attempts = Attempts(Clock())
    for number in range(MOST_REMEMBERED):
        attempts.begin(f"address {number}", f"key {number}")
    assert len(attempts._made) == MOST_REMEMBERED
