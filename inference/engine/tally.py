"""What one sequence used: counts and times, kept as the passes go by and read once at the end.

The counting rules are those of contracts, «Counting»; the identity they keep is
    emitted decode tokens = steps + accepted delivered.
"""

from dataclasses import dataclass, field

from inference.protocol import ProposerStats, SpeculationStats, Timings, TokenUsage
from inference.sequence import Proposal, Sequence


@dataclass(slots=True)
class _Drafts:
    """One proposer's drafts."""

    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    by_position: list[int] = field(default_factory=list)

    def add(self, drafted: int, accepted: int) -> None:
        self.drafts += 1
        self.drafted += drafted
        self.accepted += accepted
        self.by_position.extend([0] * (accepted - len(self.by_position)))
        for position in range(accepted):
            self.by_position[position] += 1

    def stats(self) -> ProposerStats:
        return ProposerStats(
            drafts=self.drafts,
            drafted=self.drafted,
            accepted=self.accepted,
            accepted_by_position=tuple(self.by_position),
        )


@dataclass(slots=True)
class Tally:
    """Times are readings of the engine's clock, in seconds."""

    arrived: float
    scheduled: float | None = None
    first_token: float | None = None
    last_token: float | None = None
    draft: float = 0.0
    verify: float = 0.0
    pass_share: float = 0.0
    cached: int = 0
    steps: int = 0
    idle_passes: int = 0
    accepted: int = 0
    in_pass: int = 0
    """Sequences in the pass at work."""
    in_steps: int = 0
    """Sequences in the steps, summed."""
    drafts: dict[str, _Drafts] = field(default_factory=dict)
    drafted_origins: set[int] = field(default_factory=set)
    kept_origins: set[int] = field(default_factory=set)
    versions: dict[int, int] = field(default_factory=dict)

    @property
    def decoding(self) -> bool:
        return self.first_token is not None

    def begin(self, now: float, cached: int) -> None:
        """The sequence runs for the first time; `cached` tokens came from the prefix cache."""
        if self.scheduled is None:
            self.scheduled, self.cached = now, cached

    def passed(self, seconds: float, rows: int, all_rows: int, sequences: int) -> None:
        """A pass of `sequences` sequences that computed `rows` of this one took `seconds`."""
        self.pass_share += seconds * rows / all_rows
        self.in_pass = sequences
        if self.decoding:
            self.verify += seconds

    def drafted(self, seconds: float) -> None:
        """Drafting for this sequence took `seconds`."""
        if self.decoding:
            self.draft += seconds

    def delivered(self, now: float, count: int, draft: Proposal, matched: int, version: int) -> None:
        """A pass delivered `count` tokens; `matched` leading tokens of `draft` were the target's own."""
        if self.decoding:
            self.steps += 1
            self.in_steps += self.in_pass
            self.versions[version] = self.versions.get(version, 0) + 1
        else:
            self.first_token = now
        self.last_token = now
        if not draft:
            return
        # Where a cut falls inside an accepted run, the last delivered token counts as the target's own.
        accepted = min(matched, count - 1)
        self.accepted += accepted
        self.drafts.setdefault(draft.proposer, _Drafts()).add(len(draft), accepted)
        self.drafted_origins.update(draft.origins)
        self.kept_origins.update(draft.origins[: min(matched, count)])

    def idled(self) -> None:
        """A pass after the first token delivered nothing: recomputing after a preemption, or aborted."""
        if self.decoding:
            self.idle_passes += 1

    def usage(self, seq: Sequence, now: float) -> TokenUsage:
        return TokenUsage(
            prompt_tokens=seq.prompt_len,
            cached_tokens=self.cached,
            completion_tokens=seq.num_output,
            timings=self._timings(now),
            speculation=SpeculationStats(
                steps=self.steps,
                idle_passes=self.idle_passes,
                accepted_delivered=self.accepted,
                prediction_tokens=seq.prediction.num_tokens if seq.prediction else 0,
                rejected_prediction_tokens=len(self.drafted_origins - self.kept_origins),
                by_proposer={name: drafts.stats() for name, drafts in self.drafts.items()},
            ),
            config_versions=self.versions,
            batch=self.in_steps / self.steps if self.steps else 0.0,
            forced=seq.forced is not None,
        )

    def _timings(self, now: float) -> Timings:
        scheduled = self.scheduled if self.scheduled is not None else now
        first = self.first_token if self.first_token is not None else now
        decode = (self.last_token - first) if self.last_token is not None else 0.0
        # An abort can fall between a pass and the commit it paid for: clip to the decode time that was.
        verify = min(self.verify, decode)
        draft = min(self.draft, decode - verify)
        return Timings(
            queue=scheduled - self.arrived,
            prefill=first - scheduled,
            decode=decode,
            draft=draft,
            verify=verify,
            coordination=decode - verify - draft,
            pass_share=self.pass_share,
        )
