"""A deployment's drafter configuration, as the gateway sends it and the engine runs it: `PUT /speculation`.

Versions of one origin (a deployment) only grow: an engine that runs version 5 of it refuses version 3, so that several
gateways may tell it what they know in any order. Version 0 is what an engine runs until somebody configures it.
"""

from typing import Literal

from pydantic import Field, model_validator

from inference.protocol import Value

LONGEST_DRAFT = 128


class PredictionConfig(Value):
    """The client's predicted output as a drafter."""

    enabled: bool = True
    max_tokens: int | None = Field(default=None, ge=1)
    """Only the first so many tokens of a prediction are drafted from. None: all of it."""


class LookupConfig(Value):
    """n-gram lookup in the request's own prompt and output."""

    enabled: bool = True
    min_ngram: int = Field(default=2, ge=1, le=16)
    max_ngram: int = Field(default=5, ge=1, le=16)
    length: int | None = Field(default=None, ge=1, le=LONGEST_DRAFT)
    """Tokens it proposes a step at most. None: as many as `adaptive.maximum`."""

    @model_validator(mode="after")
    def _ordered(self) -> "LookupConfig":
        if self.min_ngram > self.max_ngram:
            raise ValueError(f"min_ngram {self.min_ngram} is over max_ngram {self.max_ngram}")
        return self


class SuffixConfig(Value):
    """The longest suffix that stood before: in the request's own prompt and output, or its tenant's outputs too."""

    enabled: bool = False
    min_match: int = Field(default=2, ge=1, le=64)
    """Tokens that must have stood before."""
    factor: float = Field(default=2.0, gt=0.0, le=64.0)
    """A match of m tokens is drafted from for up to factor x m tokens."""
    length: int | None = Field(default=None, ge=1, le=LONGEST_DRAFT)
    """Tokens it proposes a step at most. None: as many as `adaptive.maximum`."""
    scope: Literal["request", "tenant"] = "request"
    """Whose text it learns from: tenant means outputs under the same cache salt."""


class AdaptiveConfig(Value):
    """How many tokens to draft. `schedule`: the 8 → 64 ladder alone; `cost`: the ladder bounded by what pays."""

    mode: Literal["schedule", "cost"] = "cost"
    start: int = Field(default=8, ge=1)
    minimum: int = Field(default=4, ge=1)
    maximum: int = Field(default=64, ge=1)


class AutoDisableConfig(Value):
    """When speculation holds back by itself, for a while. None: never."""

    min_acceptance: float | None = Field(default=None, ge=0.0, le=1.0)
    """A drafter of the deployment (not a client's prediction) that is accepted less than this rests, then tries
    again."""
    max_running: int | None = Field(default=None, ge=1)
    """While more sequences than this run, nothing is drafted."""


class SpeculationConfig(Value):
    """A deployment's drafter configuration. Swapped between steps; the text of no request changes with it."""

    origin: str = ""
    """Whose versions these are; opaque to the engine."""
    version: int = Field(default=1, ge=0)
    enabled: bool = True
    verification: Literal["coupled"] = "coupled"
    prediction: PredictionConfig = PredictionConfig()
    lookup: LookupConfig = LookupConfig()
    suffix: SuffixConfig = SuffixConfig()
    adaptive: AdaptiveConfig = AdaptiveConfig()
    auto_disable: AutoDisableConfig = AutoDisableConfig()
