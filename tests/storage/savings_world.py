"""A deployment whose requests have two known times each: with and without speculation. One of them shows.

Load follows the hour, and arrivals follow load. One tenant comes at the busiest hours and gains more than the others:
who compares it with all controls alike compares other hours. Times without speculation are log-normal around a mean
that grows with the load, the prompt and sampling.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from storage.savings.matching import StrataSums
from storage.savings.stratum import CELLS, LOADS_MILLI, OUTPUTS, PROMPTS, Stratum
from storage.savings.sums import Sums

Array = np.ndarray[Any, np.dtype[Any]]
HOURS = 96
HOLDOUT = 0.02


@dataclass(frozen=True)
class World:
    """Requests in the order of their arrival."""

    cell: Array
    tokens: Array
    without: Array
    """Microseconds."""
    with_speculation: Array
    is_control: Array
    is_ours: Array

    def controls(self, first: int) -> StrataSums:
        """Of the first so many requests, of all tenants."""
        return self._sums(self.is_control[:first], self.without)

    def treated(self, first: int) -> StrataSums:
        """Of our tenant."""
        return self._sums(self._is_treated(first), self.with_speculation)

    def truth(self, first: int, cells: set[int]) -> int:
        """What our treated requests in these cells would have taken."""
        chosen = self._is_treated(first) & np.isin(self.cell[:first], list(cells))
        return int(self.without[:first][chosen].sum())

    def _is_treated(self, first: int) -> Array:
        return self.is_ours[:first] & ~self.is_control[:first]

    def _sums(self, chosen: Array, micros: Array) -> StrataSums:
        rows = np.flatnonzero(chosen)
        cell, tokens, time = self.cell[rows], self.tokens[rows], micros[rows]
        millis = (time + 500) // 1000
        logs = np.rint(1000 * np.log(time / tokens)).astype(np.int64)
        ones = np.ones_like(tokens)
        squares = (tokens * tokens, tokens * millis, millis * millis)
        columns = (ones, ones * round(HOLDOUT * 1e6), tokens, time, *squares, logs, logs * logs)
        # Exact: no sum here leaves the integers that a float holds.
        binned = np.stack([np.bincount(cell, column, CELLS) for column in columns]).astype(np.int64)
        return {Stratum("dep", 1, int(c)): Sums(*map(int, binned[:, c])) for c in np.flatnonzero(binned[0])}


def world(seed: int, size: int, sigma: float) -> World:
    rng = np.random.default_rng(seed)
    day = 1.6 + 1.2 * np.sin(np.arange(HOURS) * (2 * np.pi / 24))
    loads = np.exp(rng.normal(0.6, 0.35, HOURS)) * day
    load = loads[rng.choice(HOURS, size=size, p=loads / loads.sum())]
    batch = np.maximum(1.0, load * np.exp(rng.normal(0, 0.25, size)))
    prompt = np.exp(rng.normal(6.0, 1.0, size)).astype(np.int64) + 1
    tokens = np.maximum(1, np.exp(rng.normal(4.6, 0.9, size)).astype(np.int64))
    is_sampled = rng.random(size) < 0.3
    is_ours = rng.random(size) < 0.15 * (load / load.mean()) ** 1.5
    mean = 20_000 * (1 + 0.12 * (batch - 1)) * (1 + 2e-5 * prompt) * np.where(is_sampled, 1.1, 1.0)
    effect = np.where(is_ours, 0.5, 0.8) * (1 + 0.03 * (batch - 1))
    return World(
        cell=_cell(prompt, tokens, batch, is_sampled),
        tokens=tokens,
        without=_times(rng, tokens * mean, sigma),
        with_speculation=_times(rng, tokens * mean * effect, sigma),
        is_control=rng.random(size) < HOLDOUT,
        is_ours=is_ours,
    )


def _times(rng: np.random.Generator, mean: Array, sigma: float) -> Array:
    scatter = np.exp(rng.normal(-sigma * sigma / 2, sigma, len(mean)))
    return np.maximum(1, mean * scatter).astype(np.int64)


def _cell(prompt: Array, tokens: Array, batch: Array, is_sampled: Array) -> Array:
    """As `stratum.cell`, of many at once."""
    load, half = np.divmod(np.searchsorted(LOADS_MILLI, np.rint(batch * 1000), side="left"), 2)
    coarse = (load * 3 + np.searchsorted(PROMPTS, prompt, side="right")) * 3
    return ((coarse + np.searchsorted(OUTPUTS, tokens, side="right")) * 2 + is_sampled) * 2 + half
