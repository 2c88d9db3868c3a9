"""What the lanes of a device played, and the step in which a network plays: nothing of it comes to the host.

Lanes come to their choices when they come to them: a rollout has T steps, and a lane has a choice in most of
them. Row 0 is the choice that was still under way when the rollout before it ended; rows 1 to T were played;
row T + 1 is what the lanes stand at in the end. A reward stands in the row of the choice that it led to.
S = T + 2 rows, E lanes, K actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from proreus.learning.tensor_lanes.cuda_graphs import replayed
from proreus.learning.tensor_lanes.splitmix import ahead, next_unit
from proreus.policies.networks.torch_threads import few_torch_threads


class SeenChoices(Protocol):
    """A named tuple of tensors: what each lane stands at."""

    @property
    def rows(self) -> Tensor:
        """float32[E, R, F]"""
        ...

    @property
    def context(self) -> Tensor:
        """float32[E, G]"""
        ...

    @property
    def ready(self) -> Tensor:
        """bool[E]: there is a choice; else nothing of this means anything."""
        ...

    def __iter__(self) -> Iterator[Tensor]:
        """All of them, in their order."""
        ...


class Told(NamedTuple):
    """What the lanes that came to a choice in this step tell of the one before it."""

    came: Tensor  # bool[E] they came to a choice in this step
    reward: Tensor  # float64[E] to learn from
    ended: Tensor  # bool[E]
    own: Tensor  # float64[E] in the world's own terms


class TensorWorld(Protocol):
    """The rules and the state of all lanes."""

    @property
    def rng(self) -> Tensor:
        """int64[E]: the generator of each lane, where it stays."""
        ...

    def columns(self) -> dict[str, Tensor]:
        """Everything that a step changes, by name."""
        ...

    def look(self) -> Any:
        """What every lane stands at."""
        ...

    def ended_returns(self) -> tuple[int, float]:
        """(episodes that ended since this was asked last, the sum of their returns). Waits for the device."""
        ...

    def step(self, seen: Any, action: Tensor) -> tuple[Any, Told]:
        """One step of all lanes."""
        ...


class TensorLanes(Protocol):
    """Lanes whose choices stay on the device."""

    device: torch.device
    seen: Any
    """`SeenChoices`, ready or not."""

    @property
    def world(self) -> TensorWorld:
        """What is stepped."""
        ...

    def __len__(self) -> int:
        """E."""
        ...


class Judged(NamedTuple):
    """What a network makes of the choices."""

    allowed: Tensor  # bool[E, K]; all where there is no choice, so that nothing is undefined
    logs: Tensor  # float32[E, K] logarithms of the chances
    value: Tensor  # float64[E] in the terms of rewards


class Drawn(NamedTuple):
    """What a network makes of the choices, and what is chosen."""

    judged: Judged
    action: Tensor  # int64[E]
    log_chance: Tensor  # float32[E] logarithm of the chance that it had


def drawn(judged: Judged, unit: Tensor) -> Drawn:
    """An action of each lane by its chances; unit: float64[E], from 0 to just below 1."""
    allowed, logs = judged.allowed, judged.logs
    places = torch.arange(allowed.shape[1], device=unit.device)
    passed = torch.cumsum(logs.exp().double(), 1) <= unit[:, None]
    last = torch.where(allowed, places, 0).amax(1)
    action = torch.minimum(passed.sum(1), last)
    return Drawn(judged, action, logs.gather(1, action[:, None])[:, 0])


@runtime_checkable
class DrawingJudge(Protocol):
    """What judges choices, and can draw actions in the same go."""

    def __call__(self, seen: Any) -> Judged: ...

    def draw(self, seen: Any, unit: Tensor) -> Drawn:
        """unit: float64[E], from 0 to just below 1."""
        ...


@dataclass(eq=False)
class DeviceRollout:
    """[S, E, ..] each."""

    rows: Tensor  # float32[S, E, R, F]
    context: Tensor  # float32[S, E, G]
    allowed: Tensor  # bool[S, E, K]; all where there is no choice, so that nothing is undefined
    action: Tensor  # int64
    log_chance: Tensor  # float32
    value: Tensor  # float64, in the terms of rewards
    chose: Tensor  # bool: there was a choice
    reward: Tensor  # float64: since the choice before
    ended: Tensor  # bool: since the choice before

    def columns(self) -> dict[str, Tensor]:
        """All of them by name."""
        return {column.name: getattr(self, column.name) for column in fields(self)}


def new_rollout(lanes: TensorLanes, steps: int, actions: int) -> DeviceRollout:
    """Room for so many steps, with so many actions to choose from."""
    seen, device = lanes.seen, lanes.device
    wide = (steps + 2, len(lanes))
    return DeviceRollout(
        rows=torch.zeros((*wide, *seen.rows.shape[1:]), device=device),
        context=torch.zeros((*wide, seen.context.shape[1]), device=device),
        allowed=torch.ones((*wide, actions), dtype=torch.bool, device=device),
        action=torch.zeros(wide, dtype=torch.int64, device=device),
        log_chance=torch.zeros(wide, device=device),
        value=torch.zeros(wide, dtype=torch.float64, device=device),
        chose=torch.zeros(wide, dtype=torch.bool, device=device),
        reward=torch.zeros(wide, dtype=torch.float64, device=device),
        ended=torch.zeros(wide, dtype=torch.bool, device=device),
    )


class DevicePlayer:
    """Plays the lanes with a network, step after step, and notes what happens."""

    def __init__(self, lanes: TensorLanes, judge: Callable[[Any], Judged] | DrawingJudge, steps: int) -> None:
        """judge: what the network makes of what is seen; a `DrawingJudge` draws actions, too."""
        self._lanes, self._judge, self._steps = lanes, judge, steps
        seen = lanes.seen
        self._seen = type(seen)(*(tensor.clone() for tensor in seen))
        with torch.no_grad():
            actions = judge(self._seen).allowed.shape[1]
        self.rollout = new_rollout(lanes, steps, actions)
        self._row = torch.ones(1, dtype=torch.int64, device=lanes.device)
        noted = self.rollout.columns().values()
        kept = [*lanes.world.columns().values(), *self._seen, self._row, *noted]
        self._play_step = replayed(self.play_step, kept, lanes.device)
        self._look = replayed(self._look_last, kept, lanes.device)

    @torch.no_grad()
    @few_torch_threads()
    def play(self) -> DeviceRollout:
        """One rollout of every lane."""
        self._carry()
        self.rewind()
        for _ in range(self._steps):
            self._play_step()
        self._look()
        self._lanes.seen = self._seen
        return self.rollout

    def rewind(self) -> None:
        """The next step is the first of a rollout."""
        self._row.fill_(1)

    def restart(self) -> None:
        """Take up what the lanes stand at, which somebody else has moved; nothing is under way."""
        for mine, theirs in zip(self._seen, self._lanes.world.look(), strict=True):
            mine.copy_(theirs)
        self.rollout.chose.zero_()

    def _carry(self) -> None:
        """The last choice of each lane, where it was carried out and has not led to another, to row 0."""
        rollout = self.rollout
        rows = torch.arange(self._steps + 2, device=self._row.device)[:, None]
        last = torch.where(rollout.chose, rows, -1).amax(0)
        under_way = (last >= 0) & (last <= self._steps)
        place = last.clamp(min=0)
        lanes = torch.arange(place.shape[0], device=place.device)
        for column in rollout.columns().values():
            column[0] = column[place, lanes]
        rollout.chose[0] = under_way
        rollout.allowed[0] |= ~under_way[:, None]

    @torch.no_grad()
    def play_step(self) -> None:
        """Choose in every lane that has a choice, carry it out, look again."""
        world, seen, row = self._lanes.world, self._seen, self._row
        world.rng.copy_(torch.where(seen.ready, ahead(world.rng, 1), world.rng))
        unit, judge = next_unit(world.rng), self._judge
        if isinstance(judge, DrawingJudge):
            judged, action, log_chance = judge.draw(seen, unit)
        else:
            judged, action, log_chance = drawn(judge(seen), unit)
        self._note(seen, judged, row)
        self.rollout.action.index_copy_(0, row, action[None])
        self.rollout.log_chance.index_copy_(0, row, log_chance[None])
        now, told = world.step(seen, action)
        for mine, new in zip(self._seen, now, strict=True):
            if new is not mine:
                mine.copy_(new)
        row.add_(1)
        self.rollout.reward.index_copy_(0, row, told.reward[None])
        self.rollout.ended.index_copy_(0, row, told.ended[None])

    @torch.no_grad()
    def _look_last(self) -> None:
        """Note what the lanes stand at after the last step."""
        self._note(self._seen, self._judge(self._seen), self._row)

    def _note(self, seen: SeenChoices, judged: Judged, row: Tensor) -> None:
        rollout = self.rollout
        rollout.rows.index_copy_(0, row, seen.rows[None])
        rollout.context.index_copy_(0, row, seen.context[None])
        rollout.allowed.index_copy_(0, row, judged.allowed[None])
        rollout.value.index_copy_(0, row, judged.value[None])
        rollout.chose.index_copy_(0, row, seen.ready[None])
