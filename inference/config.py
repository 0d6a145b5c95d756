"""Settings of the engine: frozen values, checked when made. Nothing here reads the environment."""

from typing import Literal

from pydantic import Field, model_validator

from inference.protocol import Value


class PredictionConfig(Value):
    """The client's predicted output as a drafter."""

    enabled: bool = True


class LookupConfig(Value):
    """n-gram lookup in the request's own prompt and output."""

    enabled: bool = True
    min_ngram: int = Field(default=2, ge=1, le=16)
    max_ngram: int = Field(default=5, ge=1, le=16)

    @model_validator(mode="after")
    def _ordered(self) -> "LookupConfig":
        if self.min_ngram > self.max_ngram:
            raise ValueError(f"min_ngram {self.min_ngram} is over max_ngram {self.max_ngram}")
        return self


class AdaptiveConfig(Value):
    """How many tokens to draft. `schedule`: the 8 → 64 ladder alone; `cost`: the ladder bounded by what pays."""

    mode: Literal["schedule", "cost"] = "cost"
    start: int = Field(default=8, ge=1)
    minimum: int = Field(default=4, ge=1)
    maximum: int = Field(default=64, ge=1)


class SpeculationConfig(Value):
    """A deployment's drafter configuration. Swapped between steps; the text of no request changes with it."""

    version: int = 1
    enabled: bool = True
    verification: Literal["coupled"] = "coupled"
    prediction: PredictionConfig = PredictionConfig()
    lookup: LookupConfig = LookupConfig()
    adaptive: AdaptiveConfig = AdaptiveConfig()


class EngineConfig(Value):
    """Sizes of one engine."""

    block_size: int = Field(default=16, ge=1)
    num_blocks: int = Field(default=2048, ge=2)
    max_model_len: int = Field(default=8192, ge=2)
    max_batch_tokens: int = Field(default=512, ge=1)
    """Rows of one pass: committed rows first, then prefill, then drafts."""
    max_sequences: int = Field(default=32, ge=1)
    prefix_caching: bool = True
    allow_forced_output: bool = False
    speculation: SpeculationConfig = SpeculationConfig()
