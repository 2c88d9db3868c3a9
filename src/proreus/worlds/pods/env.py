"""`proreus/Pods-v0`: the pods world as a Gymnasium environment, one decision about one pod per step.

A thin view: `PodsWorld` runs, `encoding` describes each decision, `rewards` says what it was worth.

>>> import gymnasium, proreus
>>> env = gymnasium.make("proreus/Pods-v0", scenario="small", reward="completion", max_episode_steps=1000)
>>> observation, info = env.reset(seed=1)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

import numpy as np
from gymnasium import spaces

from proreus.base_env import OwnReward, WorldEnv, own_reward
from proreus.contract.scenario import seed_of
from proreus.data.catalogue import data_dir
from proreus.kernels.arrays import F64, I64, Bool
from proreus.model.decision import Decision, Delay, Place, action_count, from_action
from proreus.model.errors import InputError, UsageError, unknown_name
from proreus.model.pod import GPU_WHOLE
from proreus.model.resources import COL_CPU, GIB
from proreus.model.workload import Workload
from proreus.worlds.pods import rewards
from proreus.worlds.pods.datasets.generator import PRESETS, generate
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.decision import (
    LARGEST_FEATURE,
    PodsEncoder,
    legal_actions,
    simulator_vector,
)
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES
from proreus.worlds.pods.rewards import Reward
from proreus.worlds.pods.scenarios import SEEDS_APART, PodScenario, parse_scenario
from proreus.worlds.pods.simulation.columns import FAILED, REJECTED
from proreus.worlds.pods.simulation.outcome import PodsOutcome
from proreus.worlds.pods.simulation.world import PodsOptions, PodsWorld
from proreus.worlds.pods.state.compile import Compiled, compile_workload
from proreus.worlds.pods.state.observation import PodObservation

Encoding = Literal["features", "vector", "document000"]
Illegal = Literal["delay", "raise"]
Source: TypeAlias = str | PodScenario | Workload | Callable[[int], Workload]
"""A scenario's name as the command line has it, a scenario (`proreus.make_scenario`), one workload for every
episode, or a function from a seed to a workload."""
Observed: TypeAlias = Any
"""What the observation space of the chosen encoding holds: a dict of arrays, or one vector."""

_LARGEST_TASK = 1e6  # the k8s simulator sets no bound to a task; spaces need one
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "encoding": ("features", "vector", "document000"),
    "reward": ("allocation", "completion"),
    "illegal": ("raise", "delay"),
}


@dataclass(frozen=True)
class PodsSettings:
    """How the environment shows the world and judges decisions."""

    encoding: Encoding = "features"
    """"features": a dict of features per legal node, context and action mask, for learners that score nodes;
    "vector" (its old name: "document000"): the k8s simulator's 2N + 2 numbers, the mask is in `info`."""
    reward: Reward = "allocation"
    """"allocation": the share of GPUs (or CPU) put to use; "completion": minus time in the system. The
    environment takes a function of your own as well: reward(env, worth, info)."""
    illegal: Illegal = "delay"
    """What an illegal action does: count as a delay, or raise IllegalDecision."""
    work_conserving: bool = False
    """Mask delay and reject wherever a node can take the pod: a smaller problem, and what rules do."""
    generator: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the preset's `GeneratorConfig` to change, such as {"nodes": 7}."""
    world: PodsOptions | None = None
    """How the world treats pods it cannot place; None: they wait, or are dropped where nobody ever leaves."""

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise unknown_name(name, str(getattr(self, name)), known)


class PodsKeywords(TypedDict, total=False):
    """The fields of `PodsSettings` as keyword arguments, so that `gymnasium.make` can pass them."""

    encoding: Encoding
    reward: Reward | OwnReward
    illegal: Illegal
    work_conserving: bool
    generator: Mapping[str, Any]
    world: PodsOptions | None


class PodsEnv(WorldEnv):
    """Place (0..N-1), preempt (N..2N-1), delay (2N) or reject (2N+1) one pod per step.

    Each episode is a run of a workload, another one for each episode where `scenario` allows it. The
    episode terminates when the run is over. `info` has `action_mask`, the time `now`, the `pod`'s name and
    whether the last action was `illegal`; after the last decision, the run's `measures`.
    """

    def __init__(
        self,
        scenario: Source = "small",
        *,
        seed: int | None = None,
        render_mode: str | None = None,
        data: Path | str | None = None,
        **settings: Unpack[PodsKeywords],
    ) -> None:
        """`data`: the folder of datasets, as --data; else PROREUS_DATA or what was fetched."""
        given: dict[str, Any] = {**settings}
        own = own_reward(given)
        self.settings = PodsSettings(**given)
        illegal = (self.settings.illegal, "delay")
        super().__init__(seed=seed, render_mode=render_mode, illegal=illegal, reward=own)
        source = _named(scenario, data) if isinstance(scenario, str) else scenario
        self._make = _workload_maker(source, self.settings.generator)
        self._options = self.settings.world or _usual_options(source)
        self._fixed: Compiled | None = None
        if isinstance(source, Workload):
            self._fixed = compile_workload(source)
        # The spaces are sized by a workload, before any seed is known: every episode has as many nodes.
        sample = source if isinstance(source, Workload) else self._make(0)
        self.node_count = len(sample.nodes)
        self.action_space = spaces.Discrete(action_count(self.node_count))
        self.observation_space = _space(self.settings.encoding, self.node_count)
        self._episode: _Episode | None = None

    def _begin(self, options: dict[str, Any]) -> None:
        self._episode = _Episode(self._next_workload(), self._options, self.settings)
        if self._episode.observation is None:
            raise InputError(f"the workload {self._episode.workload.name} has no pod to decide about")

    def _act(self, action: int) -> float:
        """Decide about the pod at hand and run on to the next one."""
        episode = self._running()
        if not episode.allows(action):
            self._refuse(f"action {action} ({from_action(action, self.node_count)}) is masked")
            return episode.apply(Delay(), instead_of_illegal=True)
        return episode.decide(action)

    def _now(self) -> tuple[Observed, bool, bool, dict[str, Any]]:
        episode = self._running()
        return episode.observed(), episode.observation is None, False, episode.info()

    def action_masks(self) -> Bool:
        """bool[2N + 2]: the legal actions now, under the name that sb3-contrib looks for."""
        return self._running().mask

    def outcome(self) -> PodsOutcome:
        """What the current run has come to so far."""
        return self._running().world.outcome()

    def _lines(self) -> list[str]:
        return self._running().describe()

    @property
    def observation(self) -> PodObservation | None:
        """The decision at hand as policies see it; None when the run is over."""
        return self._running().observation

    def decide(self, decision: Decision) -> tuple[Observed, float, bool, bool, dict[str, Any]]:
        """`step` with the decision of a policy, its choice of devices included."""
        return self._stepped(self._running().apply(decision))

    def _running(self) -> _Episode:
        if self._episode is None:
            raise UsageError("reset the environment before its first step")
        return self._episode

    def _next_workload(self) -> Compiled:
        # Drawn for a fixed workload as well: what follows does not depend on where workloads come from.
        seed = int(self.np_random.integers(2**31))
        if self._fixed is not None:
            return self._fixed
        workload = self._make(seed)
        if len(workload.nodes) != self.node_count:
            raise InputError(
                f"the workload of seed {seed} has {len(workload.nodes)} nodes and not {self.node_count}"
            )
        return compile_workload(workload)


class _Episode:
    """One run of the world with what the environment says about it."""

    def __init__(self, compiled: Compiled, options: PodsOptions, settings: PodsSettings) -> None:
        self.workload = compiled.workload
        self.settings = settings
        self.world = PodsWorld(compiled, options)
        self._encoder = PodsEncoder(compiled)
        self._judge = _Judge(self.world, settings.reward)
        self._was_illegal = False
        self._look()

    def _look(self) -> None:
        """Run to the next decision and see what is legal."""
        self.observation = self.world.next_decision()
        nodes = len(self.workload.nodes)
        self.mask: Bool = np.zeros(action_count(nodes), dtype=np.bool_)
        self._devices: I64 = np.zeros(nodes, dtype=np.int64)
        if self.observation is None:
            self.mask[2 * nodes :] = True  # no one will act on it, but learners expect something legal
            return
        self.mask = legal_actions(self.observation, work_conserving=self.settings.work_conserving)

    def allows(self, action: int) -> bool:
        """Whether a flat action is legal; an IllegalDecision where there is no such action."""
        from_action(action, len(self.workload.nodes))
        return bool(self.mask[action])

    def decide(self, action: int) -> float:
        """Carry out a legal flat action; what it was worth."""
        decision = from_action(action, len(self.workload.nodes))
        if isinstance(decision, Place):
            decision = Place(decision.node, int(self._devices[decision.node]))
        return self.apply(decision)

    def apply(self, decision: Decision, *, instead_of_illegal: bool = False) -> float:
        """Carry out a decision; what it was worth."""
        self._was_illegal = instead_of_illegal
        before = self._judge.look()
        self.world.apply(decision)
        placed = self._judge.look()
        self._look()
        return self._judge.worth(before, placed)

    def observed(self) -> Observed:
        """The decision at hand in the chosen encoding; zeros when the run is over."""
        nodes = len(self.workload.nodes)
        if self.settings.encoding != "features":
            if self.observation is None:
                return np.zeros(2 * nodes + 2, dtype=np.float32)
            return simulator_vector(self.observation).astype(np.float32)
        if self.observation is None:
            features = np.zeros((nodes, len(PAIR_FEATURES)), dtype=np.float32)
            context = np.zeros(len(CONTEXT_FEATURES), dtype=np.float32)
        else:
            features, self._devices = self._encoder.nodes(self.observation, self.mask)
            context = self._encoder.context(self.observation, self.mask)
        return {"nodes": features, "context": context, "action_mask": self.mask.astype(np.int8)}

    def info(self) -> dict[str, Any]:
        """What is known beside the observation."""
        info: dict[str, Any] = {
            "now": float(self.world.run.clock[0]),
            "illegal": self._was_illegal,
        }
        if self.observation is None:
            info["measures"] = self.world.outcome().measures
        else:
            info["pod"] = self.observation.subject.name
        return info

    def describe(self) -> list[str]:
        """The moment in words: the pod, then one line per node."""
        observation = self.observation
        if observation is None:
            return [f"{self.workload.name}: the run is over at {self.world.run.clock[0]:g} s"]
        asks = observation.subject.spec
        lines = [
            f"{self.workload.name} at {observation.now:g} s: {observation.subject.name} asks for "
            f"{asks.requests.cpu}m CPU, {asks.requests.memory / GIB:.3g} GiB, "
            f"{asks.gpu.count} x {asks.gpu.milli}m GPU"
        ]
        for n, node in enumerate(self.workload.nodes):
            verdict = "may take it" if self.mask[n] else "may not"
            if self.mask[len(self.workload.nodes) + n]:
                verdict = "after eviction"
            free = observation.state.free[n, COL_CPU]
            lines.append(f"  {node.name:<16} {free:>8}m of {node.allocatable.cpu:>8}m CPU free  {verdict}")
        return lines


@dataclass(frozen=True)
class _Glance:
    """The figures of a run that rewards are computed from."""

    now: float
    used: float
    lost: int


class _Judge:
    """Turns two moments of a run into a reward."""

    def __init__(self, world: PodsWorld, reward: Reward) -> None:
        self._run = world.run
        self._reward = reward
        nodes = world.cluster.nodes
        gpus = float(nodes.gpu_count.sum()) * GPU_WHOLE
        self._column = len(world.compiled.columns) if gpus else COL_CPU
        self._capacity = gpus or max(float(nodes.allocatable[:, COL_CPU].sum()), 1.0)
        work = np.where(np.isfinite(world.run.work), world.run.work, 0.0)
        self._total_work = max(float(work.sum()), 1.0)
        # As long as the whole workload: no pod that is ever run should take longer.
        arrivals = world.run.arrival
        self._lost_seconds = float(
            arrivals.max(initial=0.0) - arrivals.min(initial=0.0) + work.max(initial=0.0)
        )

    def look(self) -> _Glance:
        """The figures now."""
        lost = int(self._lost().sum()) if self._reward == "completion" else 0
        return _Glance(float(self._run.clock[0]), float(self._run.used[self._column]), lost)

    def worth(self, before: _Glance, placed: _Glance) -> float:
        """The reward for a decision between two glances, the world having run on since the second."""
        if self._reward == "allocation":
            return rewards.allocation(before.used, placed.used, self._capacity)
        after = self.look()
        seconds = rewards.pod_seconds(self._run.arrival, self._leaving_times(), before.now, after.now)
        return rewards.completion(seconds, after.lost - before.lost, self._lost_seconds, self._total_work)

    def _leaving_times(self) -> F64:
        """When each pod left the system, infinite for those still there; a pod that never ends leaves as it
        starts, for then it waits no more."""
        run = self._run
        left = np.where(np.isnan(run.finished), np.inf, run.finished)
        left = np.where(np.isinf(run.work) & ~np.isnan(run.started), run.started, left)
        return np.where(self._lost(), -np.inf, left)

    def _lost(self) -> Bool:
        """Which pods will never run, or run again."""
        lost: Bool = (self._run.status == REJECTED) | (self._run.status == FAILED)
        return lost


@dataclass(frozen=True)
class _Maker:
    """From a seed to a workload; a value, so that environments can be copied and sent to other processes."""

    source: PodScenario | Callable[[int], Workload]
    generator: Mapping[str, Any]

    def __call__(self, seed: int) -> Workload:
        """The workload of that seed."""
        if not isinstance(self.source, PodScenario):
            return self.source(seed)
        drawn = seed_of("train", seed, SEEDS_APART)  # episodes are to learn from: no test plays them
        if self.generator:
            return generate(self.source.name, drawn, **self.generator)
        return self.source.source.load(drawn)


def _workload_maker(
    scenario: PodScenario | Workload | Callable[[int], Workload], generator: Mapping[str, Any]
) -> Callable[[int], Workload]:
    if generator and not (isinstance(scenario, PodScenario) and scenario.name in PRESETS):
        raise UsageError("generator options need a scenario that is a preset of the generator")
    if isinstance(scenario, Workload):
        return _Always(scenario)
    return _Maker(scenario, generator)


@dataclass(frozen=True)
class _Always:
    """One workload for every episode."""

    workload: Workload

    def __call__(self, seed: int) -> Workload:
        return self.workload


def _usual_options(scenario: object) -> PodsOptions:
    """Where pods never leave, one that finds no room is dropped, as in the published experiment."""
    return scenario.options if isinstance(scenario, PodScenario) else PodsOptions()


def _named(name: str, data: Path | str | None) -> PodScenario:
    """The scenario of that name; its files lie in the data folder."""
    folder = Path(data) if data is not None else None
    return parse_scenario(name, None if name.partition("@")[0] in PRESETS else data_dir(folder))


def _space(encoding: Encoding, nodes: int) -> spaces.Space[Any]:
    if encoding != "features":
        high = np.full(2 * nodes + 2, 1.0, dtype=np.float32)
        high[2 * nodes :] = _LARGEST_TASK
        return spaces.Box(np.zeros_like(high), high, dtype=np.float32)
    bound = np.float32(LARGEST_FEATURE)
    return spaces.Dict(
        {
            "nodes": spaces.Box(-bound, bound, (nodes, len(PAIR_FEATURES)), np.float32),
            "context": spaces.Box(-bound, bound, (len(CONTEXT_FEATURES),), np.float32),
            "action_mask": spaces.MultiBinary(action_count(nodes)),
        }
    )
