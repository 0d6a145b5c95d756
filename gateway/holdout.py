"""The holdout: some requests run without speculation, so that what it saves can be measured, not guessed.

Who is one of them follows from a keyed hash of the request's id alone: the same on every gateway, whoever asks, however
much and when; and an id is ours, so nobody can choose.
"""

import hmac
from dataclasses import dataclass

from gateway.auth import Principal
from gateway.openai.schema import Common
from gateway.routing import Route
from gateway.secret import subkey
from storage.values import Cohort

MILLION = 1_000_000
BITS = 64


@dataclass(frozen=True, slots=True)
class Lot:
    """What was drawn, and how likely a control was, in parts per million. None: no part was taken in the draw."""

    cohort: Cohort | None = None
    ppm: int | None = None

    @property
    def is_control(self) -> bool:
        return self.cohort == "control"


NOT_DRAWN = Lot()


class Holdout:
    def __init__(self, secret: bytes) -> None:
        self._key = subkey(secret, b"holdout")

    def draw(self, request_id: str, rate: float) -> Lot:
        ppm = round(rate * MILLION)
        if ppm == 0:
            return NOT_DRAWN
        number = int.from_bytes(hmac.digest(self._key, request_id.encode(), "sha256")[: BITS // 8])
        return Lot("control" if number * MILLION < ppm << BITS else "treated", ppm)


def rate_for(principal: Principal, asked: Common, route: Route) -> float:
    """0 where nothing would be switched off, and for predictions of tenants that did not agree to lose them."""
    if asked.speculation == "off" or (asked.prediction and not principal.holdout_includes_prediction):
        return 0.0
    return route.holdout_rate
