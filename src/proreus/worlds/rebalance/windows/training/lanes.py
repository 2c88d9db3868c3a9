"""Many runs over windows stepped together: what learners train on, and what vector environments are made of.

A lane plays stretches of the windows of one deployment after the other, drawn from a pool. An action is a row
of what it is shown: every move and the stop, as in `DeployEnv`; or what a scorer offers (`encoding.offers`).
A step is worth what `DeployEnv` says; or what it saves beside the balance rule, which plays the same windows
in the lane's shadow: whatever the windows bring, they bring it to both, and what is left is due to the moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba.typed import List

from proreus.contract.lanes import Arrays, Choices, Steps
from proreus.contract.scenario import Part
from proreus.data.catalogue import data_dir
from proreus.kernels.arrays import F32, F64, I64, U64, Bool
from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_below
from proreus.kernels.structs import pack, packable
from proreus.model.errors import IllegalDecision, InputError, UsageError
from proreus.worlds.rebalance.windows.encoding import offers
from proreus.worlds.rebalance.windows.encoding.figures import FIGURES, fill_figures
from proreus.worlds.rebalance.windows.encoding.moves import FEATURES, encode_move, fill_squares
from proreus.worlds.rebalance.windows.encoding.moves import VERSION as MOVES_VERSION
from proreus.worlds.rebalance.windows.encoding.offers import CHOICES, fill_offers
from proreus.worlds.rebalance.windows.model import PARTS, part_of_windows
from proreus.worlds.rebalance.windows.policies.columns import BALANCE, MoveRule
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy
from proreus.worlds.rebalance.windows.policies.rules import choose_move
from proreus.worlds.rebalance.windows.scenarios import WindowScenario, needs_data, parse_window_scenario
from proreus.worlds.rebalance.windows.simulation import columns as c
from proreus.worlds.rebalance.windows.simulation.columns import RequestStream, WindowsColumns
from proreus.worlds.rebalance.windows.simulation.kernel import begin_run, close_window, migrate
from proreus.worlds.rebalance.windows.simulation.world import WindowsWorld
from proreus.worlds.rebalance.windows.state import Hosting, legal_moves

_LANES_APART = 1_000_003
_CHANGING = ("where", "pods", "forecast", "load", "moved", "tally")
"""Of a hosting, what a run changes."""
UNIT = 10.0
"""Percent of the requests that are worth 1 in training."""


@dataclass(frozen=True)
class LaneSettings:
    """Which windows the lanes play, what they show and what a step is worth."""

    part: Part = "train"
    """The part of the windows in which episodes lie."""
    horizon: int = 36
    """Windows of an episode."""
    offering: F64 | None = None
    """[features] of the scorer that offers moves; None: every move is a row."""
    price: float | None = None
    """What a migration costs where a step is worth what it saves beside the balance rule: 1 is as much as all
    requests of one node in one window; None: a step is worth what `DeployEnv` says."""

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise UsageError(f"horizon: {self.horizon} is not at least 1")
        if self.part not in PARTS:
            raise UsageError(f"part: {self.part!r} is none of {', '.join(PARTS)}")


@packable
class LaneScreen(NamedTuple):
    """What the kernel draws from, and what it shows of the lanes; L lanes, R rows."""

    rng: U64  # [L, 1] draws deployments and stretches
    deployment: I64  # [L] whose windows are played
    stretch: I64  # [3] windows of an episode; episodes lie from the second on and before the third
    price: F64  # [1] of a migration; below 0: a step is worth what the environment says
    offering: F64  # [features], or [0]: every move is a row
    features: F64  # [features] room for those of one move
    figures: F64  # [figures] room for those of the demand
    moves: I64  # [L, R] the move of each row, -1 where there is none
    rows: F32  # [L, R, features]
    context: F32  # [L, figures]
    rewards: F64  # [L] to learn from
    own: F64  # [L] as the environment has it
    ended: Bool  # [L]


class WindowLanes:
    """`count` runs side by side over a pool of deployments that differ in their requests alone."""

    def __init__(self, pool: Sequence[WindowsWorld], count: int, settings: LaneSettings) -> None:
        if count < 1 or not pool:
            raise UsageError("lanes need at least one run and one deployment")
        first = pool[0]
        for world in pool:
            same = np.array_equal(world.hosting.capacity, first.hosting.capacity)
            if not same or world.windows.windows != first.windows.windows or world.options != first.options:
                raise UsageError("the deployments of a pool have the same nodes, options and windows")
        self.encoding = MOVES_VERSION if settings.offering is None else offers.VERSION
        self._count = count
        self._runs = [first.sibling().run for _ in range(count)]
        self._shadows = [first.sibling().run for _ in range(count)]
        begin, end = part_of_windows(settings.part, first.windows.windows)
        length = min(settings.horizon, end - begin)
        moves = first.hosting.where.size * first.hosting.pods.size
        rows = moves + 1 if settings.offering is None else CHOICES
        self._screen = pack(
            LaneScreen(
                rng=np.zeros((count, 1), dtype=np.uint64),
                deployment=np.zeros(count, dtype=np.int64),
                stretch=np.array([length, begin, end], dtype=np.int64),
                price=np.array([-1.0 if settings.price is None else settings.price]),
                offering=np.zeros(0) if settings.offering is None else settings.offering.astype(np.float64),
                features=np.zeros(len(FEATURES)),
                figures=np.zeros(len(FIGURES)),
                moves=np.zeros((count, rows), dtype=np.int64),
                rows=np.zeros((count, rows, len(FEATURES)), dtype=np.float32),
                context=np.zeros((count, len(FIGURES)), dtype=np.float32),
                rewards=np.zeros(count),
                own=np.zeros(count),
                ended=np.zeros(count, dtype=np.bool_),
            )
        )
        self._rule = MovePolicy("balance", BALANCE).new_rule()
        # Lists that kernels read; the runs in them are those above.
        self._streams = List([world.stream for world in pool])
        self._played, self._beside = List(self._runs), List(self._shadows)

    def __len__(self) -> int:
        return self._count

    def reset(self, seed: int) -> Choices:
        """Episodes that the seed determines."""
        return self.reset_some({lane: seed + lane * _LANES_APART for lane in range(len(self))})

    def reset_some(self, seeds: Mapping[int, int]) -> Choices:
        """The first episode of some lanes, each as the only one of its seed."""
        for lane, seed in seeds.items():
            self._screen.rng[lane, 0] = np.uint64(seed % 2**64)
            start_lane(self._streams, self._played, self._beside, self._screen, lane)
            show_lane(self._runs[lane], self._screen, lane)
        return self._choices()

    def step(self, chosen: I64) -> Steps:
        """One row of every lane; an illegal one changes nothing in any."""
        rows = np.ascontiguousarray(chosen, dtype=np.int64)
        if rows.shape != (len(self),):
            raise UsageError(f"{rows.shape} actions for {len(self)} lanes")
        refused = step_lanes((self._streams, self._played, self._beside), self._rule, self._screen, rows)
        if refused >= 0:
            raise IllegalDecision(f"lane {refused}: action {rows[refused]} is not legal")
        screen = self._screen
        return Steps(self._choices(), screen.rewards.copy(), screen.ended.copy(), screen.own.copy())

    def capture(self) -> Arrays:
        """The runs as they stand."""
        arrays = {name: np.stack(lanes) for name, lanes in self._changing()}
        return {**arrays, "rng": self._screen.rng.copy(), "deployment": self._screen.deployment.copy()}

    def restore(self, saved: Mapping[str, Any]) -> Choices:
        """Go on with captured runs."""
        for name, lanes in self._changing():
            if name not in saved or saved[name].shape != (len(self), *lanes[0].shape):
                raise InputError(f"the saved runs over windows do not fit: {name}")
            for lane, array in enumerate(lanes):
                array[...] = saved[name][lane]
        self._screen.rng[...], self._screen.deployment[...] = saved["rng"], saved["deployment"]
        for lane in range(len(self)):
            show_lane(self._runs[lane], self._screen, lane)
        return self._choices()

    def _changing(self) -> Iterator[tuple[str, list[Any]]]:
        """(name, the array of every lane) of what steps change."""
        for who, runs in (("run", self._runs), ("shadow", self._shadows)):
            for name in _CHANGING:
                yield f"{who}.{name}", [getattr(run.hosting, name) for run in runs]
            yield f"{who}.clock", [run.clock for run in runs]
            yield f"{who}.outcome", [run.outcome for run in runs]

    def _choices(self) -> Choices:
        """Copied: the next step overwrites what is shown."""
        screen = self._screen
        return Choices(screen.rows.copy(), screen.context.copy(), screen.moves >= 0)


@compiled
def start_lane(
    streams: list[RequestStream],
    runs: list[WindowsColumns],
    shadows: list[WindowsColumns],
    screen: LaneScreen,
    lane: int,
) -> None:
    """An episode that the lane draws: a deployment, and a stretch of its windows."""
    length, begin, end = screen.stretch[0], screen.stretch[1], screen.stretch[2]
    deployment = next_below(screen.rng[lane], len(streams))
    first = begin + next_below(screen.rng[lane], end - begin - length + 1)
    screen.deployment[lane] = deployment
    for run in (runs[lane], shadows[lane]):
        run.clock[c.END] = first + length
        begin_run(streams[deployment], run, first)


@compiled
def step_lanes(
    lanes: tuple[list[RequestStream], list[WindowsColumns], list[WindowsColumns]],
    rule: MoveRule,
    screen: LaneScreen,
    chosen: I64,
) -> int:
    """Step every lane; the first lane whose row is not legal, before anything is done, or -1.

    lanes: (requests of the deployments, runs, their shadows).
    """
    streams, runs, shadows = lanes
    for lane in range(chosen.size):
        row = chosen[lane]
        if row < 0 or row >= screen.moves.shape[1] or screen.moves[lane, row] < 0:
            return lane
    for lane in range(chosen.size):
        run = runs[lane]
        stream, hosting = streams[screen.deployment[lane]], run.hosting
        move, nodes = screen.moves[lane, chosen[lane]], hosting.pods.size
        if move < hosting.where.size * nodes:
            screen.own[lane] = migrate(run, move // nodes, move % nodes)
            screen.rewards[lane] = screen.own[lane]
            if screen.price[0] >= 0.0:
                screen.rewards[lane] = -100.0 * screen.price[0] / nodes / UNIT
        else:
            screen.own[lane] = close_window(stream, run)
            screen.rewards[lane] = screen.own[lane]
            if screen.price[0] >= 0.0:
                saved = _shadow_cost(stream, shadows[lane], rule, screen.price[0]) - _bad(run)
                screen.rewards[lane] = saved / UNIT
        screen.ended[lane] = run.clock[c.NOW] >= run.clock[c.END]
        if screen.ended[lane]:
            start_lane(streams, runs, shadows, screen, lane)
        show_lane(run, screen, lane)
    return -1


@compiled
def _shadow_cost(stream: RequestStream, shadow: WindowsColumns, rule: MoveRule, price: float) -> float:
    """The window as the balance rule has it: percent of the requests, its migrations included."""
    hosting = shadow.hosting
    nodes, stop, moves = hosting.pods.size, hosting.where.size * hosting.pods.size, 0
    action = choose_move(hosting, rule)
    while action != stop:
        migrate(shadow, action // nodes, action % nodes)
        moves += 1
        action = choose_move(hosting, rule)
    close_window(stream, shadow)
    return _bad(shadow) + 100.0 * price * moves / nodes


@compiled
def _bad(run: WindowsColumns) -> float:
    """Percent of the requests of the last window that were above the threshold, or hit by contention."""
    outcome = run.outcome
    return 100.0 * (outcome[c.OVER_REQUESTS] + outcome[c.HIT]) / max(outcome[c.REQUESTS], 1.0)


@compiled
def show_lane(run: WindowsColumns, screen: LaneScreen, lane: int) -> None:
    """What may be chosen now."""
    hosting = run.hosting
    if screen.offering.size:
        fill_offers(hosting, screen.offering, screen.features, screen.moves[lane], screen.rows[lane])
    else:
        _show_all(hosting, screen, lane)
    fill_figures(hosting, screen.figures)
    for place in range(screen.figures.size):
        screen.context[lane, place] = screen.figures[place]


@compiled
def _show_all(hosting: Hosting, screen: LaneScreen, lane: int) -> None:
    """Every move as a row, legal or not, and the stop behind them."""
    nodes = hosting.pods.size
    count = hosting.where.size * nodes
    legal, squares = np.empty(count + 1, dtype=np.bool_), np.empty((nodes, 2))
    legal_moves(hosting, legal)
    fill_squares(hosting, squares)
    rows = screen.rows[lane]
    rows[:] = 0.0
    for move in range(count + 1):
        screen.moves[lane, move] = move if legal[move] else -1
        if move < count and hosting.where[move // nodes] != move % nodes:
            encode_move(hosting, squares, (move // nodes, move % nodes), screen.features)
            for feature in range(screen.features.size):
                rows[move, feature] = screen.features[feature]


class JoinedLanes:
    """Lanes of several scenarios as one batch: what they offer looks alike, whatever their sizes."""

    def __init__(self, parts: Sequence[WindowLanes]) -> None:
        self._parts = parts
        self._borders = np.cumsum([len(part) for part in parts])
        self.encoding = parts[0].encoding

    def __len__(self) -> int:
        return int(self._borders[-1])

    def reset(self, seed: int) -> Choices:
        """Episodes that the seed determines."""
        return _joined([part.reset(seed) for part in self._parts])

    def step(self, chosen: I64) -> Steps:
        """One row of every lane."""
        split = zip(self._parts, np.split(chosen, self._borders[:-1]), strict=True)
        steps = [part.step(rows) for part, rows in split]
        rewards, ended, own = (
            np.concatenate([getattr(step, name) for step in steps]) for name in ("rewards", "ended", "own")
        )
        return Steps(_joined([step.choices for step in steps]), rewards, ended, own)

    def capture(self) -> Arrays:
        """The runs as they stand."""
        return {
            f"{place}.{name}": array
            for place, part in enumerate(self._parts)
            for name, array in part.capture().items()
        }

    def restore(self, saved: Mapping[str, Any]) -> Choices:
        """Go on with captured runs."""
        choices = []
        for place, part in enumerate(self._parts):
            start = f"{place}."
            own = {name.removeprefix(start): array for name, array in saved.items() if name.startswith(start)}
            choices.append(part.restore(own))
        return _joined(choices)


def _joined(choices: Sequence[Choices]) -> Choices:
    return Choices(*(np.concatenate(arrays) for arrays in zip(*choices, strict=True)))


def pool_of(scenario: WindowScenario, size: int) -> list[WindowsWorld]:
    """So many deployments of the part that nobody compares on; recorded windows are one."""
    drawn = scenario.of_part("train")
    return [drawn.load(seed) for seed in range(1 if scenario.file is not None else size)]


def episodes(
    scenario: str = "serial",
    count: int = 1,
    *,
    horizon: int = 36,
    part: Part = "train",
    pool: int = 16,
    data: Path | str | None = None,
) -> WindowLanes:
    """So many lanes of a scenario by its name, as vector environments show them; `pool`: deployments that
    they draw from, where windows are generated."""
    name = scenario if "/" in scenario else f"windows/{scenario}"
    folder = data_dir(None if data is None else Path(data)) if needs_data(name) else None
    if pool < 1:
        raise UsageError(f"pool: {pool} is not at least 1")
    worlds = pool_of(parse_window_scenario(name, folder), pool)
    return WindowLanes(worlds, count, LaneSettings(part, horizon))
