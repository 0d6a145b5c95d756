"""Settings of the engine: frozen values, checked when made. Nothing here reads the environment."""

from pydantic import Field

from inference.protocol import Value
from inference.speculation_config import (
    AdaptiveConfig,
    AutoDisableConfig,
    LookupConfig,
    PredictionConfig,
    SpeculationConfig,
    SuffixConfig,
)

__all__ = [
    "AdaptiveConfig",
    "AutoDisableConfig",
    "EngineConfig",
    "LookupConfig",
    "PredictionConfig",
    "SpeculationConfig",
    "SuffixConfig",
]


class EngineConfig(Value):
    """Sizes of one engine."""

    block_size: int = Field(default=16, ge=1)
    num_blocks: int = Field(default=2048, ge=2)
    max_model_len: int = Field(default=8192, ge=2)
    max_batch_tokens: int = Field(default=512, ge=1)
    """Rows of one pass: committed rows first, then prefill, then drafts."""
    max_sequences: int = Field(default=32, ge=1)
    max_queue_seconds: float = Field(default=60.0, gt=0.0)
    """A request that never ran for so long is refused; so is a new one behind such a queue."""
    prefix_caching: bool = True
    allow_forced_output: bool = False
    speculation: SpeculationConfig = SpeculationConfig()
