"""The drafters of a configuration, put together in one place."""

from inference.config import SpeculationConfig
from inference.speculation.drafter import Drafter
from inference.speculation.lookup import LookupProposer
from inference.speculation.pass_cost import PassCost
from inference.speculation.prediction import PredictionProposer
from inference.speculation.proposer import Proposer
from inference.speculation.suffix import SuffixProposer


def build_drafter(config: SpeculationConfig, cost: PassCost, vocab_size: int) -> Drafter:
    """What the engine holds under `config`; `cost` is the engine's own and outlives the configuration."""
    return Drafter(config, cost, vocab_size, build_proposers(config))


def build_proposers(config: SpeculationConfig) -> list[Proposer]:
    """The proposers that the configuration enables, the likelier first."""
    prediction: list[Proposer] = [PredictionProposer(config.prediction.max_tokens)] if config.prediction.enabled else []
    lookup: list[Proposer] = [LookupProposer(config.lookup)] if config.lookup.enabled else []
    suffix: list[Proposer] = [SuffixProposer(config.suffix)] if config.suffix.enabled else []
    return prediction + suffix + lookup if config.enabled else []
