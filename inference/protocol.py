"""The boundary of the engine: what a caller may say to it, and what it says back.

Knows no torch, no HTTP, no tenant and no price. Values are frozen and refuse unknown members, so that both
sides of the wire notice at once when they speak different versions.

A request is answered by `Accepted`, then by `TokenEvent`s for each choice, the last of which carries the
choice's `finish_reason` and `usage`. A request that fails raises `EngineError` (on the wire: `Failure`).

Counting (contracts, «Counting»), for each choice:

    emitted decode tokens = steps + accepted delivered          completion = 1 + emitted decode tokens
"""

from collections.abc import AsyncIterator
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

PROTOCOL_VERSION = 2

FinishReason = Literal["stop", "length", "abort", "error"]


class Value(BaseModel):
    """A plain value: frozen, and strict about its members."""

    model_config = ConfigDict(frozen=True, extra="forbid")


GREEDY_BELOW = 1e-5
"""A lower temperature is none: the likeliest token is chosen."""


class SamplingParams(Value):
    """How the target's tokens are chosen. Temperature below `GREEDY_BELOW` is greedy."""

    max_tokens: int | None = Field(default=None, ge=1)
    """None: as many as the context leaves."""
    temperature: float = Field(default=1.0, ge=0.0, le=2.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=0)
    """0: off."""
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    """None: the worker draws one."""
    n: int = Field(default=1, ge=1, le=128)
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False


class ChatMessage(Value):
    """One message, already reduced to text."""

    role: str
    content: str


class SpeculationRequest(Value):
    """What the caller asks of speculation for one request."""

    mode: Literal["auto", "off"] = "auto"
    config_version: int | None = None
    """The drafter configuration the caller saw when it admitted the request; recorded, not enforced."""
    resync: Literal["normal", "strict"] = "normal"
    """strict: re-synchronise on longer matches, for tenants who pay for rejected tokens."""


class GenerationRequest(Value):
    """One request. Exactly one of `messages`, `prompt` and `prompt_token_ids` is given."""

    request_id: str
    attempt: int = 0
    messages: tuple[ChatMessage, ...] | None = None
    prompt: str | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    sampling: SamplingParams = SamplingParams()
    prediction: str | None = None
    cache_salt: str = ""
    """Opaque; blocks of the prefix cache are shared only under the same salt."""
    priority: int = 0
    speculation: SpeculationRequest = SpeculationRequest()
    forced_output: str | None = None
    """Benchmarks only: the text whose tokens stand in for the target's samples. Refused unless enabled."""


class ProposerStats(Value):
    """What one proposer's drafts came to."""

    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    """Accepted and delivered: the passes this proposer saved."""
    accepted_by_position: tuple[int, ...] = ()

    def __add__(self, other: "ProposerStats") -> "ProposerStats":
        longest = max(len(self.accepted_by_position), len(other.accepted_by_position))
        mine, theirs = (p + (0,) * (longest - len(p)) for p in (self.accepted_by_position, other.accepted_by_position))
        return ProposerStats(
            drafts=self.drafts + other.drafts,
            drafted=self.drafted + other.drafted,
            accepted=self.accepted + other.accepted,
            accepted_by_position=tuple(a + b for a, b in zip(mine, theirs, strict=True)),
        )

    @property
    def rejected(self) -> int:
        return self.drafted - self.accepted


class SpeculationStats(Value):
    """What speculation did for one choice."""

    steps: int = 0
    """Passes that delivered a token after the first-token pass."""
    idle_passes: int = 0
    """Passes that delivered nothing after the first token (recompute after preemption, abort)."""
    accepted_delivered: int = 0
    """Draft tokens kept and delivered: the passes saved."""
    prediction_tokens: int = 0
    """Length of the prediction as given, in tokens."""
    rejected_prediction_tokens: int = 0
    """Distinct positions of the prediction that were drafted and never accepted."""
    by_proposer: dict[str, ProposerStats] = {}

    def __add__(self, other: "SpeculationStats") -> "SpeculationStats":
        names = dict.fromkeys((*self.by_proposer, *other.by_proposer))
        none = ProposerStats()
        return SpeculationStats(
            steps=self.steps + other.steps,
            idle_passes=self.idle_passes + other.idle_passes,
            accepted_delivered=self.accepted_delivered + other.accepted_delivered,
            prediction_tokens=self.prediction_tokens + other.prediction_tokens,
            rejected_prediction_tokens=self.rejected_prediction_tokens + other.rejected_prediction_tokens,
            by_proposer={n: self.by_proposer.get(n, none) + other.by_proposer.get(n, none) for n in names},
        )

    @property
    def accepted_prediction_tokens(self) -> int:
        """Tokens drafted by the request's own prediction and kept; no other drafter counts here."""
        stats = self.by_proposer.get("prediction")
        return stats.accepted if stats else 0


class Timings(Value):
    """Seconds of wall time. decode = draft + verify + coordination."""

    queue: float = 0.0
    prefill: float = 0.0
    decode: float = 0.0
    draft: float = 0.0
    verify: float = 0.0
    coordination: float = 0.0
    pass_share: float = 0.0
    """Capacity view: this choice's share, by rows, of the passes it took part in."""


class TokenUsage(Value):
    """What one choice used. Prompt tokens belong to the request: they are the same on each of its choices."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    timings: Timings = Timings()
    speculation: SpeculationStats = SpeculationStats()
    config_versions: dict[int, int] = {}
    """Drafter configuration version → steps run under it."""
    batch: float = 0.0
    """Mean number of sequences in the passes that decoded it."""
    forced: bool = False


class Accepted(Value):
    """The first event: everything checkable was checked, and the request is queued."""

    type: Literal["accepted"] = "accepted"
    prompt_tokens: int
    prediction_tokens: int = 0


class TokenEvent(Value):
    """Tokens of one choice, cut where the choice ends; whole characters only."""

    type: Literal["tokens"] = "tokens"
    choice: int = 0
    seq_no: int
    """0, 1, 2 … within the choice."""
    token_ids: tuple[int, ...]
    text: str
    finish_reason: FinishReason | None = None
    usage: TokenUsage | None = None
    """Present exactly when `finish_reason` is."""


class Failure(Value):
    """How an `EngineError` travels."""

    type: Literal["failure"] = "failure"
    status: int
    code: str
    message: str
    param: str | None = None


WireEvent = Annotated[Accepted | TokenEvent | Failure, Field(discriminator="type")]
wire_event: TypeAdapter[Accepted | TokenEvent | Failure] = TypeAdapter(WireEvent)


class WorkerReady(Value):
    """What a worker that can serve says of itself."""

    protocol_version: int = PROTOCOL_VERSION
    model: str
    max_model_len: int
    vocab_size: int
    fingerprint: str
    """Names the weights, their type and the device."""
    family: str = ""
    """The model's architecture, as its configuration names it."""
    revision: str = ""
    """Of configuration and weights."""
    weights_bytes: int = 0
    cache_bytes: int = 0
    drafters: tuple[str, ...] = ("lookup", "suffix")
    """Kinds of drafter that this worker can run."""


class WorkerLoad(Value):
    """How busy a worker's engine was after its last step."""

    waiting: int
    running: int
    free_blocks: int
    num_blocks: int
    passes: int
    preemptions: int = 0
    config_version: int
    config_origin: str = ""
    drafter_faults: dict[str, int] = {}
    resting_drafters: tuple[str, ...] = ()
    """Drafters that hold back for a while, since too little of theirs was accepted."""


class EngineError(Exception):
    """The engine refused or lost a request.

    status 400: the request can never run (bad value, too long); 503: not now (starting, draining, crashed);
    500: it ran and failed. `code` and `param` follow OpenAI's words.
    """

    def __init__(self, status: int, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.failure = Failure(status=status, code=code, message=message, param=param)


class InferenceClient(Protocol):
    """The gateway's only view of an engine; tests give it a fake one."""

    def generate(self, request: GenerationRequest) -> AsyncIterator[Accepted | TokenEvent]:
        """Stream one request. Closing the iterator early aborts it. Raises EngineError."""
        ...

    async def abort(self, request_id: str) -> None:
        """End a request: its open choices finish with reason `abort` and their usage, within one step."""
        ...
