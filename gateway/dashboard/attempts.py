"""How often a wrong key may be tried: by one address, and for one key. Kept in memory, bounded, gone with a restart.

An attempt counts from its start, so that many at once are no way around; one that succeeds is taken back.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from math import ceil

from gateway.errors import RateLimited

WINDOW = 60.0
PER_ADDRESS = 20
PER_KEY = 5
MOST_REMEMBERED = 10_000


class Attempts:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._made: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def begin(self, address: str, key_id: str) -> None:
        """Raises RateLimited, without counting it."""
        now = self._clock()
        places = self._places(address, key_id)
        waits = [self._wait(place, most, now) for place, most in places]
        if max(waits) > 0:
            told = "Too many keys were tried. Wait a little, then try again."
            raise RateLimited(told, retry_after=ceil(max(waits)))
        for place, _ in places:
            self._remember(place, now)

    def succeeded(self, address: str, key_id: str) -> None:
        for place, _ in self._places(address, key_id):
            if made := self._made.get(place):
                made.pop()

    def _places(self, address: str, key_id: str) -> list[tuple[tuple[str, str], int]]:
        return [(("address", address), PER_ADDRESS), (("key", key_id), PER_KEY)]

    def _wait(self, place: tuple[str, str], most: int, now: float) -> float:
        made = self._made.get(place, deque())
        while made and made[0] <= now - WINDOW:
            made.popleft()
        return made[-most] + WINDOW - now if len(made) >= most else 0.0

    def _remember(self, place: tuple[str, str], now: float) -> None:
        self._made.setdefault(place, deque()).append(now)
        self._made.move_to_end(place)
        while len(self._made) > MOST_REMEMBERED:
            self._made.popitem(last=False)
