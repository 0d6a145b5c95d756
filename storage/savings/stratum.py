"""What requests share whose times are compared: deployment, drafter version, and like work at like load.

    load     mean number of sequences in the passes, by octaves from 1 (time per token follows it)
    prompt   its tokens: under 512, under 4,096, more (attention reads them at each step)
    output   decoded tokens: under 64, under 256, more (a long answer's context grows, its fixed costs spread)
    sampled  greedy, or drawn (sampling costs the host time)
    half     of the load's octave

Few, because one request in fifty must fill them, and coarser where it does not: a stratum with too few controls is
compared with those of the whole octave, then of any output and sampling, then of any prompt; never with those of
another load, version or deployment.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

LOADS_MILLI = (1_200, 1_700, 2_400, 3_400, 4_800, 6_800, 9_600, 13_600, 19_200, 27_200, 38_400)
"""The last of each half octave."""
PROMPTS = (512, 4_096)
"""The first of each next bucket."""
OUTPUTS = (64, 256)
WIDTHS = (1, 2, 12, 36)
"""How many neighbouring cells compare as one, finest first."""
CELLS = (len(LOADS_MILLI) + 1) * 18


@dataclass(frozen=True, slots=True, order=True)
class Stratum:
    deployment_id: str
    config_version: int
    cell: int
    """0 … CELLS - 1: by load, prompt, output, sampled, half."""

    def coarser(self, width: int) -> "Stratum":
        return Stratum(self.deployment_id, self.config_version, self.cell // width)


def cell(prompt_tokens: int, decode_tokens: int, batch_milli: int, sampled: bool) -> int:
    load, half = divmod(bisect_left(LOADS_MILLI, batch_milli), 2)
    prompt, output = bisect_right(PROMPTS, prompt_tokens), bisect_right(OUTPUTS, decode_tokens)
    return (((load * 3 + prompt) * 3 + output) * 2 + sampled) * 2 + half
