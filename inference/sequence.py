"""One choice of one request on its way through the engine, and the plain values that a step hands around.

A sequence's `num_computed` chases its tokens plus its draft (there is no prefill or decode phase):

    tokens   [ prompt .......... | output ......... ] draft …
              0        prompt_len         len(tokens)
    computed [ in the KV cache .......... ]
              0                num_computed

A draft is tokens not yet committed; rejecting it is leaving `num_computed` behind. Knows no torch.
"""

from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol

from inference.protocol import SamplingParams


class Text(Protocol):
    """A choice's tokens becoming text: whole characters only, stop strings found, their possible starts held back."""

    def push(self, token_id: int) -> bool:
        """Take one more token; True when it completes a stop string."""
        ...

    def take(self) -> str:
        """The text that may leave now and has not left before."""
        ...

    def finish(self) -> str:
        """The rest of the text, up to the stop string if one was completed."""
        ...


@dataclass(frozen=True, slots=True)
class Spelling:
    """A prediction as token ids, in one spelling (as given, other newlines, other indentation)."""

    ids: tuple[int, ...]
    origins: tuple[int, ...]
    """For each id, the position it came from in the prediction as given."""


class Respeller(Protocol):
    """A prediction's text, to be spelt anew once it shows how the reply lays it out."""

    @property
    def lines(self) -> Items[str]:
        """With their ends."""
        ...

    def decode(self, ids: Items[int]) -> str: ...

    def respell(self, lines: Items[str]) -> Spelling:
        """The text with these lines for its own; only their leading blanks and their ends differ."""
        ...


@dataclass(frozen=True, slots=True)
class Prediction:
    """The text the client already has. `spellings` are tried in order."""

    num_tokens: int
    """Length as given, in tokens."""
    spellings: tuple[Spelling, ...]
    respeller: Respeller | None = field(default=None, compare=False, repr=False)
    """None: it is followed as it is spelt."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one proposer expects next. `origins` maps ids to positions of the prediction, where it is one."""

    tokens: tuple[int, ...] = ()
    proposer: str = ""
    origins: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.tokens)

    def cut(self, length: int) -> "Proposal":
        return Proposal(self.tokens[:length], self.proposer, self.origins[:length])


NO_DRAFT = Proposal()


class Status(Enum):
    WAITING = auto()
    RUNNING = auto()
    FINISHED = auto()


@dataclass(slots=True, eq=False)
class Sequence:
    """One choice: what was asked, what is committed, and where its cache lies."""

    request_id: str
    choice: int
    tokens: list[int]
    """Committed: the prompt and every token that left."""
    prompt_len: int
    sampling: SamplingParams
    """With `seed` and `max_tokens` filled in."""
    text: Text
    cache_salt: str = ""
    prediction: Prediction | None = None
    speculate: bool = True
    strict_resync: bool = False
    forced: tuple[int, ...] | None = None
    """Benchmarks only: the output to dictate, by output position; after it, end of text."""
    leader: "Sequence | None" = None
    """Choice 0 of the same request; the others wait for its prompt to be computed and share its blocks."""
    priority: int = 0
    """Lower runs first."""

    status: Status = Status.WAITING
    num_computed: int = 0
    draft: Proposal = NO_DRAFT
    blocks: list[int] = field(default_factory=list)
    """Block table: position p lies in blocks[p // block_size], row p % block_size."""
    digests: list[bytes] = field(default_factory=list)
    """Digest of each full block of committed tokens, chained on the one before it."""
    num_published: int = 0
    """Leading blocks already offered to the prefix index."""
    memory: dict[str, Any] = field(default_factory=dict)
    """What each proposer remembers of this sequence, under its own name; gone with the sequence."""

    def __post_init__(self) -> None:
        assert self.sampling.seed is not None
        assert self.sampling.max_tokens is not None

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def num_output(self) -> int:
        return len(self.tokens) - self.prompt_len

    @property
    def room(self) -> int:
        """Tokens this choice may still emit."""
        assert self.sampling.max_tokens is not None
        return self.sampling.max_tokens - self.num_output


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of one sequence in one pass: `tokens` are computed at positions start, start + 1, …

    The last `num_sampled` rows are sampled: 0 inside a prompt, else 1 + len(draft) (the last committed token,
    then the drafted ones). Row i of those chooses the token at position `end - num_sampled + 1 + i`.
    """

    seq: Sequence
    start: int
    tokens: tuple[int, ...]
    num_sampled: int
    draft: Proposal = NO_DRAFT

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)


@dataclass(frozen=True, slots=True)
class Batch:
    """One pass. Its logits are (R, V): the sampled rows of each chunk, in order."""

    chunks: Items[Chunk] = ()

    @property
    def num_rows(self) -> int:
        return sum(len(c.tokens) for c in self.chunks)

    @property
    def num_sampled(self) -> int:
        return sum(c.num_sampled for c in self.chunks)


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One row to sample: whose parameters, and which token of the choice's output it chooses (0, 1, …)."""

    sampling: SamplingParams
    choice: int
    position: int
    forced: int | None = None
