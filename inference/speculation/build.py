"""The drafters of a configuration, put together in one place."""

from inference.config import SpeculationConfig
from inference.speculation.drafter import Drafter
from inference.speculation.pass_cost import PassCost


def build_drafter(config: SpeculationConfig, cost: PassCost, vocab_size: int) -> Drafter:
    return Drafter(config, cost, vocab_size)
