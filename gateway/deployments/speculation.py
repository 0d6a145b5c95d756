"""A deployment's speculation, as operators write it, and what the engine makes of it.

Whatever this version cannot do is refused by name with what it can: a setting that is stored does something.
"""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue, ValidationError, model_validator

from gateway.openai.fields import refusal
from gateway.openai.schema import Wire
from inference.speculation_config import (
    LONGEST_DRAFT,
    AdaptiveConfig,
    AutoDisableConfig,
    LookupConfig,
    PredictionConfig,
    SpeculationConfig,
    SuffixConfig,
)

KINDS = ("none", "lookup", "suffix")
LATER_KINDS = ("draft_model", "eagle", "eagle3", "mtp")
MOST_HELD_OUT = 0.2
HELD_OUT = 0.02
NOT_BUILT = "is not built into this version"
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Length = Annotated[int, Field(ge=1, le=LONGEST_DRAFT)]
Gram = Annotated[int, Field(ge=1, le=16)]


def _known(now: tuple[str, ...], later: tuple[str, ...]) -> Callable[[object], object]:
    """Values that a later version will take are told apart from those that mean nothing."""

    def check(value: object) -> object:
        if isinstance(value, str) and value in later:
            allowed = ", ".join(f"'{one}'" for one in now)
            raise refusal("invalid_value", f"Invalid value: '{value}' {NOT_BUILT}. Supported values are: {allowed}.")
        return value

    return check


def _absent(value: JsonValue) -> None:
    if value is not None:
        raise refusal("unsupported_parameter", f"Unsupported parameter: '{{param}}' {NOT_BUILT}. Leave it out.")


def _default_suffix(value: object) -> object:
    """Releases without this drafter stored null."""
    return {} if value is None else value


Kind = Annotated[Literal["none", "lookup", "suffix"], BeforeValidator(_known(KINDS, LATER_KINDS))]
Scope = Annotated[Literal["request", "tenant"], BeforeValidator(_known(("request", "tenant"), ("deployment",)))]
Verification = Annotated[Literal["coupled"], BeforeValidator(_known(("coupled",), ("rejection",)))]
NotBuilt = Annotated[None, BeforeValidator(_absent)]
HoldoutRate = Annotated[float, Field(ge=0.0, le=MOST_HELD_OUT, allow_inf_nan=False)]


class Ngram(Wire):
    """How many of the last tokens must have stood somewhere before."""

    min: Gram = 2
    max: Gram = 5

    @model_validator(mode="after")
    def _ordered(self) -> "Ngram":
        if self.min > self.max:
            raise refusal("invalid_value", f"Invalid value for '{{param}}': min is at most max, {self.max}.", "min")
        return self


class Suffix(Wire):
    """The longest run of last tokens that stood somewhere before."""

    min_match: Annotated[int, Field(ge=1, le=64)] = 2
    factor: Annotated[float, Field(gt=0.0, le=64.0, allow_inf_nan=False)] = 2.0
    """A match of m tokens is drafted from for up to factor x m tokens."""


class Drafter(Wire):
    """The deployment's own drafter, beside the clients' predictions."""

    kind: Kind = "lookup"
    length: Length | None = None
    """Tokens it proposes a step at most, the target's own token excluded. null: as many as adaptive.maximum."""
    ngram: Ngram = Ngram()
    scope: Scope = "request"
    """Whose text it learns from: a request's own, or with kind suffix also what its tenant was answered lately."""
    model: NotBuilt = None
    revision: NotBuilt = None
    suffix: Annotated[Suffix, BeforeValidator(_default_suffix)] = Suffix()

    @model_validator(mode="after")
    def _scoped(self) -> "Drafter":
        if self.scope != "request" and self.kind != "suffix":
            told = f"Invalid value for '{{param}}': only kind 'suffix' learns from a {self.scope}. Send 'request'."
            raise refusal("invalid_value", told, "scope")
        return self


class Prediction(Wire):
    enabled: bool = True
    max_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    """Only the first so many tokens of a prediction are drafted from."""


class Adaptive(Wire):
    """How long a draft is: `cost` weighs what it gains against what its rows cost, `schedule` only climbs."""

    mode: Literal["cost", "schedule"] = "cost"
    start: Length = 8
    minimum: Length = 4
    maximum: Length = 64

    @model_validator(mode="after")
    def _ordered(self) -> "Adaptive":
        for name in ("start", "minimum"):
            if getattr(self, name) > self.maximum:
                told = f"Invalid value for '{{param}}': it is at most adaptive.maximum, {self.maximum}."
                raise refusal("invalid_value", told, name)
        return self


class AutoDisable(Wire):
    """When speculation holds back for a while by itself. null: never."""

    min_acceptance: Share | None = None
    max_running: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None


class Speculation(Wire):
    enabled: bool = True
    drafter: Drafter = Drafter()
    prediction: Prediction = Prediction()
    verification: Verification = "coupled"
    adaptive: Adaptive = Adaptive()
    auto_disable: AutoDisable = AutoDisable()
    holdout_rate: HoldoutRate = HELD_OUT
    """Of its requests, how many run without speculation, to measure what it saves."""
    allow_opt_out: bool = True
    """Whether a request may say `speculation: "off"`."""

    @property
    def kind(self) -> str:
        """In one word."""
        return self.drafter.kind if self.enabled else "off"

    @property
    def drawn_rate(self) -> float:
        """0 where the deployment has no drafter that could be switched off."""
        return self.holdout_rate if self.enabled and self.drafter.kind != "none" else 0.0


def read(config: Mapping[str, JsonValue]) -> Speculation | None:
    """What is stored; None where another release wrote what this one does not know."""
    try:
        return Speculation.model_validate_json(json.dumps(dict(config)))
    except ValidationError:
        return None


def engine_config(asked: Speculation, version: int, origin: str = "") -> SpeculationConfig:
    """The same in the engine's words; `origin` is the deployment whose versions these are."""
    drafter, prediction = asked.drafter, asked.prediction
    return SpeculationConfig(
        origin=origin,
        version=version,
        enabled=asked.enabled,
        verification=asked.verification,
        prediction=PredictionConfig(enabled=prediction.enabled, max_tokens=prediction.max_tokens),
        lookup=LookupConfig(
            enabled=drafter.kind == "lookup",
            min_ngram=drafter.ngram.min,
            max_ngram=drafter.ngram.max,
            length=drafter.length,
        ),
        suffix=SuffixConfig(
            enabled=drafter.kind == "suffix",
            min_match=drafter.suffix.min_match,
            factor=drafter.suffix.factor,
            length=drafter.length,
            scope=drafter.scope,
        ),
        adaptive=AdaptiveConfig.model_validate(asked.adaptive.model_dump()),
        auto_disable=AutoDisableConfig.model_validate(asked.auto_disable.model_dump()),
    )
