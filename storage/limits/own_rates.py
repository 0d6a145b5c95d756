"""What this gateway itself lets run and charged in the last minute, and what it last saw of everybody's charges.

It is kept while Redis answers, so that the gateway can go on alone, and tell Redis afterwards. One process, no awaits.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import floor

from storage.limits.redis_rates import Charge
from storage.limits.rules import WINDOW, over, refusal
from storage.limits.values import (
    NOTHING,
    RATES,
    TRAFFIC,
    Amounts,
    Claim,
    Dimension,
    Limits,
    Refusal,
    Reservation,
    Subject,
    Usage,
    Verdict,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What Redis said all gateways had charged a subject, and what this one charged it since, alone."""

    at: float
    charged: Amounts
    since: Amounts = NOTHING


class OwnRates:
    def __init__(self) -> None:
        self._runs: dict[str, Claim] = {}
        self._charged: dict[tuple[str, int], Amounts] = {}
        """(subject, second) → what; so also `_unsent`."""
        self._unsent: dict[tuple[str, int], Amounts] = {}
        self._seen: dict[str, Seen] = {}

    @property
    def running(self) -> list[Claim]:
        return list(self._runs.values())

    def charge(self, claim: Claim, at: float, *, is_sent: bool) -> None:
        self._runs[claim.id] = claim
        self._add(claim, floor(at), claim.needs, is_sent)

    def correct(self, reservation: Reservation, by: Amounts, *, is_sent: bool) -> None:
        self._add(reservation.claim, reservation.second, by, is_sent)

    def end(self, claim: Claim) -> None:
        self._runs.pop(claim.id, None)

    def saw(self, subjects: Sequence[Subject], usages: Sequence[Usage], now: float) -> None:
        """What Redis said all gateways had charged."""
        self._seen |= {s.name: Seen(now, u.amounts) for s, u in zip(subjects, usages, strict=True)}

    def over_share(self, subjects: Sequence[Subject], needs: Amounts, now: float, gateways: int) -> Refusal | None:
        """Whether one of so many gateways would let pass more than its share of the limits."""
        shares = [replace(subject, limits=subject.limits.share(gateways)) for subject in subjects]
        mine = self.usages(subjects, now)
        if broken := over(shares, needs, mine, TRAFFIC):
            charges = self._charges(shares[broken[0]], broken[1], now)
            return refusal(shares, needs, Verdict(now, mine, broken, charges))
        return None

    def over_rest(self, subjects: Sequence[Subject], needs: Amounts, now: float, gateways: int) -> Refusal | None:
        """Whether it would let pass more than its share of what was left when Redis was last heard."""
        seen = [self._last_seen(subject, now) for subject in subjects]
        rests = [
            replace(subject, limits=subject.limits.rest(one.charged, gateways) if one else Limits())
            for subject, one in zip(subjects, seen, strict=True)
        ]
        since = [Usage(one.since if one else NOTHING) for one in seen]
        broken = over(rests, needs, since, RATES)
        if broken is None:
            return None
        one = seen[broken[0]]
        assert one is not None
        # When the others' charges end is unknown: a minute after they were seen they all have.
        refused = refusal(rests, needs, Verdict(now, since, broken))
        return replace(refused, retry_after=one.at + WINDOW + 1 - now)

    def usages(self, subjects: Sequence[Subject], now: float) -> list[Usage]:
        return [self._usage(subject, now) for subject in subjects]

    def charges(self) -> list[Charge]:
        """Everything of the last minute, with what was not yet sent."""
        return _told(self._charged)

    def take_unsent(self) -> list[Charge]:
        """What Redis does not know; it is sent now."""
        taken, self._unsent = self._unsent, {}
        return _told(taken)

    def keep_unsent(self, charges: Iterable[Charge]) -> None:
        """It could not be sent."""
        for c in charges:
            amounts = Amounts(0, c.requests, c.input_tokens, c.output_tokens)
            self._unsent[c.subject, c.second] = self._unsent.get((c.subject, c.second), NOTHING) + amounts

    def sweep(self, now: float) -> None:
        oldest = floor(now) - WINDOW
        for kept in (self._charged, self._unsent):
            for place in [place for place in kept if place[1] < oldest]:
                del kept[place]
        for name in [name for name, seen in self._seen.items() if seen.at < oldest]:
            del self._seen[name]

    def _add(self, claim: Claim, second: int, amounts: Amounts, is_sent: bool) -> None:
        for subject in claim.limited_in(*RATES):
            place = subject.name, second
            self._charged[place] = self._charged.get(place, NOTHING) + amounts
            if not is_sent:
                self._unsent[place] = self._unsent.get(place, NOTHING) + amounts
                if seen := self._seen.get(subject.name):
                    self._seen[subject.name] = replace(seen, since=seen.since + amounts)

    def _usage(self, subject: Subject, now: float) -> Usage:
        oldest, second = floor(now) - WINDOW, floor(now)
        charged = {s: a for (name, s), a in self._charged.items() if name == subject.name and oldest <= s <= second}
        runs = sum(any(s.name == subject.name for s in c.limited_in("concurrency")) for c in self._runs.values())
        amounts = sum(charged.values(), NOTHING)
        return Usage(amounts._replace(concurrency=runs), max(charged, default=None))

    def _last_seen(self, subject: Subject, now: float) -> Seen | None:
        seen = self._seen.get(subject.name)
        return seen if seen and now - seen.at <= WINDOW + 1 else None

    def _charges(self, subject: Subject, dimension: Dimension, now: float) -> list[tuple[int, int]]:
        oldest = floor(now) - WINDOW
        return [(s, a.of(dimension)) for (name, s), a in self._charged.items() if name == subject.name and s >= oldest]


def _told(charged: dict[tuple[str, int], Amounts]) -> list[Charge]:
    return [Charge(name, second, *(amounts.of(rate) for rate in RATES)) for (name, second), amounts in charged.items()]
