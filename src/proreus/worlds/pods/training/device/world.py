"""All lanes on the device: the rules, the state, and the step over both."""

from __future__ import annotations

from torch import Tensor

from proreus.learning.tensor_lanes.rollout import Told
from proreus.model.errors import WorkError
from proreus.worlds.pods.training.device.columns import NEW_EPISODE, LaneState, new_state
from proreus.worlds.pods.training.device.events import LaneRules
from proreus.worlds.pods.training.device.step import Seen, look, step
from proreus.worlds.pods.training.device.tables import Tables

EVENTS = 2
"""Events of a lane between two looks: more lanes come to a choice in a step, and a step takes longer."""
_MOST_EMPTY = 100


class DeviceWorld:
    """All lanes on the device: the rules, the state, and the step over both."""

    def __init__(self, tables: Tables, rules: LaneRules, rng: Tensor, events: int = EVENTS) -> None:
        self.tables, self.rules, self.events = tables, rules, events
        self.state: LaneState = new_state(tables, rng, self.room(tables))
        self.nodes = tables.lanes.allocatable.shape[1]

    @staticmethod
    def room(tables: Tables) -> int:
        """For how many pods of a lane; 0: for those that there are."""
        del tables
        return 0

    def least_bytes(self, seen: Seen) -> int:
        """What kernels of a step pass over at least; 0: there are only operations, which can be counted."""
        del seen
        return 0

    @property
    def rng(self) -> Tensor:
        """int64[E]"""
        return self.state.lanes.rng

    def columns(self) -> dict[str, Tensor]:
        """Everything that changes, by name."""
        return self.state.named()

    def look(self) -> Seen:
        """What every lane stands at."""
        return look(self.tables, self.rules, self.state)

    def step(self, seen: Seen, action: Tensor) -> tuple[Seen, Told]:
        """One step of all lanes; see `step.step`."""
        return step(self.tables, self.rules, self.state, seen, action, self.events)

    def ended_returns(self) -> tuple[int, float]:
        """(episodes that ended since this was asked last, the sum of their returns). Waits for the device."""
        lanes = self.state.lanes
        ended = int(lanes.ended_episodes.sum()), float(lanes.ended_total.sum())
        lanes.ended_episodes.zero_()
        lanes.ended_total.zero_()
        return ended

    def begin_anew(self) -> None:
        """Every lane before the first choice of a new episode."""
        lanes = self.state.lanes
        lanes.phase.fill_(NEW_EPISODE)
        lanes.reward.zero_()
        lanes.ended.zero_()

    def check(self) -> None:
        """Refuse to go on where no episode leaves anything to choose. Waits for the device."""
        if bool((self.state.lanes.empty > _MOST_EMPTY).any()):
            raise WorkError("a world cannot go on: no episode leaves anything to choose")
