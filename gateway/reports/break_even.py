"""The break-even line: what speculation spends on a confirmed token, against what a token costs without it. Pure.

    with      (draft + verify + coordination) ÷ decoded tokens, of requests that speculated
    without   the same of controls, weighed to the same work: deployment, drafter version, load, context

Both are wall times of a request's own steps, that is what its client waits for; what others had of a pass is in both.
The verdict is that of the measured interval, never of two bare figures: `pays` where it lies above zero as a whole,
`does_not_pay` below, else there is not enough data, and `missing_requests` says about how much.
"""

from gateway.reports.figures import Object, ratio
from gateway.reports.savings import UNKNOWN
from storage.savings.cohorts import Saving
from storage.savings.values import Compared, NotEnough
from storage.savings.verdict import verdict
from storage.usage import UsageRow


def break_even(row: UsageRow, saving: Saving | None) -> Object:
    """Without an estimate: what the group's requests took, whatever they were."""
    estimate = saving.drawn if saving else UNKNOWN
    compared = estimate if isinstance(estimate, Compared) else None
    spent = sum(row.timings[name] for name in ("draft", "verify", "coordination"))
    return {
        "verdict": verdict(estimate),
        "method": estimate.method,
        "us_per_token": compared.with_us_per_token if compared else ratio(spent, row.decode_tokens),
        "baseline_us_per_token": compared and compared.without_us_per_token,
        "ratio": ratio(compared.decode_us, compared.baseline_us) if compared else None,
        "num_controls": estimate.controls,
        "missing_requests": estimate.missing if isinstance(estimate, NotEnough) else None,
    }
