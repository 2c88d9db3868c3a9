"""What every instance of a run has done since it started, counted at the moments at which vLLM counts it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from proreus.kernels.arrays import F64
from proreus.worlds.inference.model.vllm import REQUEST_BOUNDS, TBT_BOUNDS, TTFT_BOUNDS
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster
from proreus.worlds.inference.simulation.iteration_time import completed, lasting


class GrowingHistogram:
    """A histogram that grows."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = np.zeros(len(bounds) + 1)
        self.total = 0.0

    def add(self, values: F64) -> None:
        """So many observations more."""
        places = np.searchsorted(self.bounds, values, side="left")
        self.counts += np.bincount(places, minlength=len(self.counts))
        self.total += float(values.sum())


@dataclass
class InstanceCounters:
    """One instance."""

    prompt_tokens: float = 0.0
    output_tokens: float = 0.0
    ended: float = 0.0
    found: float = 0.0
    """Tokens of prompts that its prefix cache knew."""
    ttft: GrowingHistogram = field(default_factory=lambda: GrowingHistogram(TTFT_BOUNDS))
    tbt: GrowingHistogram = field(default_factory=lambda: GrowingHistogram(TBT_BOUNDS))
    e2e: GrowingHistogram = field(default_factory=lambda: GrowingHistogram(REQUEST_BOUNDS))
    wait: GrowingHistogram = field(default_factory=lambda: GrowingHistogram(REQUEST_BOUNDS))


class RunCounters:
    """Follows a run; instances are known by their numbers, so that a new one begins at 0."""

    def __init__(self, cluster: InferenceCluster) -> None:
        self._cluster = cluster
        self._of: dict[int, InstanceCounters] = {}
        self._tokens_of_ended: dict[int, float] = {}
        self._rows_seen = 0
        self._until = -1.0

    def of(self, number: int) -> InstanceCounters:
        """The instance of that number."""
        return self._of.setdefault(number, InstanceCounters())

    def follow(self) -> None:
        """Count what has happened since the last call."""
        rows = self._cluster.rows_since(self._rows_seen)
        self._rows_seen += len(rows)
        rows = rows[rows[:, c.L_STATUS] == c.COMPLETED]
        self._count_first_tokens(rows)
        self._count_ends(rows)
        self._count_tokens()
        self._until = self._cluster.now
        alive = set(self._cluster.run.fleet[:, c.NUMBER].tolist())
        for gone in self._of.keys() - alive:
            del self._of[gone]
            self._tokens_of_ended.pop(gone, None)

    def _count_first_tokens(self, rows: F64) -> None:
        """Of those that have ended since and of those under way: each had its first token in one interval."""
        run = self._cluster.run
        busy = run.slot[:, c.PHASE] != c.FREE
        request = run.slot[busy, c.REQUEST]
        first = np.concatenate([rows[:, c.L_FIRST], run.moment[busy, c.FIRST_TOKEN]])
        arrival = np.concatenate([rows[:, c.L_ARRIVAL], run.moment[busy, c.ARRIVED]])
        prompt = np.concatenate([rows[:, c.L_PROMPT], run.trace.prompt[request]])
        found = np.concatenate([rows[:, c.L_FOUND], run.slot[busy, c.FOUND]])
        number = np.concatenate([rows[:, c.L_PROMPT_BY], run.slot[busy, c.PROMPT_BY]])
        elsewhere = number != np.concatenate([rows[:, c.L_TOKEN_BY], run.slot[busy, c.TOKEN_BY]])
        fresh = (first > self._until) & (first <= self._cluster.now)
        for one in np.unique(number[fresh]).astype(int).tolist():
            mine = fresh & (number == one)
            counted = self.of(one)
            counted.ttft.add(first[mine] - arrival[mine])
            counted.prompt_tokens += float(prompt[mine].sum())
            counted.found += float(found[mine].sum())
            counted.ended += float((mine & elsewhere).sum())  # here it is over, with one token
            self._tokens_of_ended[one] = self._tokens_of_ended.get(one, 0.0) + float(mine.sum())

    def _count_ends(self, rows: F64) -> None:
        for one in np.unique(rows[:, c.L_TOKEN_BY]).astype(int).tolist():
            mine = rows[rows[:, c.L_TOKEN_BY] == one]
            counted = self.of(one)
            counted.ended += len(mine)
            counted.e2e.add(mine[:, c.L_ENDED] - mine[:, c.L_ARRIVAL])
            counted.wait.add(mine[:, c.L_STARTED] - mine[:, c.L_ARRIVAL])
            gaps = mine[:, c.L_OUTPUT] - 1
            several = gaps > 0
            counted.tbt.add((mine[:, c.L_ENDED] - mine[:, c.L_FIRST])[several] / gaps[several])
            self._tokens_of_ended[one] = self._tokens_of_ended.get(one, 0.0) + float(gaps.sum())

    def _count_tokens(self) -> None:
        """Tokens behind the first ones: of requests that have ended, and so far of those that decode."""
        run, now = self._cluster.run, self._cluster.now
        under_way: dict[int, float] = {}
        for slot in np.flatnonzero(run.slot[:, c.PHASE] == c.DECODE).tolist():
            row = run.slot[slot]
            number = int(row[c.TOKEN_BY])
            left = int(row[c.LEFT])
            if row[c.WAITS_AS] == c.NOBODY and not row[c.BLOCKED]:
                fleet, figure = run.fleet[row[c.TOKEN_AT]], run.figure[row[c.TOKEN_AT]]
                seconds, growth = figure[c.RUN_TIME], figure[c.RUN_GROWTH]
                elapsed = now - (figure[c.RUN_END] - lasting(seconds, growth, fleet[c.RUNNING]))
                done = completed(seconds, growth, max(elapsed, 0.0)) if fleet[c.RUNNING] else 0
                left = int(row[c.FINISH] - fleet[c.ITERATIONS] - min(done, fleet[c.RUNNING]))
            under_way[number] = under_way.get(number, 0.0) + max(float(row[c.OUTPUT]) - 1.0 - left, 0.0)
        for number, counted in self._of.items():
            tokens = self._tokens_of_ended.get(number, 0.0) + under_way.get(number, 0.0)
            counted.output_tokens = max(counted.output_tokens, tokens)  # a counter never falls
