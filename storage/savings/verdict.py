"""Whether speculation pays: the time it takes for a token, against the time a token takes without it. Pure.

Decode time is draft + verify + coordination exactly, so what speculation takes for a confirmed token is decode time by
decoded tokens, and both sides are those of an estimate.
"""

from typing import Literal

from storage.savings.values import Estimate, Holdout

Verdict = Literal["pays", "does_not_pay", "not_enough_data"]


def verdict(estimate: Estimate) -> Verdict:
    """Only what is measured decides, and only where its interval leaves zero on one side."""
    if not isinstance(estimate, Holdout) or estimate.saved.low <= 0 <= estimate.saved.high:
        return "not_enough_data"
    return "pays" if estimate.saved.low > 0 else "does_not_pay"
