"""The document's environment: where does the next instance of a function go?

One step is one instance that is to be placed. An instance starts cold, serves, idles and is given up; nodes
cost while they hold one. Rewards are what happened between two decisions.

>>> import gymnasium, proreus
>>> env = gymnasium.make("proreus/Functions-v0", num_nodes=10, num_functions=5)
>>> observation, info = env.reset(seed=1)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

import numpy as np
from gymnasium import spaces

from proreus.base_env import RAISE, WorldEnv, own_reward
from proreus.contract.scenario import PARTS, Part
from proreus.kernels.arrays import F32, Bool
from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.functions.datasets.rows import RowTerms, demand_of_rows
from proreus.worlds.functions.encoding.document import even, largest, length_of, observe, parts_of
from proreus.worlds.functions.env.dataset import EpisodeSource, GeneratedEpisodes, InjectedRows, dataset_of
from proreus.worlds.functions.env.state import (
    SchedulingState,
    checked_state,
    state_of,
    state_space,
    vector_of,
)
from proreus.worlds.functions.model import KEEPS, Demand, FunctionsTerms, NodeKind, nodes_like
from proreus.worlds.functions.scenarios import FunctionsScenario
from proreus.worlds.functions.simulation.kernel import put
from proreus.worlds.functions.simulation.outcome import measures_of
from proreus.worlds.functions.simulation.rewards import PaperReward, Reward, reward_named
from proreus.worlds.functions.simulation.run import FunctionsRun
from proreus.worlds.functions.state.columns import KIND, NOW, OVER
from proreus.worlds.functions.state.compile import USUAL_KEEP, Keeper, compile_demands
from proreus.worlds.functions.state.observation import FunctionsObservation

Observed: TypeAlias = dict[str, Any] | F32
KeepAlive = Literal["fixed", "histogram", "decide"]
Illegal = Literal["random", "first", "end", "raise"]
_ILLEGAL = ("random", "first", "end", "raise")
_TRIES = 1_000


@dataclass(frozen=True)
class FunctionsSettings:
    """What an environment plays; `gymnasium.make` passes the fields as keyword arguments."""

    num_nodes: int = 10
    num_functions: int = 5
    nodes: str = ""
    """In place of `num_nodes`: 4x2/8/0.086+2x8/32/0.344."""
    flat: bool = False
    """Observations are one vector of shares from 0 to 1, the legal actions behind them, in place of the
    document's dict."""
    keep_alive: KeepAlive = "fixed"
    """How long idle instances stay: so many `keep_seconds`, by the histogram, or as a decision of its own."""
    keep_seconds: float = USUAL_KEEP
    wait: bool = False
    """One more action: no instance now."""
    reward: str | Reward | PaperReward = "latency_cost"
    """latency_cost, slo_cost, objective, paper, or a sum of such."""
    beta: float = 0.7
    """What response time counts beside cost."""
    illegal_penalty: float = 1.0
    """What an illegal action costs beside what stands in for it: as much as the worst step."""
    load: float = 0.25
    """Share of all CPU that generated requests use."""
    seconds: float = 60.0
    """Of an episode, where requests are generated or recorded."""
    rows: int = 100
    """Of an episode, where rows are injected."""
    gap: float = 20.0
    """Seconds between rows that have no `arrival`, on average."""
    part: Part = "train"

    def __post_init__(self) -> None:
        for name in ("num_nodes", "num_functions", "rows"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise UsageError(f"{name}: {value!r} is not a whole number of at least 1")
        if self.keep_alive not in ("fixed", "histogram", "decide"):
            raise unknown_name("keep_alive", str(self.keep_alive), ("fixed", "histogram", "decide"))
        if not 0.0 <= self.keep_seconds < np.inf:
            raise UsageError(f"keep_seconds: {self.keep_seconds!r} is not from 0 on")
        if not 0.0 <= self.illegal_penalty < np.inf:
            raise UsageError(f"illegal_penalty: {self.illegal_penalty!r} is not from 0 on")
        if not 0.0 < self.gap < np.inf:
            raise UsageError(f"gap: {self.gap!r} is not above 0")
        if self.part not in PARTS:
            raise unknown_name("part", str(self.part), PARTS)

    @property
    def terms(self) -> FunctionsTerms:
        """The nodes, and how a run is judged."""
        kinds = NodeKind.parse(self.nodes) if self.nodes else nodes_like(int(self.num_nodes))
        return FunctionsTerms(nodes=kinds, beta=self.beta)

    @property
    def keeper(self) -> Keeper:
        """Who says how long idle instances stay."""
        return "asked" if self.keep_alive == "decide" else self.keep_alive


class ServerlessSchedulingEnv(WorldEnv):
    """Place one instance a step; observations have the document's names and shapes.

    Action n starts the instance on node n; behind the nodes stand waiting (`wait=True`) and the times of
    `KEEPS` (`keep_alive="decide"`), which are legal when an instance has become idle. `info` has the
    `action_mask`, whether the action was `illegal`, the time `now`, how often the dataset began anew
    (`dataset_restarts`), and after the last step the `measures` of the episode.

    The document's hooks are here to be overridden: `_get_next_task`, `_is_action_valid`,
    `_calculate_reward` and `_get_next_state`, over `self.state`. A `_get_next_state` that does not call
    this one replaces the world: the episode then lasts until no action is valid.
    """

    def __init__(
        self,
        num_nodes: int = 10,
        num_functions: int = 5,
        *,
        dataset: Any = None,
        illegal: Illegal = "random",
        seed: int | None = None,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        """`illegal`: what an illegal action does: any legal one is taken, the first one is, the episode ends,
        or it raises."""
        own = own_reward(settings)
        known = [field.name for field in fields(FunctionsSettings)]
        for name in settings:
            if name not in known:
                raise unknown_name("setting", name, known)
        if illegal not in _ILLEGAL:
            raise unknown_name("illegal", str(illegal), _ILLEGAL)
        self._instead = illegal
        otherwise = "random" if illegal == RAISE else illegal
        super().__init__(seed=seed, render_mode=render_mode, illegal=(illegal, otherwise), reward=own)
        self.settings = FunctionsSettings(num_nodes, num_functions, **settings)
        chosen = self.settings.reward
        self._reward = reward_named(chosen, self.settings.beta) if isinstance(chosen, str) else chosen
        self._terms = self.settings.terms
        self.num_nodes, self.num_functions = self._terms.count, int(num_functions)
        self._kernel_actions = np.array(self._offered(), dtype=np.int64)
        self.action_space = spaces.Discrete(self._kernel_actions.size)
        self._vector = np.zeros(length_of(self.num_nodes, self.num_functions), dtype=np.float32)
        self._parts = parts_of(self.num_nodes, self.num_functions)
        self.observation_space: spaces.Space[Any] = (
            spaces.Box(0.0, 1.0, (self._vector.size + self._kernel_actions.size,), np.float32)
            if self.settings.flat
            else state_space(self._terms.nodes, self._parts)
        )
        self._run: FunctionsRun | None = None
        self._illegal, self._over, self._follows_world = False, True, True
        self._open: Bool = np.ones(self._kernel_actions.size, dtype=np.bool_)
        self.state: SchedulingState = state_of(self._vector, self._parts)
        self._after = self.state
        self.task_generator: Iterator[Mapping[str, Any]] | None = None
        self.task_generator_backup: Any = None
        self._dataset: EpisodeSource | InjectedRows = GeneratedEpisodes(self._scenario())
        if dataset is not None:
            self.set_dataset(dataset)

    def set_dataset(self, task_generator: Any) -> None:
        """Take episodes from an iterable of rows, a table, a recording, a `Demand`; None: generated.

        A finite source begins anew when it is at its end; `info["dataset_restarts"]` counts how often.
        """
        self._dataset = dataset_of(task_generator, self._scenario())
        self.task_generator = iter(self._dataset) if isinstance(self._dataset, InjectedRows) else None
        self.task_generator_backup = self.task_generator

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; a seed determines it and those after it, and begins the dataset anew."""
        if seed is not None or (not self._has_begun and self._first_seed is not None):
            self._dataset.rewind()
            self._reward.forget()
        return super().reset(seed=seed, options=options)

    @property
    def observation(self) -> FunctionsObservation | None:
        """The decision at hand as the policies of this package see it; None when the run is over."""
        return None if self._run is None else self._run.next_decision()

    def action_masks(self) -> Bool:
        """bool[K]: the legal actions now, under the name that sb3-contrib looks for."""
        if self._over:
            return np.ones(self._kernel_actions.size, dtype=np.bool_)
        return self._legal()

    def _get_next_task(self) -> Mapping[str, Any] | None:
        """The document's hook: the next row to place; None where requests come from elsewhere."""
        if self.task_generator is None:
            return None
        row = next(self.task_generator, None)
        if row is None:
            self.task_generator = iter(self.task_generator_backup)
            row = next(self.task_generator, None)
        if row is None:
            raise UsageError("the dataset has no rows")
        return row

    def _is_action_valid(self, action: int) -> bool:
        """The document's hook: whether the node is active and has room for the instance at hand."""
        if action >= self.num_nodes:
            return self._follows_world and bool(self._open[action])
        if not self.state["node_active"][action]:
            return False
        if self._follows_world:  # whole numbers, where the state has rounded ones
            return bool(self._open[action])
        room = self.state["node_capacity"][action] - self.state["node_deployed"][action]
        return bool((room >= self.state["current_function_request"]).all())

    def _calculate_reward(self, action: int) -> float:
        """The document's hook, asked when the action was carried out: `self.state` is the one before it."""
        assert self._run is not None
        if self._follows_world:
            return self._reward.of(self._run.work, self._run.runs)
        prices = self.state["node_price"]
        span = float(prices.max() - prices.min())
        share = float(prices[action] - prices.min()) / span if span > 0.0 else 0.0
        return self._reward.of_placement(float(self._after["current_function_rart"][0]), share, self._terms)

    def _get_next_state(self, action: int) -> Mapping[str, Any]:
        """The document's hook: carry out a legal action and run on to the next decision."""
        assert self._run is not None
        put(self._run.work, self._run.runs, 0, int(self._kernel_actions[action]))
        self._follows_world = True
        return self._world_state()

    def _offered(self) -> list[int]:
        """The kernel's actions that the environment offers."""
        nodes = self.num_nodes
        waits = [nodes] if self.settings.wait else []
        keeps = range(nodes + 1, nodes + 1 + len(KEEPS)) if self.settings.keep_alive == "decide" else ()
        return [*range(nodes), *waits, *keeps]

    def _scenario(self) -> FunctionsScenario:
        """What is generated."""
        settings = self.settings
        return FunctionsScenario(
            "environment",
            self._terms,
            settings.load,
            settings.seconds,
            self.num_functions,
            part=settings.part,
        )

    def _begin(self, options: dict[str, Any]) -> None:
        for name in options:
            raise unknown_name("option of reset", str(name), ())
        self._illegal, self._follows_world = False, True
        for _ in range(_TRIES):
            self._run = self._started(self._next_demand())
            self.state = self._world_state()
            self._over = self._is_over()
            if not self._over:
                return
        raise UsageError(f"none of {_TRIES} episodes leads to a decision: does any instance fit on a node?")

    def _next_demand(self) -> Demand:
        """The requests of an episode: of the next rows, shorter where the source ends, or of the dataset."""
        rows: list[Mapping[str, Any]] = []
        while len(rows) < self.settings.rows and not (rows and self._rows_end()):
            row = self._get_next_task()
            if row is None:
                break
            if not isinstance(row, Mapping):
                raise UsageError(f"a row of the dataset is a {type(row).__name__}, not a mapping")
            rows.append(row)
        if rows:
            return demand_of_rows(rows, RowTerms(self.num_functions, self.settings.gap), self.np_random)
        if isinstance(self._dataset, InjectedRows):
            raise UsageError("_get_next_task: returned no row, and the dataset has nothing else")
        return self._dataset.episode(self.np_random)

    def _rows_end(self) -> bool:
        return isinstance(self.task_generator, InjectedRows) and self.task_generator.at_end

    def _started(self, demand: Demand) -> FunctionsRun:
        work = compile_demands([demand], self._terms, self.settings.keeper, self.settings.keep_seconds)
        return FunctionsRun(demand, work)

    def _act(self, action: int) -> float:
        if self._run is None or self._over:
            raise UsageError("reset the environment before its first step, and after an episode")
        legal = self._legal()
        self._illegal = not (0 <= action < legal.size and legal[action])
        if self._illegal:
            self._refuse(f"action {action} is masked")
            if self._instead == "end":
                self._over = True
                return -self.settings.illegal_penalty
            action = self._stand_in(legal)
        self._follows_world = False
        self._after = checked_state(self._get_next_state(action), self._parts)
        reward = float(self._calculate_reward(action))
        self.state = self._after
        self._over = self._is_over()
        return reward - self.settings.illegal_penalty if self._illegal else reward

    def _stand_in(self, legal: Bool) -> int:
        """What is carried out in place of an illegal action; drawn, it helps nobody who chooses blindly."""
        if self._instead == "first":
            return int(np.argmax(legal))
        return int(self.np_random.choice(np.flatnonzero(legal)))

    def _legal(self) -> Bool:
        """bool[K]: what the hook says is valid and the world can do."""
        valid = np.array([bool(self._is_action_valid(action)) for action in range(self._open.size)])
        return valid & self._open if self._follows_world else valid

    def _is_over(self) -> bool:
        assert self._run is not None
        if self._follows_world and self._run.runs.tally[0, KIND] == OVER:
            return True
        return not self._legal().any()

    def _now(self) -> tuple[Observed, bool, bool, dict[str, Any]]:
        assert self._run is not None
        info: dict[str, Any] = {
            "illegal": self._illegal,
            "now": float(self._run.runs.figure[0, NOW]),
            "dataset_restarts": self._dataset.restarts,
        }
        if self._run.runs.tally[0, KIND] == OVER:
            info["measures"] = measures_of(self._run.demand, self._run.work, self._run.runs)
        return self._observed(), self._over, False, info

    def _lines(self) -> list[str]:
        return ["no episode"] if self._run is None else self._run.screen()

    def _world_state(self) -> SchedulingState:
        """What the world shows of its decision at hand; zeros after the last one."""
        assert self._run is not None
        run, seen = self._run, self._run.next_decision()
        if seen is None:
            self._vector[:] = 0.0
        else:
            self._open = seen.action_mask()[self._kernel_actions]
            observe(run.work, run.runs, 0, self._vector)
        return state_of(self._vector, self._parts)

    def _observed(self) -> Observed:
        assert self._run is not None
        if not self.settings.flat:
            return dict(self.state.copy())
        vector = vector_of(self.state, self._parts)
        even(self._run.work, largest(self._run.work), vector)
        return np.append(np.clip(vector, 0.0, 1.0), self.action_masks()).astype(np.float32)
