"""`proreus/Rebalance-v0`: moving pods between five-minute windows, as a Gymnasium environment.

A step is one move, pod * nodes + node, or to stop (the last action), which serves the next window. The table
"nodes" of an observation is VMAgent's: for every node a row of its own and one per pod, four numbers
each. "moves" has features of every move that mean the same whatever the number of pods and nodes.

>>> import gymnasium, proreus
>>> env = gymnasium.make("proreus/Rebalance-v0", scenario="parallel", horizon=12)
>>> observation, info = env.reset(seed=1)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from proreus.base_env import WorldEnv, own_reward
from proreus.contract.scenario import Part, seed_of
from proreus.data.catalogue import data_dir
from proreus.kernels.arrays import Bool
from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.rebalance.windows.datasets.generator import WindowsConfig, generate_windows
from proreus.worlds.rebalance.windows.encoding.moves import FEATURES, encode_moves
from proreus.worlds.rebalance.windows.model import PARTS, RequestWindows, part_of_windows
from proreus.worlds.rebalance.windows.scenarios import (
    SEEDS_APART,
    WindowScenario,
    needs_data,
    parse_window_scenario,
)
from proreus.worlds.rebalance.windows.simulation.layout import layout_now
from proreus.worlds.rebalance.windows.simulation.outcome import measures_of
from proreus.worlds.rebalance.windows.simulation.screen import node_lines
from proreus.worlds.rebalance.windows.simulation.world import WindowsOptions, WindowsWorld

Observed: TypeAlias = Any
"""A dict of arrays: nodes, moves, action_mask."""
_MOST = np.float32(1e6)


class DeployEnv(WorldEnv):
    """Move one pod per step, or stop and let the next window be served.

    `scenario` is "serial" or "parallel" (generated requests, others in every episode), a name as the command
    line has it ("windows/monitor"; recorded windows lie in PROREUS_DATA), or windows of your own. Episodes of
    recorded windows are stretches of `horizon` windows inside `part`. An episode terminates after its last
    window; `info` has `action_mask`, the `window`, and in the end the `measures`.
    """

    def __init__(
        self,
        scenario: str | WindowScenario | RequestWindows = "serial",
        *,
        seed: int | None = None,
        render_mode: str | None = None,
        horizon: int = 36,
        data: Path | str | None = None,
        **settings: Any,
    ) -> None:
        """`data`: the folder of datasets, as --data; else PROREUS_DATA or what was fetched."""
        if horizon < 1:
            raise UsageError(f"horizon: {horizon} is not at least 1")
        own = own_reward(settings)
        self._part, illegal = _choices(settings)
        super().__init__(seed=seed, render_mode=render_mode, illegal=(illegal, "stop"), reward=own)
        self._horizon = horizon
        if isinstance(scenario, str) and scenario.partition("/")[2] not in ("", "serial", "parallel"):
            folder = data_dir(None if data is None else Path(data)) if needs_data(scenario) else None
            scenario = parse_window_scenario(scenario, folder)
        if isinstance(scenario, WindowScenario):
            settings = {**_options_of(scenario), **settings}
            scenario = scenario.options.service if scenario.file is None else scenario.windows(0)
        self.options, self._config = _world_of(scenario, settings)
        self._fixed = scenario if isinstance(scenario, RequestWindows) else None
        sample = self._fixed.deployment if self._fixed else generate_windows(self._config, 0).deployment
        self.node_count, self.pod_count = len(sample.node_names), len(sample.pod_names)
        actions = self.pod_count * self.node_count + 1
        self.action_space = spaces.Discrete(actions)
        table = (self.node_count, 1 + self.options.max_pods, 4)
        self.observation_space = spaces.Dict(
            {
                "nodes": spaces.Box(np.float32(0.0), _MOST, table, np.float32),
                "moves": spaces.Box(-_MOST, _MOST, (actions, len(FEATURES)), np.float32),
                "action_mask": spaces.MultiBinary(actions),
            }
        )
        self._world: WindowsWorld | None = None
        self._outcomes: list[NDArray[np.float64]] = []
        self._illegal = False

    def _begin(self, options: dict[str, Any]) -> None:
        # Deployments that no comparison plays; the part says which of their windows.
        drawn = int(self.np_random.integers(2**31))
        windows = self._fixed or generate_windows(self._config, seed_of("train", drawn, SEEDS_APART))
        first, last = part_of_windows(self._part, windows.windows)
        length = min(self._horizon, last - first)
        begin = int(self.np_random.integers(first, last - length + 1))
        if self._world is None or self._fixed is None:
            self._world = WindowsWorld(windows, self.options)
        self._world.begin(begin, begin + length)
        self._outcomes, self._illegal = [], False

    def _act(self, action: int) -> float:
        """Move a pod, or stop."""
        world, stop = self._running(), self.pod_count * self.node_count
        self._illegal = not (0 <= action <= stop and world.mask()[action])
        if self._illegal:
            self._refuse(f"action {action} is masked")
            action = stop
        if action != stop:
            return world.move(*divmod(action, self.node_count))
        reward = world.stop()
        self._outcomes.append(world.outcome())
        return reward

    def _now(self) -> tuple[Observed, bool, bool, dict[str, Any]]:
        world = self._running()
        info: dict[str, Any] = {"window": world.window, "illegal": self._illegal}
        if world.over:
            info["measures"] = measures_of(np.array(self._outcomes), self.options.weights)
        return self._observed(), world.over, False, info

    def action_masks(self) -> Bool:
        """bool[pods * nodes + 1]: the legal actions now, under the name that sb3-contrib looks for."""
        return self._running().mask()

    @property
    def n_node(self) -> int:
        """How many nodes there are, by VMAgent's name."""
        return self.node_count

    @property
    def t(self) -> int:
        """The number of the window that is served next."""
        return self._running().window

    @property
    def nodes(self) -> dict[str, Any]:
        """Nodes and their pods in the layout of VMAgent's notes: what they have, ask for and get."""
        return layout_now(self._running())

    @property
    def world(self) -> WindowsWorld:
        """The world of the episode."""
        return self._running()

    def _lines(self) -> list[str]:
        """The pods on their nodes."""
        world = self._running()
        moved = np.flatnonzero(world.hosting.moved).tolist()
        return [f"before window {world.window}", *node_lines(world, moved)]

    def _running(self) -> WindowsWorld:
        if self._world is None:
            raise UsageError("reset the environment before its first step")
        return self._world

    def _observed(self) -> Observed:
        world = self._running()
        moves = np.clip(encode_moves(world.hosting), -_MOST, _MOST)
        return {
            "nodes": node_table(world),
            "moves": moves.astype(np.float32),
            "action_mask": world.mask().astype(np.int8),
        }


def node_table(world: WindowsWorld) -> NDArray[np.float32]:
    """[nodes, 1 + max_pods, 4], as VMAgent's DeployEnv shows them.

    Row 0 of a node is its total CPU and memory and what remains of them, the others are its pods: request and
    assigned CPU and memory; zeros where there is no further pod.
    """
    hosting = world.hosting
    asked, assigned = world.asked(), world.assigned()
    table = np.zeros((hosting.pods.size, 1 + world.options.max_pods, 4), dtype=np.float32)
    for node in range(hosting.pods.size):
        here = np.flatnonzero(hosting.where == node)
        table[node, 0, :2] = hosting.capacity[node]
        table[node, 0, 2:] = np.maximum(hosting.capacity[node] - assigned[here].sum(axis=0), 0.0)
        table[node, 1 : 1 + here.size, :2] = asked[here]
        table[node, 1 : 1 + here.size, 2:] = assigned[here]
    clipped: NDArray[np.float32] = np.minimum(table, _MOST)
    return clipped


def _choices(settings: dict[str, Any]) -> tuple[Part, str]:
    part, illegal = settings.pop("part", "train"), settings.pop("illegal", "stop")
    if part not in PARTS:
        raise unknown_name("part", str(part), PARTS)
    return part, illegal


def _options_of(scenario: WindowScenario) -> dict[str, Any]:
    """What a scenario changes, as keyword arguments."""
    options = {field.name: getattr(scenario.options, field.name) for field in fields(scenario.options)}
    config = {field.name: getattr(scenario.config, field.name) for field in fields(scenario.config)}
    usual = WindowsConfig()
    changed = {name: value for name, value in config.items() if value != getattr(usual, name)}
    return {**options, "generator": changed} if scenario.file is None and changed else options


def _world_of(
    scenario: str | RequestWindows, settings: Mapping[str, Any]
) -> tuple[WindowsOptions, WindowsConfig]:
    """Options of the world and of the generator (`generator={"pods": 20}`) from keyword arguments."""
    rest = dict(settings)
    generator = dict(rest.pop("generator", {}))
    if isinstance(scenario, str):
        service = scenario.removeprefix("windows/")
        if service not in ("serial", "parallel"):
            raise unknown_name("scenario", scenario, ("serial", "parallel"))
        rest["service"] = service
    elif generator:
        raise UsageError("generator options need a generated scenario")
    try:
        options = WindowsOptions(**rest)
        config = replace(WindowsConfig(), **generator)
    except TypeError as error:
        raise UsageError(f"an option is not known: {error}") from error
    return options, replace(config, adds_up=options.service == "parallel")
