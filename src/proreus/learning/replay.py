"""Experience kept for learning later: n-step returns, and replay in proportion to priority.

Priorities are leaves of a sum tree, so that drawing one of a million transitions takes twenty additions.
Reference: Schaul et al., Prioritized Experience Replay (2016).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import F32, F64, I64
from proreus.kernels.jit import compiled

Array: TypeAlias = NDArray[Any]
Observation: TypeAlias = Mapping[str, Array]

_LEAST_PRIORITY = 1e-6  # what is predicted perfectly now may not be later: it can still be drawn
_NOT_PER_TRANSITION = frozenset({"tree", "counts", "largest"})


@dataclass(frozen=True)
class Transition:
    """From an observation, over up to n steps, to the observation that follows them."""

    observation: Observation
    action: int
    reward: float
    """The discounted sum over the steps."""
    following: Observation
    discount: float
    """What the value of `following` counts: discount ** steps, 0 where the episode terminated."""


@dataclass(frozen=True)
class _Step:
    observation: Observation
    action: int
    reward: float


class NStepWindow:
    """Turns the steps of one environment into n-step transitions."""

    def __init__(self, steps: int, discount: float) -> None:
        self._steps = steps
        self._discount = discount
        self._pending: deque[_Step] = deque()

    def push(
        self,
        observation: Observation,
        action: int,
        reward: float,
        following: Observation,
        ends: tuple[bool, bool],
    ) -> list[Transition]:
        """The transitions that this step completes; `ends` = (terminated, truncated).

        At the end of an episode all pending steps are completed, with fewer steps each. A truncated episode
        would have gone on, so its last observation still counts.
        """
        self._pending.append(_Step(observation, action, reward))
        terminated, truncated = ends
        made = []
        if len(self._pending) == self._steps or terminated or truncated:
            made.append(self._oldest(following, terminated))
        while self._pending and (terminated or truncated):
            made.append(self._oldest(following, terminated))
        return made

    def _oldest(self, following: Observation, terminated: bool) -> Transition:
        length = len(self._pending)
        total = discounted_sum([step.reward for step in self._pending], self._discount)
        first = self._pending.popleft()
        onward = 0.0 if terminated else self._discount**length
        return Transition(first.observation, first.action, total, following, onward)


def discounted_sum(rewards: Sequence[float], discount: float) -> float:
    """rewards[0] + discount * rewards[1] + discount^2 * rewards[2] + ..."""
    total = 0.0
    for reward in reversed(rewards):
        total = reward + discount * total
    return total


@dataclass(frozen=True)
class TransitionBatch:
    """Transitions drawn from a replay, as arrays with one row each."""

    places: I64
    """Where they are in the replay: to be given back to `set_priorities`."""
    weights: F32
    """Importance weights, the largest of them 1."""
    observation: dict[str, Array]
    action: I64
    reward: F32
    following: dict[str, Array]
    discount: F32


class PrioritisedReplay:
    """A ring of the latest transitions, drawn in proportion to priority ** exponent."""

    def __init__(self, capacity: int, exponent: float, example: Observation) -> None:
        """`example` is any observation: all that come have arrays of its shapes."""
        self._capacity = capacity
        self._exponent = exponent
        self._leaves = 1 << max(capacity - 1, 1).bit_length()
        self._arrays: dict[str, Array] = {
            "tree": np.zeros(2 * self._leaves),
            "action": np.zeros(capacity, dtype=np.int64),
            "reward": np.zeros(capacity, dtype=np.float32),
            "discount": np.zeros(capacity, dtype=np.float32),
            # Next place to write, how many are held, and the largest priority so far.
            "counts": np.zeros(2, dtype=np.int64),
            "largest": np.ones(1),
        }
        self._names = tuple(sorted(example))
        for name in self._names:
            for side in ("observation", "following"):
                shape = (capacity, *example[name].shape)
                self._arrays[f"{side}.{name}"] = np.zeros(shape, dtype=example[name].dtype)

    def __len__(self) -> int:
        return int(self._arrays["counts"][1])

    def add(self, transition: Transition) -> None:
        """Keep a transition in place of the oldest, with the largest priority: it is to be seen soon."""
        arrays, place = self._arrays, int(self._arrays["counts"][0])
        arrays["action"][place] = transition.action
        arrays["reward"][place] = transition.reward
        arrays["discount"][place] = transition.discount
        for name in self._names:
            arrays[f"observation.{name}"][place] = transition.observation[name]
            arrays[f"following.{name}"][place] = transition.following[name]
        tree_set(arrays["tree"], self._leaves + place, float(arrays["largest"][0]) ** self._exponent)
        arrays["counts"][0] = (place + 1) % self._capacity
        arrays["counts"][1] = min(len(self) + 1, self._capacity)

    def sample(self, size: int, correction: float, random: np.random.Generator) -> TransitionBatch:
        """`size` transitions, one from each of as many equal parts of the priorities' sum.

        `correction` (beta) is how far the importance weights undo the preference: 0 not at all, 1 fully.
        """
        arrays = self._arrays
        places = tree_sample(arrays["tree"], random.random(size)) - self._leaves
        chances = arrays["tree"][self._leaves + places] / arrays["tree"][1]
        weights = (len(self) * chances) ** -correction
        return TransitionBatch(
            places,
            (weights / weights.max()).astype(np.float32),
            {name: arrays[f"observation.{name}"][places] for name in self._names},
            arrays["action"][places],
            arrays["reward"][places],
            {name: arrays[f"following.{name}"][places] for name in self._names},
            arrays["discount"][places],
        )

    def set_priorities(self, places: I64, errors: F64) -> None:
        """Transitions at `places` were wrong by `errors`."""
        priorities = np.abs(errors) + _LEAST_PRIORITY
        tree_set_all(self._arrays["tree"], self._leaves + places, priorities**self._exponent)
        self._arrays["largest"][0] = max(self._arrays["largest"][0], priorities.max(initial=0.0))

    def capture(self) -> dict[str, Array]:
        """Everything in the replay, copied; places never written are left out."""
        return {
            name: (array if name in _NOT_PER_TRANSITION else array[: len(self)]).copy()
            for name, array in self._arrays.items()
        }

    def restore(self, captured: Mapping[str, Array]) -> None:
        """Continue from what `capture` returned."""
        for name, array in self._arrays.items():
            array[: captured[name].shape[0]] = captured[name]


# The tree is an array: node i has the children 2i and 2i + 1, leaves start at half its length, 1 is the root.


@compiled
def tree_set(tree: F64, leaf: int, value: float) -> None:
    """Give a leaf a value; each sum above is computed anew, so that no rounding error builds up."""
    tree[leaf] = value
    node = leaf // 2
    while node >= 1:
        tree[node] = tree[2 * node] + tree[2 * node + 1]
        node //= 2


@compiled
def tree_set_all(tree: F64, leaves: I64, values: F64) -> None:
    """`tree_set` one after the other: of equal leaves the last counts."""
    for i in range(leaves.shape[0]):
        tree_set(tree, leaves[i], values[i])


@compiled
def tree_find(tree: F64, mass: float) -> int:
    """The leaf at which the running sum of the leaves passes `mass`; never one of value 0."""
    node = 1
    half = tree.shape[0] // 2
    while node < half:
        node *= 2
        # Rounding may leave `mass` at or above a sum: an empty right side is never entered.
        if mass >= tree[node] and tree[node + 1] > 0.0:
            mass -= tree[node]
            node += 1
    return node


@compiled
def tree_sample(tree: F64, draws: F64) -> I64:
    """One leaf from each of len(draws) equal parts of the sum; draws: uniform in 0..1."""
    count = draws.shape[0]
    leaves = np.empty(count, dtype=np.int64)
    for i in range(count):
        leaves[i] = tree_find(tree, (i + draws[i]) / count * tree[1])
    return leaves
