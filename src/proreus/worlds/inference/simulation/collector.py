"""The state collector of a simulation: what a controller sees, from the columns of a run."""

from __future__ import annotations

from collections import deque

import numpy as np

from proreus.kernels.arrays import F64
from proreus.worlds.inference.model.cluster import ROLES, InstanceKind, Role
from proreus.worlds.inference.model.decision import ScaleSteps
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import TWO_POOLS, InferenceCluster
from proreus.worlds.inference.simulation.cost import busy_seconds
from proreus.worlds.inference.simulation.model_loads import abilities_by_model, models_of
from proreus.worlds.inference.simulation.options import ControlOptions
from proreus.worlds.inference.state.live_collector import HISTORY
from proreus.worlds.inference.state.observation import Ability, InferenceObservation, PoolSeen, Traffic

_LATE = 0.9


class Collector:
    """Looks at a cluster every interval."""

    def __init__(self, cluster: InferenceCluster, options: ControlOptions) -> None:
        self._cluster, self._options = cluster, options
        self.roles: tuple[Role, ...] = (
            ("prompt", "token") if cluster.spec.scheduler in TWO_POOLS else ("mixed",)
        )
        self.steps = ScaleSteps(self.roles, options.scale_step, options.migrate_step)
        self._kinds = {group.role: group.kind for group in reversed(cluster.spec.groups)}
        self.abilities = tuple(self._ability(role) for role in self.roles)
        self._history: deque[tuple[float, float, float]] = deque(maxlen=HISTORY)
        self._busy: dict[int, float] = {}
        self._rows_seen = 0
        self.ended: tuple[F64, F64] = (np.zeros((0, c.ROW)), np.zeros(0))
        """Rows of the requests that ended between the last two looks, and whether promises were kept."""

    def _kind(self, role: Role) -> InstanceKind:
        name = self._kinds.get(role, self._cluster.spec.kinds[0].name)
        return next(kind for kind in self._cluster.spec.kinds if kind.name == name)

    def start_seconds(self) -> float:
        """Of the kind that takes longest."""
        return max(self._options.start.seconds(self._kind(role)) for role in self.roles)

    def _ability(self, role: Role) -> Ability:
        """Of an instance of a pool; of several models what each can do, by their shares of the tokens."""
        trace, abilities = self._cluster.trace, abilities_by_model(self._cluster, role)
        if len(abilities) == 1:
            return abilities[0]
        prompts = np.bincount(trace.model, trace.prompt, len(abilities)) / trace.prompt.sum()
        outputs = np.bincount(trace.model, trace.output, len(abilities)) / trace.output.sum()
        return Ability(
            1.0 / sum(share / one.prompt_tokens for share, one in zip(prompts, abilities, strict=True)),
            1.0 / sum(share / one.output_tokens for share, one in zip(outputs, abilities, strict=True)),
            sum(share * one.kv_tokens for share, one in zip(outputs, abilities, strict=True)),
        )

    def look(self) -> InferenceObservation:
        """The cluster now; what happened since the last look is forgotten by the next."""
        cluster, options = self._cluster, self._options
        traffic = self._traffic()
        self._history.append((traffic.requests, traffic.prompt_tokens, traffic.output_tokens))
        pools = tuple(self._pool(role) for role in self.roles)
        fleet = cluster.run.fleet
        busy, _ = busy_seconds(cluster)
        self._busy = dict(zip(fleet[:, c.NUMBER].tolist(), busy.tolist(), strict=True))
        cluster.run.counts[:] = 0.0
        alive = (fleet[:, c.STATUS] != c.ABSENT) & (fleet[:, c.STATUS] != c.STOPPED)
        return InferenceObservation(
            now=cluster.now,
            interval=options.interval,
            pools=pools,
            traffic=traffic,
            history=np.array(self._history),
            at_router=int(cluster.run.routed.size[0]),
            total=int(alive.sum()),
            limits=options.limits,
            start_seconds=self.start_seconds(),
            abilities=self.abilities,
            steps=self.steps,
            life_seconds=options.spot_seconds,
            models=models_of(cluster),
            future=self._future,
        )

    def _future(self, begin: float, until: float) -> tuple[float, float, float]:
        trace = self._cluster.trace
        first, last = np.searchsorted(trace.arrival, [begin, until])
        seconds = max(until - begin, 1e-9)
        prompt, output = trace.prompt[first:last].sum(), trace.output[first:last].sum()
        return float(last - first) / seconds, float(prompt) / seconds, float(output) / seconds

    def _pool(self, role: Role) -> PoolSeen:
        run, now = self._cluster.run, self._cluster.now
        fleet, figure = run.fleet, run.figure
        mine = fleet[:, c.TAG] == ROLES.index(role)
        active = np.flatnonzero(mine & (fleet[:, c.STATUS] == c.ACTIVE))
        starting = np.flatnonzero(mine & np.isin(fleet[:, c.STATUS], (c.PROVISIONING, c.LOADING, c.WARMING)))
        kv = (fleet[active, c.MEMORY] - fleet[active, c.WEIGHTS]).sum()
        room = (fleet[active, c.CAPACITY] - fleet[active, c.WEIGHTS]).sum()
        so_far, _ = busy_seconds(self._cluster)
        busy = [
            self._busy_since(row, so_far)
            / max(min(self._options.interval, now - figure[row, c.ACTIVE_AT]), 1e-9)
            for row in active.tolist()
        ]
        return PoolSeen(
            role=role,
            active=len(active),
            starting=tuple(sorted(self._still_needs(row) for row in starting.tolist())),
            draining=int((mine & (fleet[:, c.STATUS] == c.DRAINING)).sum()),
            waiting=int(run.waiting.size[active].sum() + run.inbound.size[active].sum()),
            running=int(fleet[active, c.BATCH].sum()),
            pending_tokens=int(fleet[active, c.PLANNED_TOKENS].sum()),
            kv_use=float(kv / room) if room else 0.0,
            busy=min(float(np.mean(busy)), 1.0) if busy else 0.0,
        )

    def _busy_since(self, row: int, so_far: F64) -> float:
        """Seconds with a batch since the last look."""
        number = int(self._cluster.run.fleet[row, c.NUMBER])
        return float(so_far[row]) - self._busy.get(number, 0.0)

    def _still_needs(self, row: int) -> float:
        run = self._cluster.run
        status, figure = run.fleet[row, c.STATUS], run.figure[row]
        left = run.event_at[len(run.fleet) + row] - self._cluster.now
        if status == c.PROVISIONING:
            left += figure[c.LOADING_SECONDS]
        return float(left + (figure[c.WARMING_SECONDS] if status != c.WARMING else 0.0))

    def _traffic(self) -> Traffic:
        counts, seconds = self._cluster.run.counts, self._options.interval
        rows = self._cluster.rows_since(self._rows_seen)
        self._rows_seen += len(rows)
        met, ttft, tbt = promises(rows, self._options)
        self.ended = rows, met
        served = rows[:, c.L_STATUS] == c.COMPLETED if len(rows) else np.zeros(0, dtype=np.bool_)
        return Traffic(
            requests=float(counts[c.W_ARRIVED]) / seconds,
            prompt_tokens=float(counts[c.W_PROMPT_TOKENS]) / seconds,
            output_tokens=float(counts[c.W_OUTPUT_TOKENS]) / seconds,
            ended=len(rows),
            ttft=float(counts[c.W_TTFT] / max(counts[c.W_FIRST_TOKENS], 1)),
            wait=float(counts[c.W_WAIT] / max(counts[c.W_STARTED], 1)),
            met=float(met.mean()) if len(rows) else 1.0,
            ttft_slack=late(ttft[served]),
            tbt_slack=late(tbt[served]),
            found=float(rows[:, c.L_FOUND].sum() / max(rows[:, c.L_PROMPT].sum(), 1.0)) if len(rows) else 0.0,
        )


def late(values: F64) -> float:
    """The 90th percentile, to the last digit that of `np.percentile`; 0 of nothing.

    It is told at every decision of every run, and numpy's takes ten times as long for a few hundred values.
    """
    if not values.size:
        return 0.0
    place = (values.size - 1) * _LATE
    below = int(place)
    above = min(below + 1, values.size - 1)
    parted = np.partition(values, (below, above))
    low, high, share = float(parted[below]), float(parted[above]), place - below
    if share < 0.5:  # the same rounding as numpy's, from the nearer end
        return low + (high - low) * share
    return high - (high - low) * (1.0 - share)


def promises(rows: F64, options: ControlOptions) -> tuple[F64, F64, F64]:
    """[rows] (whether promises were kept; TTFT and TBT in what was promised)."""
    classes = rows[:, c.L_SERVICE].astype(np.int64)
    ttft_limit = np.array([class_.ttft for class_ in options.classes])[classes]
    tbt_limit = np.array([class_.tbt for class_ in options.classes])[classes]
    ttft = (rows[:, c.L_FIRST] - rows[:, c.L_ARRIVAL]) / ttft_limit
    gaps = np.maximum(rows[:, c.L_OUTPUT] - 1, 1)
    tbt = (rows[:, c.L_ENDED] - rows[:, c.L_FIRST]) / gaps / tbt_limit
    met = (rows[:, c.L_STATUS] == c.COMPLETED) & (ttft <= 1.0) & (tbt <= 1.0)
    return met.astype(np.float64), ttft, tbt
