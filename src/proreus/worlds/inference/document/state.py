"""The state collector: twenty features of an interval, four intervals stacked.

    0 requests/s            5 decoding requests that wait   10 prompt pool busy     15 ... 90th percentile
    1 tokens/s of the ended 6 mean wait                     11 token pool busy      16 ... 99th percentile
    2 mean prompt           7 prompt instances              12 KV memory in use     17 TBT slowdown, median
    3 mean output           8 token instances               13 links in use         18 ... 90th percentile
    4 prompts that wait     9 mixed instances               14 TTFT slowdown, median 19 ... 99th percentile

Only active instances count. Where nothing came or ended, what would be a mean of nothing is 0.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import F32, F64
from proreus.worlds.inference.document.application import Application
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cost import busy_seconds
from proreus.worlds.inference.simulation.slowdown import slowdowns

FEATURES = 20
TTFT_LIMITS, TBT_LIMITS = (2.0, 3.0, 6.0), (1.25, 1.5, 5.0)
"""Slowdowns at the median, the 90th and the 99th percentile that the document promises."""
_SHARES = (50, 90, 99)
_POOLS: tuple[Role, ...] = ("prompt", "token", "mixed")
_LONGEST_PROMPT, _LONGEST_OUTPUT, _MOST, _LONG_WAIT = 4_096.0, 2_048.0, 100.0, 10.0


@dataclass(frozen=True)
class IntervalSeen:
    """What an interval was, before it is made to features."""

    features: F32
    instances: tuple[int, int, int]
    """Active ones of the prompt, the token and the mixed pool."""
    busy: tuple[float, ...]
    """Of each pool that has instances, share of the interval with a batch."""
    ttft_violations: float
    """Of the requests that ended, or have waited too long for their first token already: the share with a
    slowdown above the limit of the 99th percentile."""
    tbt_violations: float
    """Of the requests that ended."""


class RLStateCollector:
    """Looks at an application once an interval."""

    def __init__(
        self, applications: Mapping[int, Application] | Sequence[Application], stack_size: int = 4
    ) -> None:
        found = applications.values() if isinstance(applications, Mapping) else applications
        self.application = next(iter(found))
        self._stack: deque[F32] = deque(
            [np.zeros(FEATURES, dtype=np.float32)] * stack_size, maxlen=stack_size
        )
        self._looked, self._rows, self._arrived = 0.0, 0, 0
        self._busy: dict[int, float] = {}
        self._use: dict[Role, float] = {}
        self.last: IntervalSeen | None = None

    def get_state(self) -> F32:
        """[20 x stack] of the interval since the last call and of those before it."""
        self.last = self._look()
        self._stack.append(self.last.features)
        return np.concatenate(self._stack)

    def get_instance_feature(self) -> dict[Role, int]:
        """Active instances of each pool."""
        return {tag: len(self.application.active(tag)) for tag in _POOLS}

    def compute_util(self, tag: Role) -> float:
        """Share of the last interval that the active instances of a pool had a batch."""
        return self._use.get(tag, 0.0)

    def get_avg_utilization(self) -> float:
        """The same over the active instances of all pools."""
        counts = self.get_instance_feature()
        total = sum(counts[tag] for tag in self._use)
        return sum(self._use[tag] * counts[tag] for tag in self._use) / total if total else 0.0

    def _busy_share(self, tag: Role, seconds: float, so_far: F64) -> float:
        rows = [instance.row for instance in self.application.active(tag)]
        if not rows or seconds <= 0:
            return 0.0
        fleet = self.application.cluster.run.fleet
        shares = [(so_far[row] - self._busy.get(int(fleet[row, c.NUMBER]), 0.0)) / seconds for row in rows]
        return float(min(np.mean(shares), 1.0))

    def _look(self) -> IntervalSeen:
        cluster = self.application.cluster
        run, trace, now = cluster.run, cluster.trace, cluster.now
        seconds = max(now - self._looked, 1e-9)
        come = slice(self._arrived, int(run.tally[c.NEXT_REQUEST]))
        rows = cluster.rows_since(self._rows)
        served = rows[rows[:, c.L_STATUS] == c.COMPLETED]
        slow = slowdowns(cluster, self.application.timings, served)
        so_far, _ = busy_seconds(cluster)
        counts = self.get_instance_feature()
        busy = {tag: self._busy_share(tag, seconds, so_far) for tag in _POOLS if counts[tag]}
        features = np.array(
            [
                _damped((come.stop - come.start) / seconds),
                _damped(float(served[:, c.L_OUTPUT].sum()) / seconds),
                min(_mean(trace.prompt[come]) / _LONGEST_PROMPT, 1.0),
                min(_mean(trace.output[come]) / _LONGEST_OUTPUT, 1.0),
                _damped(self._waiting(c.PREFILL)),
                _damped(self._waiting(c.DECODE)),
                math.tanh(_mean(served[:, c.L_STARTED] - served[:, c.L_ARRIVAL]) / _LONG_WAIT),
                *(counts[tag] / _MOST for tag in _POOLS),
                busy.get("prompt", busy.get("mixed", 0.0)),
                busy.get("token", busy.get("mixed", 0.0)),
                self._memory(),
                self._links(),
                *_percentiles(slow["ttft"], TTFT_LIMITS),
                *_percentiles(slow["tbt"], TBT_LIMITS),
            ],
            dtype=np.float32,
        )
        self._looked, self._rows, self._arrived, self._use = now, cluster.ended, come.stop, busy
        self._busy = dict(zip(run.fleet[:, c.NUMBER].tolist(), so_far.tolist(), strict=True))
        return IntervalSeen(
            features,
            (counts["prompt"], counts["token"], counts["mixed"]),
            tuple(busy.values()),
            self._late(slow["ttft"]),
            _mean(slow["tbt"] > TBT_LIMITS[-1]),
        )

    def _late(self, ended: F64) -> float:
        """Who does not end counts as well: else a queue that grows would look like nothing at all."""
        overdue = int((self._waited() > TTFT_LIMITS[-1]).sum())
        late = int((ended > TTFT_LIMITS[-1]).sum())
        return (late + overdue) / max(ended.size + overdue, 1)

    def _waited(self) -> F64:
        """Slowdowns, so far, of the first tokens that have not come yet."""
        cluster = self.application.cluster
        run = cluster.run
        slots = np.flatnonzero(np.isin(run.slot[:, c.PHASE], (c.AT_ROUTER, c.PREFILL)))
        rows = np.zeros((slots.size, c.ROW))
        rows[:, c.L_ARRIVAL] = run.moment[slots, c.ARRIVED]
        rows[:, c.L_FIRST] = rows[:, c.L_ENDED] = cluster.now
        for column, field in ((c.L_PROMPT, c.PROMPT), (c.L_OUTPUT, c.OUTPUT), (c.L_MODEL, c.MODEL)):
            rows[:, column] = run.slot[slots, field]
        return slowdowns(cluster, self.application.timings, rows)["ttft"]

    def _active_rows(self) -> list[int]:
        return [
            active_instance.row for active_instance in self.application.scaling_manager.get_active_instances()
        ]

    def _waiting(self, phase: int) -> float:
        """Requests on active instances that are in no batch; with prompts, those at the router too."""
        run = self.application.cluster.run
        active = self._active_rows()
        where = c.PROMPT_AT if phase == c.PREFILL else c.TOKEN_AT
        mine = (run.slot[:, c.PHASE] == phase) & np.isin(run.slot[:, where], active)
        in_batches = (
            run.prefilling.size[active].sum() if phase == c.PREFILL else run.fleet[active, c.DECODES].sum()
        )
        at_router = run.routed.size[0] if phase == c.PREFILL else 0
        return float(max(int(mine.sum()) - int(in_batches), 0) + int(at_router))

    def _memory(self) -> float:
        """Of the KV memory of active instances, what is taken."""
        rows = self.application.cluster.run.fleet[self._active_rows()]
        room = (rows[:, c.CAPACITY] - rows[:, c.WEIGHTS]).sum()
        taken = (rows[:, c.MEMORY] - rows[:, c.WEIGHTS]).sum()
        return float(taken / room) if room else 0.0

    def _links(self) -> float:
        """Share of active instances whose link has KV to move now."""
        run, active = self.application.cluster.run, self._active_rows()
        moving = run.slot[run.slot[:, c.PHASE] == c.MOVING]
        at_work = np.union1d(moving[:, c.PROMPT_AT], moving[:, c.TOKEN_AT])
        return float(np.isin(active, at_work).mean()) if active else 0.0


def _damped(value: float) -> float:
    return math.log1p(value) / 10.0


def _mean(values: np.ndarray[tuple[int], np.dtype[np.generic]]) -> float:
    return float(np.asarray(values, dtype=np.float64).mean()) if values.size else 0.0


def _percentiles(values: F64, limits: Sequence[float]) -> list[float]:
    if not values.size:
        return [0.0] * len(limits)
    percentile = np.percentile(values, _SHARES)
    return [math.tanh(float(value) / limit) for value, limit in zip(percentile, limits, strict=True)]
