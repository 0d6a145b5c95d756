"""What one request has used so far: counts what the engine emits and what reaches the socket, and sums it up.

    generated   tokens the engine emitted: its own last word (`usage`) where there is one, else what was seen
    delivered   tokens written to the socket
    visible     generated; delivered where the engine died

Pure: it writes nothing. Runs are the engine requests of one HTTP request; a run's prompt is counted once, however
many choices it has.
"""

from dataclasses import dataclass, field

from inference.protocol import Accepted, ProposerStats, SpeculationStats, Timings, TokenEvent, TokenUsage
from storage.values import Figures, Outcome, ProposerFigures, RejectedPolicy, billed_completion

TIMINGS = tuple(Timings.model_fields)
LONGEST = ("queue", "prefill")


@dataclass(slots=True)
class Run:
    """One engine request."""

    prompt_tokens: int = 0
    prediction_tokens: int = 0
    emitted: dict[int, int] = field(default_factory=dict)
    """Choice → tokens seen."""
    usages: dict[int, TokenUsage] = field(default_factory=dict)
    """Choice → the engine's last word on it."""

    def observe(self, event: Accepted | TokenEvent) -> None:
        if isinstance(event, Accepted):
            self.prompt_tokens, self.prediction_tokens = event.prompt_tokens, event.prediction_tokens
            return
        self.emitted[event.choice] = self.emitted.get(event.choice, 0) + len(event.token_ids)
        if event.usage is not None:
            self.usages[event.choice] = event.usage
            self.prompt_tokens = event.usage.prompt_tokens

    @property
    def generated(self) -> dict[int, int]:
        """Choice → tokens emitted."""
        return self.emitted | {choice: usage.completion_tokens for choice, usage in self.usages.items()}

    @property
    def cached_tokens(self) -> int:
        return max((usage.cached_tokens for usage in self.usages.values()), default=0)


class Meter:
    """Counts one request of `runs` engine requests with `choices` choices each."""

    def __init__(self, runs: int, choices: int, policy: RejectedPolicy) -> None:
        self._runs = [Run() for _ in range(runs)]
        self._choices = choices
        self._policy = policy
        self.delivered = 0

    def observe(self, run: int, event: Accepted | TokenEvent) -> None:
        self._runs[run].observe(event)

    @property
    def generated(self) -> int:
        return sum(sum(run.generated.values()) for run in self._runs)

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Prompt and prediction tokens of each run, once it is accepted."""
        return [(run.prompt_tokens, run.prediction_tokens) for run in self._runs]

    def is_done(self, run: int) -> bool:
        """Whether the engine has said its last word on every choice of a run."""
        return len(self._runs[run].usages) == self._choices

    @property
    def is_final(self) -> bool:
        return all(self.is_done(run) for run in range(len(self._runs)))

    def figures(self, outcome: Outcome = "completed") -> Figures:
        """What would be billed if the request ended now, and so."""
        usages = [usage for run in self._runs for usage in run.usages.values()]
        speculation = _speculation(usages)
        is_lost = outcome == "engine_lost"
        generated = self.generated
        visible = min(self.delivered, generated) if is_lost else generated
        accepted = min(speculation.accepted_prediction_tokens, visible)
        rejected = speculation.rejected_prediction_tokens
        return Figures(
            prompt_tokens=sum(run.prompt_tokens for run in self._runs),
            cached_tokens=sum(run.cached_tokens for run in self._runs),
            generated_tokens=generated,
            delivered_tokens=min(self.delivered, generated),
            visible_tokens=visible,
            completion_tokens=billed_completion(self._policy, visible, accepted, rejected),
            prediction_tokens=max(self._prediction_tokens(usages)),
            accepted_prediction_tokens=accepted,
            rejected_prediction_tokens=rejected,
            steps=speculation.steps,
            idle_passes=speculation.idle_passes,
            accepted_delivered=speculation.accepted_delivered,
            choices_with_output=sum(tokens > 0 for run in self._runs for tokens in run.generated.values()),
            final=self.is_final and not is_lost,
            by_proposer={name: _proposer(stats) for name, stats in speculation.by_proposer.items()},
            timings=_timings(usages),
            batch_milli=_batch_milli(usages),
            config_versions=_versions(usages),
        )

    def _prediction_tokens(self, usages: list[TokenUsage]) -> list[int]:
        return [run.prediction_tokens for run in self._runs] + [u.speculation.prediction_tokens for u in usages]


def _speculation(usages: list[TokenUsage]) -> SpeculationStats:
    first, *others = [usage.speculation for usage in usages] or [SpeculationStats()]
    return sum(others, first)


def _proposer(stats: ProposerStats) -> ProposerFigures:
    return ProposerFigures(stats.drafts, stats.drafted, stats.accepted, stats.accepted_by_position)


def _timings(usages: list[TokenUsage]) -> dict[str, float]:
    """Waiting and prefill belong to the request: the longest. The rest is summed over choices."""
    gathered = {name: [getattr(usage.timings, name) for usage in usages] for name in TIMINGS}
    return {name: max(v, default=0.0) if name in LONGEST else sum(v) for name, v in gathered.items()}


def _versions(usages: list[TokenUsage]) -> dict[int, int]:
    versions: dict[int, int] = {}
    for usage in usages:
        for version, steps in usage.config_versions.items():
            versions[version] = versions.get(version, 0) + steps
    return versions


def _batch_milli(usages: list[TokenUsage]) -> int:
    """A choice counts by its tokens."""
    tokens = sum(usage.completion_tokens for usage in usages)
    return round(1000 * sum(usage.batch * usage.completion_tokens for usage in usages) / tokens) if tokens else 0
