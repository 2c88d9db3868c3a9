"""What a request must satisfy before anything is decided or logged. Every refusal names field and index.

Both doors hand over arrays; that the numbers *are* numbers their decoders have seen to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import F64, I64, Bool
from proreus.kernels.jit import compiled
from proreus.model.errors import UsageError
from proreus.serving.messages import invalid


@dataclass(frozen=True)
class Dimensions:
    """The size of states and actions, which is that of the cluster: n nodes, 2n + 2 actions."""

    state: int
    actions: int

    def __post_init__(self) -> None:
        if self.actions < 4 or self.actions % 2:
            raise UsageError(
                f"--action_dim {self.actions} is not 2n + 2 for a number of nodes n (place on each node, "
                "preempt on each node, delay, reject)"
            )
        if self.state not in self.lengths:
            raise UsageError(
                f"--state_dim {self.state} does not fit --action_dim {self.actions}: "
                f"{self.nodes} nodes have states of {self.lengths[0]} or {self.lengths[1]} numbers"
            )

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return (self.actions - 2) // 2

    @property
    def lengths(self) -> tuple[int, int]:
        """How long a state may be: without and with the task's own demand."""
        return 2 * self.nodes, 2 * self.nodes + 2


@compiled
def first_not_finite(values: F64) -> int:
    """values: [any]. The index of the first NaN or infinity, -1 where there is none."""
    for i in range(values.shape[0]):
        if not np.isfinite(values[i]):
            return i
    return -1


def check_state(state: F64, dimensions: Dimensions) -> None:
    """One state: its length, and that it is made of finite numbers."""
    short, long = dimensions.lengths
    if state.shape[0] != short and state.shape[0] != long:
        raise invalid("state", _length(state.shape[0], dimensions))
    bad = first_not_finite(state)
    if bad >= 0:
        raise invalid(f"state[{bad}]", f"{state[bad]} is not a finite number")


def check_states(states: Sequence[Sequence[float]], dimensions: Dimensions) -> list[F64]:
    """States of a sequence, each of either length."""
    checked = []
    for index, numbers in enumerate(states):
        if len(numbers) not in dimensions.lengths:
            raise invalid(f"states[{index}]", _length(len(numbers), dimensions))
        state = np.array(numbers, dtype=np.float64)
        bad = first_not_finite(state)
        if bad >= 0:
            raise invalid(f"states[{index}][{bad}]", f"{state[bad]} is not a finite number")
        checked.append(state)
    return checked


def check_block(states: F64, dimensions: Dimensions) -> None:
    """states: [B, S], a batch that came as one block."""
    if states.shape[1] not in dimensions.lengths:
        raise invalid("states[0]", _length(states.shape[1], dimensions))
    bad = first_not_finite(states.reshape(-1))
    if bad >= 0:
        row, column = divmod(bad, states.shape[1])
        raise invalid(f"states[{row}][{column}]", f"{states[row, column]} is not a finite number")


def as_block(states: Sequence[Sequence[float]], dimensions: Dimensions) -> F64:
    """The states of a batch as one block; all must have the length of the first."""
    if not states:
        raise invalid("states", "is empty")
    width = len(states[0])
    if width not in dimensions.lengths:
        raise invalid("states[0]", _length(width, dimensions))
    # Row by row: one conversion of them all would hold up every other thread.
    block = np.empty((len(states), width))
    for index, numbers in enumerate(states):
        if len(numbers) != width:
            raise invalid(f"states[{index}]", f"has {len(numbers)} numbers, the first state has {width}")
        block[index] = numbers
    return block


def as_masks(masks: Sequence[Sequence[bool]] | None, count: int, dimensions: Dimensions) -> Bool | None:
    """The masks of a batch as one block."""
    if masks is None:
        return None
    if len(masks) != count:
        raise invalid("masks", f"has {len(masks)} masks for {count} states")
    block = np.empty((count, dimensions.actions), dtype=np.bool_)
    for index, mask in enumerate(masks):
        block[index] = as_mask(mask, dimensions, f"masks[{index}]")
    return block


def as_mask(mask: Sequence[bool], dimensions: Dimensions, field: str = "mask") -> Bool:
    """A mask as an array: one entry per action, one of them allowed at least."""
    if len(mask) != dimensions.actions:
        raise invalid(field, f"has {len(mask)} entries, there are {dimensions.actions} actions")
    allowed = np.array(mask, dtype=np.bool_)
    if not allowed.any():
        raise invalid(field, "allows no action")
    return allowed


def check_top_k(top_k: int, dimensions: Dimensions) -> None:
    """How many alternatives were asked for."""
    if not 1 <= top_k <= dimensions.actions:
        raise invalid("top_k", f"{top_k} is outside 1..{dimensions.actions}")


def check_actions(actions: Sequence[int], dimensions: Dimensions) -> I64:
    """The actions of a sequence of steps."""
    for index, action in enumerate(actions):
        if not 0 <= action < dimensions.actions:
            raise invalid(f"actions[{index}]", f"{action} is outside 0..{dimensions.actions - 1}")
    return np.array(actions, dtype=np.int64)


def check_numbers(values: Sequence[float], field: str, between: tuple[float, float]) -> F64:
    """Finite numbers, none outside of the two."""
    checked = np.array(values, dtype=np.float64)
    bad = first_not_finite(checked)
    if bad >= 0:
        raise invalid(f"{field}[{bad}]", f"{checked[bad]} is not a finite number")
    least, most = between
    outside = (checked < least) | (checked > most)
    if outside.any():
        bad = int(np.argmax(outside))
        where = f"above {most:g}" if checked[bad] > most else f"below {least:g}"
        raise invalid(f"{field}[{bad}]", f"{checked[bad]} is {where}")
    return checked


def _length(found: int, dimensions: Dimensions) -> str:
    short, long = dimensions.lengths
    return f"has {found} numbers; {dimensions.nodes} nodes have {short}, or {long} with the task's demand"
