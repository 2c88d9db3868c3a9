"""The document's environment: where does the next instance of a function go?

One step is one instance that is to be placed. An instance starts cold, serves, idles and is given up; nodes
cost while they hold one. Rewards are what happened between two decisions.

>>> import gymnasium, proreus
>>> env = gymnasium.make("proreus/Functions-v0", num_nodes=10, num_functions=5)
>>> observation, info = env.reset(seed=1)
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

import numpy as np
from gymnasium import spaces

from proreus.base_env import WorldEnv, own_reward
from proreus.contract.scenario import PARTS, Part
from proreus.kernels.arrays import F32, Bool
from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.functions.datasets.rows import RowTerms
from proreus.worlds.functions.encoding.document import (
    MOST_IO,
    even,
    largest,
    length_of,
    observe,
    parts_of,
)
from proreus.worlds.functions.env.dataset import EpisodeSource, dataset_of
from proreus.worlds.functions.model import KEEPS, Demand, FunctionsTerms, NodeKind, nodes_like
from proreus.worlds.functions.scenarios import FunctionsScenario
from proreus.worlds.functions.simulation.kernel import put
from proreus.worlds.functions.simulation.outcome import measures_of
from proreus.worlds.functions.simulation.rewards import PaperReward, Reward, reward_named
from proreus.worlds.functions.simulation.run import FunctionsRun
from proreus.worlds.functions.state.columns import CLIP, KIND, NOW, OVER
from proreus.worlds.functions.state.compile import USUAL_KEEP, Keeper, compile_demands

Observed: TypeAlias = dict[str, Any] | F32
KeepAlive = Literal["fixed", "histogram", "decide"]
_INTEGERS = ("current_function_requests", "cluster_function_requests")
_MOST_COUNT = np.iinfo(np.int32).max
_TRIES = 1_000


@dataclass(frozen=True)
class FunctionsSettings:
    """What an environment plays; `gymnasium.make` passes the fields as keyword arguments."""

    num_nodes: int = 10
    num_functions: int = 5
    nodes: str = ""
    """In place of `num_nodes`: 4x2/8/0.086+2x8/32/0.344."""
    flat: bool = False
    """Observations are one vector of shares from 0 to 1 in place of the document's dict."""
    keep_alive: KeepAlive = "fixed"
    """How long idle instances stay: so many `keep_seconds`, by the histogram, or as a decision of its own."""
    keep_seconds: float = USUAL_KEEP
    wait: bool = False
    """One more action: no instance now."""
    reward: str | Reward | PaperReward = "latency_cost"
    """latency_cost, slo_cost, objective, paper, or a sum of such."""
    beta: float = 0.7
    """What response time counts beside cost."""
    load: float = 0.25
    """Share of all CPU that generated requests use."""
    seconds: float = 60.0
    """Of an episode, where requests are generated or recorded."""
    rows: int = 100
    """Of an episode, where rows are injected."""
    gap: float = 10.0
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
    """

    def __init__(
        self,
        num_nodes: int = 10,
        num_functions: int = 5,
        *,
        dataset: Any = None,
        illegal: Literal["first", "raise"] = "first",
        seed: int | None = None,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        """`illegal`: an illegal action counts as the first legal one, or raises."""
        own = own_reward(settings)
        known = [field.name for field in fields(FunctionsSettings)]
        for name in settings:
            if name not in known:
                raise unknown_name("setting", name, known)
        super().__init__(seed=seed, render_mode=render_mode, illegal=(illegal, "first"), reward=own)
        self.settings = FunctionsSettings(num_nodes, num_functions, **settings)
        chosen = self.settings.reward
        self._reward = reward_named(chosen, self.settings.beta) if isinstance(chosen, str) else chosen
        self._terms = self.settings.terms
        self.num_nodes, self.num_functions = self._terms.count, int(num_functions)
        self._kernel_actions = np.array(self._offered(), dtype=np.int64)
        self.action_space = spaces.Discrete(self._kernel_actions.size)
        self._vector = np.zeros(length_of(self.num_nodes, self.num_functions), dtype=np.float32)
        self._parts = parts_of(self.num_nodes, self.num_functions)
        self.observation_space = self._space()
        self._run: FunctionsRun | None = None
        self._illegal = False
        self.set_dataset(dataset)

    def set_dataset(self, task_generator: Any) -> None:
        """Take episodes from an iterable of rows, a table, a recording, a `Demand`; None: generated.

        A finite source begins anew when it is at its end; `info["dataset_restarts"]` counts how often.
        """
        settings = self.settings
        scenario = FunctionsScenario(
            "environment",
            self._terms,
            settings.load,
            settings.seconds,
            self.num_functions,
            part=settings.part,
        )
        terms = RowTerms(self.num_functions, settings.gap)
        self._dataset: EpisodeSource = dataset_of(task_generator, scenario, terms, int(settings.rows))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; a seed determines it and those after it, and begins the dataset anew."""
        if seed is not None or (not self._has_begun and self._first_seed is not None):
            self._dataset.rewind()
            self._reward.forget()
        return super().reset(seed=seed, options=options)

    def action_masks(self) -> Bool:
        """bool[K]: the legal actions now, under the name that sb3-contrib looks for."""
        seen = None if self._run is None else self._run.next_decision()
        if seen is None:
            return np.ones(self._kernel_actions.size, dtype=np.bool_)
        legal: Bool = seen.action_mask()[self._kernel_actions]
        return legal

    def _offered(self) -> list[int]:
        """The kernel's actions that the environment offers."""
        nodes = self.num_nodes
        waits = [nodes] if self.settings.wait else []
        keeps = range(nodes + 1, nodes + 1 + len(KEEPS)) if self.settings.keep_alive == "decide" else ()
        return [*range(nodes), *waits, *keeps]

    def _begin(self, options: dict[str, Any]) -> None:
        for name in options:
            raise unknown_name("option of reset", str(name), ())
        for _ in range(_TRIES):
            self._run = self._started(self._dataset.episode(self.np_random))
            if self._run.next_decision() is not None:
                self._illegal = False
                return
        raise UsageError(f"none of {_TRIES} episodes leads to a decision: does any instance fit on a node?")

    def _started(self, demand: Demand) -> FunctionsRun:
        work = compile_demands([demand], self._terms, self.settings.keeper, self.settings.keep_seconds)
        return FunctionsRun(demand, work)

    def _act(self, action: int) -> float:
        run = self._run
        if run is None or run.next_decision() is None:
            raise UsageError("reset the environment before its first step, and after an episode")
        legal = self.action_masks()
        self._illegal = not (0 <= action < legal.size and legal[action])
        if self._illegal:
            self._refuse(f"action {action} is masked")
            action = int(np.argmax(legal))
        put(run.work, run.runs, 0, int(self._kernel_actions[action]))
        return self._reward.of(run.work, run.runs)

    def _now(self) -> tuple[Observed, bool, bool, dict[str, Any]]:
        assert self._run is not None
        over = bool(self._run.runs.tally[0, KIND] == OVER)
        info: dict[str, Any] = {
            "illegal": self._illegal,
            "now": float(self._run.runs.figure[0, NOW]),
            "dataset_restarts": self._dataset.restarts,
        }
        if over:
            info["measures"] = measures_of(self._run.demand, self._run.work, self._run.runs)
        return self._observed(), over, False, info

    def _lines(self) -> list[str]:
        return ["no episode"] if self._run is None else self._run.screen()

    def _observed(self) -> Observed:
        assert self._run is not None
        run, vector = self._run, self._vector
        if run.next_decision() is None:
            vector[:] = 0.0
        else:
            observe(run.work, run.runs, 0, vector)
            if self.settings.flat:
                even(run.work, largest(run.work), vector)
        if self.settings.flat:
            return vector.copy()
        found: dict[str, Any] = {}
        for part in self._parts:
            values = vector[part.begin : part.begin + part.size].reshape(part.shape)
            if part.name in _INTEGERS:
                found[part.name] = values.astype(np.int32)
            elif part.name == "node_active":
                found[part.name] = values.astype(np.int8)
            else:
                found[part.name] = values.copy()
        return found

    def _space(self) -> spaces.Space[Any]:
        if self.settings.flat:
            return spaces.Box(0.0, 1.0, self._vector.shape, np.float32)
        kinds = self._terms.nodes
        cores = np.float32(max(kind.cpu for kind in kinds) / 1_000)
        memory = np.float32(max(kind.memory for kind in kinds) / 1_024)
        price = np.float32(max(kind.price for kind in kinds) / 1e6)
        sizes = np.array([cores, memory], dtype=np.float32)
        high: dict[str, Any] = {
            "node_utilization": np.float32(1.0),
            "node_capacity": sizes,
            "node_price": price,
            "node_deployed": sizes,
            "current_function_request": sizes,
            "current_function_io": np.float32(MOST_IO),
            "current_function_rart": np.float32(CLIP),
        }
        found: dict[str, spaces.Space[Any]] = {}
        for part in self._parts:
            if part.name == "node_active":
                found[part.name] = spaces.MultiBinary(self.num_nodes)
            elif part.name in _INTEGERS:
                found[part.name] = spaces.Box(0, _MOST_COUNT, part.shape, np.int32)
            else:
                top = np.broadcast_to(high[part.name], part.shape).astype(np.float32)
                found[part.name] = spaces.Box(np.zeros_like(top), top, dtype=np.float32)
        return spaces.Dict(found)
