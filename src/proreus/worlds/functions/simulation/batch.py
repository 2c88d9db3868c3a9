"""Many runs stepped together, each from a pool of episodes; whoever is over begins the next by itself.

`EpisodeBatch.step` shows the document's observation and the legal nodes: one kernel call a step,
nothing copied. `encoded` shows the same runs as rows for networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F32, F64, I64, U8, U64, Bool
from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_below
from proreus.kernels.structs import lent, pack, packable
from proreus.model.errors import IllegalDecision, InputError, UsageError
from proreus.worlds.functions.encoding.document import even, largest, length_of, observe
from proreus.worlds.functions.encoding.rows import SIZES, encode, rows_for
from proreus.worlds.functions.model import KEEPS
from proreus.worlds.functions.simulation.kernel import begin, put
from proreus.worlds.functions.simulation.rewards import Reward, rewarded
from proreus.worlds.functions.state.columns import KIND, OVER, PLACING, SUBJECT, FunctionsWork, Runs
from proreus.worlds.functions.state.compile import new_runs
from proreus.worlds.functions.state.instances import fits, may_wait

_TRIES = 1_000
_LANES_APART = 1_000_003


@packable
class BatchScreen(NamedTuple):
    """What the kernel shows of the lanes."""

    rng: U64  # [L, 1] draws episodes
    weights: F64  # [4] of the reward
    waits: I64  # [1] 1 where waiting is an action
    most: F64  # [5] of an even observation; [0]: amounts stay as they are
    observed: F32  # [L, D]
    legal: U8  # [L, K]
    rewards: F64  # [L]
    ended: Bool  # [L]


class BatchSteps(NamedTuple):
    """Every lane at its decision, and what came of the actions that led there; overwritten by the next."""

    observed: F32  # [L, D]
    legal: Bool  # [L, K] of the nodes, of waiting, of the times to keep an instance
    rewards: F64  # [L]
    ended: Bool  # [L] what is observed is then the next episode's beginning


class EpisodeBatch:
    """`lanes` runs over a pool of episodes."""

    def __init__(
        self,
        work: FunctionsWork,
        lanes: int,
        kinds: int = 5,
        *,
        reward: Reward | None = None,
        shares: bool = True,
        waits: bool = True,
    ) -> None:
        """`kinds` of function that observations tell apart; `shares`: they are from 0 to 1."""
        if lanes < 1 or kinds < 1:
            raise UsageError("a batch needs at least one lane and one kind of function")
        nodes = work.price.size
        self.work, self.runs = work, new_runs(work, lanes, logged=False)
        chosen = reward or Reward(worth=1.0)
        self._screen = BatchScreen(
            rng=np.zeros((lanes, 1), dtype=np.uint64),
            weights=chosen.weights,
            waits=np.array([waits], dtype=np.int64),
            most=largest(work) if shares else np.zeros(0),
            observed=np.zeros((lanes, length_of(nodes, kinds)), dtype=np.float32),
            legal=np.zeros((lanes, nodes + 1 + len(KEEPS)), dtype=np.uint8),
            rewards=np.zeros(lanes),
            ended=np.zeros(lanes, dtype=np.bool_),
        )
        self._handle = pack(self._screen)
        screen = self._screen
        self._steps = BatchSteps(screen.observed, screen.legal.view(np.bool_), screen.rewards, screen.ended)

    def __len__(self) -> int:
        return self._screen.rewards.size

    def reset(self, seed: int) -> BatchSteps:
        """The first episode of every lane."""
        return self.begin_some(range(len(self)), [seed + _LANES_APART * lane for lane in range(len(self))])

    def begin_some(self, lanes: Sequence[int], seeds: Sequence[int]) -> BatchSteps:
        """The first episode of some lanes."""
        for lane, seed in zip(lanes, seeds, strict=True):
            self._screen.rng[lane, 0] = np.uint64(seed % 2**64)
            if not start_lane(self.work, self.runs, self._handle, lane):
                raise UsageError(f"none of {_TRIES} episodes leads to a decision")
            show(self.work, self.runs, self._handle, lane)
        return self._steps

    def step(self, actions: I64) -> BatchSteps:
        """One action in every lane; an illegal one changes nothing in any."""
        chosen = np.ascontiguousarray(actions, dtype=np.int64)
        if chosen.shape != (len(self),):
            raise UsageError(f"{chosen.shape} actions for {len(self)} lanes")
        refused = step_all(self.work, self.runs, self._handle, chosen)
        if refused >= 0:
            raise IllegalDecision(f"lane {refused}: action {chosen[refused]} is not legal")
        return self._steps

    def encoded(self) -> tuple[F32, F32]:
        """(rows [L, R, F], context [L, G]) of the decisions at hand."""
        count = rows_for(self.work.price.size)
        rows = np.zeros((len(self), count, SIZES[0]), dtype=np.float32)
        context = np.zeros((len(self), SIZES[1]), dtype=np.float32)
        encode_all(self.work, self.runs, rows, context, np.zeros(count, dtype=np.uint8))
        return rows, context

    def capture(self) -> Arrays:
        """All that it takes to go on later as if nothing had happened, copied."""
        return {name: array.copy() for name, array in self._changing().items()}

    def restore(self, saved: Mapping[str, Any]) -> BatchSteps:
        """Take up what `capture` of an equal batch returned."""
        for name, array in self._changing().items():
            if name not in saved or saved[name].shape != array.shape:
                raise InputError(f"the saved runs of functions do not fit: {name}")
            array[...] = saved[name]
        for lane in range(len(self)):
            show(self.work, self.runs, self._handle, lane)
        return self._steps

    def _changing(self) -> Arrays:
        runs: Any = self.runs
        return {name: getattr(runs, name) for name in Runs._fields} | {"rng": self._screen.rng}


@compiled
def start_lane(work: FunctionsWork, runs: Runs, screen: BatchScreen, lane: int) -> bool:
    """An episode that the lane draws; one without a decision teaches nothing, and another one is drawn."""
    for _ in range(_TRIES):
        begin(work, runs, lane, next_below(screen.rng[lane], work.horizon.size))
        if runs.tally[lane, KIND] != OVER:
            return True
    return False


@compiled
def show(work: FunctionsWork, runs: Runs, screen: BatchScreen, lane: int) -> None:
    """The decision at hand: what is observed and what is legal."""
    observe(work, runs, lane, screen.observed[lane])
    if screen.most.size:
        even(work, screen.most, screen.observed[lane])
    nodes = work.price.size
    placing = runs.tally[lane, KIND] == PLACING
    for action in range(screen.legal.shape[1]):
        screen.legal[lane, action] = not placing and action > nodes
    if placing:
        function = runs.tally[lane, SUBJECT]
        for node in range(nodes):
            screen.legal[lane, node] = fits(work, runs, lane, function, node)
        screen.legal[lane, nodes] = screen.waits[0] and may_wait(runs, lane, function)


@compiled
def step_all(work: FunctionsWork, runs: Runs, screen: BatchScreen, actions: I64) -> int:
    """Step every lane; the first lane whose action is not legal, before anything is done, or -1."""
    work, runs, screen = lent(work), lent(runs), lent(screen)
    most = screen.legal.shape[1]
    for lane in range(actions.size):
        if not (0 <= actions[lane] < most and screen.legal[lane, actions[lane]]):
            return lane
    for lane in range(actions.size):
        put(work, runs, lane, actions[lane])
        screen.rewards[lane] = rewarded(work, runs, lane, screen.weights)
        over = runs.tally[lane, KIND] == OVER
        screen.ended[lane] = over
        if over:
            start_lane(work, runs, screen, lane)
        show(work, runs, screen, lane)
    return -1


@compiled
def encode_all(work: FunctionsWork, runs: Runs, rows: F32, context: F32, legal: U8) -> None:
    """The rows of every lane."""
    for lane in range(rows.shape[0]):
        encode(work, runs, lane, rows[lane], context[lane], legal)
