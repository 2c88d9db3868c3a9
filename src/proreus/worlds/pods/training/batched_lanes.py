"""Many copies of the pods world, stepped together over NumPy arrays.

`BatchedPods` is what a learner trains on, and what a Gymnasium VectorEnv or an SB3 VecEnv wraps. Every
episode differs: its pods are drawn anew from the base workload. Copies never share a handle, so threads
may step them side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from proreus.contract.lanes import Arrays, Choices, Steps
from proreus.kernels.arrays import F32, I64, Bool
from proreus.kernels.jit import compiled
from proreus.kernels.rng import seeded
from proreus.kernels.structs import Handle, pack, private
from proreus.model.errors import IllegalDecision, UsageError, WorkError
from proreus.workers.threads import Threads
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES, VERSION
from proreus.worlds.pods.encoding.rows import copy_rows, new_encoder
from proreus.worlds.pods.policies.scorer import MAY_DELAY, MAY_REJECT, ScorerScratch
from proreus.worlds.pods.simulation.kernel import FINISHED
from proreus.worlds.pods.simulation.world import PodsOptions, new_run
from proreus.worlds.pods.state.compile import Compiled, empty_state, new_scratch
from proreus.worlds.pods.training.base_pods import Reward, base_pods
from proreus.worlds.pods.training.lane_kernel import (
    ENDED,
    ENDED_LENGTH,
    ENDED_RETURN,
    HEADS,
    POD,
    PREEMPTS,
    ROWS,
    PodLane,
    start,
    step,
)
from proreus.worlds.pods.training.rollout import EndedEpisodes, Rollout, play, shared_out, sum_of

# Runs that were saved before there were such arrays go on with those of a new lane: nothing is bound, woken
# or waiting in an order of its own, and no node was paid for, which no reward asks about.
_LATER = ("state.expected", "run.bound", "run.ticket", "run.woken", "run.paid")
# For the cached rows of all lanes together; memory is taken only as classes turn up.
_CACHE_BYTES = 4 << 30
# Between the seeds of two batches: no batch has as many lanes.
LANES_APART = 1_000_003


@dataclass(frozen=True)
class BatchOptions:
    """What the lanes allow and how their pods are drawn."""

    may_delay: bool = False
    """Let the policy delay a pod that a node could take."""
    may_reject: bool = False
    """Let the policy reject a pod that a node could take."""
    redraw: bool = True
    """Draw the pods of every episode anew; otherwise every episode is the base workload itself."""
    world: PodsOptions = field(default_factory=PodsOptions)
    """How the world treats the pods that it cannot place."""
    share: tuple[int, int] = (0, 1)
    """(k, n): only the k-th of n shares of the lanes are here; the others play elsewhere."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where lanes in torch play (`device.lanes`); those of kernels play on the host's cores."""


class BatchedPods:
    """`count` lanes over one workload, or over several in turn (then N is the most nodes of any).

    A lane is what its number and the seed make it, whichever share of the batch is here. Rows [E, N, F] are
    zero where the node is not legal; the actions [E, 2N + 2] are flat numbers in terms of the batch's N.
    """

    encoding = VERSION

    def __init__(
        self,
        compiled_workload: Compiled | Sequence[Compiled],
        count: int,
        seed: int = 0,
        horizon: int = 0,
        reward: Reward = "allocation",
        options: BatchOptions = BatchOptions(),  # noqa: B008 (frozen)
    ) -> None:
        """`horizon`: pods in an episode, 0 for as many as the workload has."""
        several = [compiled_workload] if isinstance(compiled_workload, Compiled) else list(compiled_workload)
        if count < 1 or not several:
            raise UsageError("a batch needs at least one lane and one workload")
        if horizon < 0 or (horizon and not options.redraw):
            raise UsageError("a horizon is a number of pods, and needs pods that are drawn anew")
        self.compiled = tuple(several)
        self.nodes = max(len(each.workload.nodes) for each in several)
        self.reward, self.options = reward, options
        here = shared_out(count, options.share[1])[options.share[0]]
        self._first = here.start
        budget = _CACHE_BYTES // max(len(here), 1)
        self.lanes = tuple(
            _new_lane(
                several[i % len(several)], _Draw(seed * LANES_APART + i, horizon, reward, budget), options
            )
            for i in here
        )
        self._features = np.zeros((len(here), self.nodes, len(PAIR_FEATURES)), dtype=np.float32)
        self._mask = np.zeros((len(here), 2 * self.nodes + 2), dtype=np.bool_)
        self._context = np.zeros((len(here), len(CONTEXT_FEATURES)), dtype=np.float32)

    def __len__(self) -> int:
        return len(self.lanes)

    def reset(self, seed: int | None = None) -> Choices:
        """Every lane at the first choice of a new episode; a seed begins anew what the lanes draw."""
        for i, lane in enumerate(self.lanes, self._first):
            if seed is not None:
                lane.rng[:] = seeded(seed * LANES_APART + i)
            lane.now[POD] = FINISHED
        return self.observe()

    def observe(self) -> Choices:
        """Every lane where it stands; brings new lanes to their first choice."""
        try:
            for i, lane in enumerate(self.lanes):
                start(lane)
                _show(lane, self._features[i], self._mask[i], self._context[i])
        except ValueError as error:
            raise WorkError(str(error)) from error
        return self._choices()

    def step(self, chosen: I64) -> Steps:
        """Carry out actions: int64[E]."""
        rewards, ended = np.zeros(len(self)), np.zeros(len(self), dtype=np.bool_)
        for i in range(len(self)):
            rewards[i], ended[i] = self.step_one(i, int(chosen[i]))
        return Steps(self._choices(), rewards, ended, rewards)

    def reset_some(self, seeds: Mapping[int, int]) -> Choices:
        """Some lanes at the first choice of a new episode, each as the first lane of a batch of its seed."""
        for i, seed in seeds.items():
            self.reset_one(i, seed * LANES_APART)
        return self._choices()

    def reset_one(self, i: int, seed: int) -> None:
        """PodLane i at the first choice of the episode that the seed determines."""
        self.lanes[i].rng[:] = seeded(seed)
        self.lanes[i].now[POD] = FINISHED
        try:
            start(self.lanes[i])
        except ValueError as error:
            raise WorkError(str(error)) from error
        _show(self.lanes[i], self._features[i], self._mask[i], self._context[i])

    def step_one(self, i: int, action: int) -> tuple[float, bool]:
        """(reward, whether the episode ended) of an action of lane i alone."""
        try:
            return _step(self.lanes[i], action, self._features[i], self._mask[i], self._context[i])
        except ValueError as error:
            raise IllegalDecision(f"action {action} of lane {i}: {error}") from error

    def choice_of(self, i: int) -> Choices:
        """What lane i saw last, as that of one lane alone."""
        lane = slice(i, i + 1)
        return Choices(self._features[lane].copy(), self._context[lane].copy(), self._mask[lane].copy())

    def play(
        self, params: F32, rollouts: Sequence[Rollout], works: Sequence[ScorerScratch], threads: Threads
    ) -> EndedEpisodes:
        """Let every lane make its choices with the network and note them; see `rollout.FusedLanes`."""
        return sum_of(self.play_each(params, rollouts, works, threads))

    def play_each(
        self, params: F32, rollouts: Sequence[Rollout], works: Sequence[ScorerScratch], threads: Threads
    ) -> list[EndedEpisodes]:
        """`play`, with what ended in each lane."""

        def task(thread: int, e: int) -> None:
            play(self.lanes[e], rollouts[thread], e, params, works[thread])

        try:
            threads.each(task, len(self))
        except ValueError as error:
            raise WorkError(f"a world cannot go on: {error}") from error
        ended = []
        for lane in self.lanes:
            ended.append(
                EndedEpisodes(
                    int(lane.now[ENDED]), int(lane.now[ENDED_LENGTH]), float(lane.sums[ENDED_RETURN])
                )
            )
            lane.now[ENDED] = lane.now[ENDED_LENGTH] = 0
            lane.sums[ENDED_RETURN] = 0.0
        return ended

    def capture(self) -> Arrays:
        """Everything that changes, by name: restored, the batch goes on as if nothing had happened."""
        return {
            f"lane{i}.{name}": array.copy()
            for i, lane in enumerate(self.lanes, self._first)
            for name, array in _changing(lane)
        }

    def restore(self, saved: Mapping[str, Any]) -> Choices:
        """Take up what `capture` of an equal batch returned."""
        for i, lane in enumerate(self.lanes, self._first):
            for name, array in _changing(lane):
                known = saved.get(f"lane{i}.{name}")
                if known is None and name.startswith(_LATER):
                    continue
                if known is None or known.shape != array.shape:
                    raise WorkError(f"the saved state does not fit: lane {i}, {name}")
                array[...] = known
            lane.encoder.seen[:] = -1
            lane.run.barren[:] = -1
        return self.observe()

    def _choices(self) -> Choices:
        return Choices(self._features.copy(), self._context.copy(), self._mask.copy())


class EpisodeLane:
    """One episode at a time of a batch with a lane per workload: the seed says which of them plays, and draws
    its pods. What is seen after an end is another episode's and counts for nothing."""

    encoding = VERSION

    def __init__(self, batch: BatchedPods) -> None:
        self._batch, self._at = batch, 0

    def __len__(self) -> int:
        return 1

    def reset(self, seed: int) -> Choices:
        """The first choice of the episode that the seed determines."""
        self._at = seed % len(self._batch)
        self._batch.reset_one(self._at, seed)
        return self._batch.choice_of(self._at)

    def step(self, chosen: I64) -> Steps:
        """Carry out a flat action."""
        reward, ended = self._batch.step_one(self._at, int(chosen[0]))
        rewards = np.array([reward])
        return Steps(self._batch.choice_of(self._at), rewards, np.array([ended]), rewards)

    def capture(self) -> Arrays:
        """All lanes as they stand, and which of them plays."""
        return {**self._batch.capture(), "at": np.array([self._at])}

    def restore(self, saved: Mapping[str, Any]) -> Choices:
        """Go on with a captured episode."""
        self._at = int(saved["at"][0])
        self._batch.restore(saved)
        return self._batch.choice_of(self._at)


def _changing(lane: PodLane) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """The arrays of a lane that change; caches are left out, for they are filled again."""
    yield "pod_class", lane.cluster.pod_class
    yield from _arrays("state", lane.state)
    yield from _arrays("run", lane.run)
    for name in ("rng", "now", "sums"):
        yield name, getattr(lane, name)


def _arrays(prefix: str, handle: Any) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    columns = handle.columns
    for name, value in zip(columns._fields, columns, strict=True):
        if isinstance(value, Handle):
            yield from _arrays(f"{prefix}.{name}", value)
        elif name not in ("samples", "heat", "options", "barren", "price"):
            yield f"{prefix}.{name}", value


class _Draw(NamedTuple):
    """How one lane's pods and rewards come about."""

    seed: int
    horizon: int
    reward: Reward
    cache_bytes: int


def _new_lane(compiled_workload: Compiled, draw: _Draw, options: BatchOptions) -> PodLane:
    base = base_pods(compiled_workload, draw.horizon, draw.reward)
    base_class = np.asarray(compiled_workload.cluster.pod_class)
    wanted = base.episode
    cluster = private(compiled_workload.cluster, pod_class=np.resize(base_class, wanted))
    state = empty_state(cluster)
    return pack(
        PodLane(
            cluster=cluster,
            state=state,
            run=new_run(
                compiled_workload,
                options.world,
                float(state.fragment.sum()),
                arrival=np.resize(base.arrival, wanted),
                work=np.resize(base.work, wanted),
            ),
            scratch=new_scratch(cluster),
            encoder=new_encoder(compiled_workload, draw.cache_bytes),
            base_class=base_class.copy(),
            base_work=base.work,
            base_gap=base.gap,
            scale=np.array([base.reward_scale]),
            rng=seeded(draw.seed),
            rules=np.array(
                [
                    MAY_DELAY * options.may_delay + MAY_REJECT * options.may_reject,
                    options.redraw,
                    draw.reward == "completion",
                    base.by_cpu,
                ],
                dtype=np.int64,
            ),
            now=np.array([FINISHED, 0, 0, 0, 0, 0], dtype=np.int64),
            sums=np.zeros(3),
            nodes=np.zeros(len(compiled_workload.workload.nodes), dtype=np.int64),
            context=np.zeros(len(CONTEXT_FEATURES), dtype=np.float32),
        )
    )


@compiled
def _show(lane: PodLane, features: F32, mask: Bool, context: F32) -> None:
    """Fill features: float32[N, F], mask: bool[2N + 2] and context: float32[G] with the choice at hand."""
    rows, heads, most = lane.now[ROWS], lane.rules[HEADS], features.shape[0]
    features[:] = 0.0
    mask[:] = False
    context[:] = lane.context
    c = lane.cluster.pod_class[lane.now[POD]]
    for k in range(rows):
        n = lane.nodes[k]
        copy_rows(lane.encoder, c, lane.nodes[k : k + 1], 1, features[n : n + 1])
        mask[n + (most if lane.now[PREEMPTS] else 0)] = True
    mask[2 * most] = (heads & MAY_DELAY) > 0
    mask[2 * most + 1] = (heads & MAY_REJECT) > 0


@compiled
def _step(lane: PodLane, action: int, features: F32, mask: Bool, context: F32) -> tuple[float, bool]:
    nodes, most = lane.nodes.shape[0], features.shape[0]
    padding = nodes <= action < most or most + nodes <= action < 2 * most
    if action >= 2 * most:
        action += 2 * (nodes - most)
    elif action >= most:
        action += nodes - most
    if padding:
        raise ValueError("the lane has no such node")
    reward, ended = step(lane, action)
    _show(lane, features, mask, context)
    return reward, ended
