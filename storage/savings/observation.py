"""What a settled row says of time: its stratum, its cohort and its sums; nothing where it cannot be compared. Pure.

Left out are requests
    whose figures are not the engine's last word, or which decoded nothing or took no time to
    that ran under another drafter configuration than at their admission, or under two
    that the draw did not reach and for which nothing was drafted: there is nothing to guess
    of more than MOST_TOKENS or LONGEST: their squares would not fit
"""

import zlib
from dataclasses import dataclass
from typing import Any, Literal

from storage.savings.stratum import Stratum, cell
from storage.savings.sums import LONGEST, MOST_TOKENS, Sums

Cohort = Literal["treated", "control", "undrawn"]
"""undrawn: speculated without a draw, as predictions do unless their tenant agreed; its saving can only be modelled."""


@dataclass(frozen=True, slots=True)
class Observation:
    stratum: Stratum
    cohort: Cohort
    half: int
    """0 or 1, by a hash of the request's id."""
    sums: Sums


def observe(row: Any) -> Observation | None:
    """`row` has the members of the ledger's columns."""
    tokens = row.generated_tokens - row.choices_with_output
    cohort: Cohort | None = row.cohort or ("undrawn" if row.drafted_tokens else None)
    is_measured = row.final and 0 < tokens <= MOST_TOKENS and 0 < row.decode_us <= LONGEST
    if cohort is None or not is_measured or not _ran_as_admitted(row):
        return None
    where = cell(row.prompt_tokens, tokens, row.batch_milli, bool(row.sampled))
    return Observation(
        stratum=Stratum(row.deployment_id, row.config_version, where),
        cohort=cohort,
        half=zlib.crc32(row.request_id.encode()) & 1,
        sums=Sums.of(tokens, row.decode_us, row.holdout_ppm or 0),
    )


def _ran_as_admitted(row: Any) -> bool:
    if row.deployment_id is None or row.config_version is None:
        return False
    return list(row.config_versions) == [str(row.config_version)]
