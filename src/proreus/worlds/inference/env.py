"""`proreus/Inference-v0`: a service of a language model for Gymnasium, one change of its pools per step.

An observation has a row of features for each pool and a context for all (`encoding.pools`). An action is the
number of a change: so many instances more or fewer in each pool, so many migrated (`model.decision.Steps`).
What an interval is worth named objectives say: promises, cost, stability, utilisation, energy.

>>> import gymnasium, proreus.envs
>>> env = gymnasium.make("proreus/Inference-v0", scenario="surge", objectives={"slo": 4.0, "cost": 1.0})
>>> observation, info = env.reset(seed=1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

import numpy as np
from gymnasium import spaces

from proreus.base_env import OwnReward, WorldEnv, own_reward
from proreus.contract.scenario import PARTS, Part
from proreus.kernels.arrays import Bool
from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.inference.encoding.pools import MOST, SIZES, encode
from proreus.worlds.inference.model.decision import NOTHING, ScaleSteps
from proreus.worlds.inference.model.objectives import Objectives
from proreus.worlds.inference.scenarios import InferenceScenario, parse
from proreus.worlds.inference.simulation.world import InferenceRun
from proreus.worlds.inference.state.observation import InferenceObservation

Illegal = Literal["nothing", "raise"]
Observed: TypeAlias = dict[str, Any]
_SEEDS = 1_000_000


@dataclass(frozen=True)
class InferenceSettings:
    """What differs from the scenario."""

    part: Part = "train"
    """The part of the scenario that episodes are drawn from."""
    illegal: Illegal = "nothing"
    """What an illegal action does: change nothing, or raise IllegalDecision."""
    objectives: Objectives | Mapping[str, float] | None = None
    """Weights by name; None: as the scenario has them."""

    def __post_init__(self) -> None:
        if self.part not in PARTS:
            raise unknown_name("part", str(self.part), PARTS)


class InferenceKeywords(TypedDict, total=False):
    """The fields of `InferenceSettings` as keyword arguments, and a reward of one's own."""

    part: Part
    illegal: Illegal
    objectives: Objectives | Mapping[str, float] | None
    reward: OwnReward


class InferenceEnv(WorldEnv):
    """Scale the pools of a service once per step.

    `info` has `action_mask`, whether the action was `illegal`, and the time `now`; after the last step the
    `measures` of the episode.
    """

    def __init__(
        self,
        scenario: str | InferenceScenario = "steady",
        *,
        seed: int | None = None,
        render_mode: str | None = None,
        data: Path | str | None = None,
        **settings: Unpack[InferenceKeywords],
    ) -> None:
        """`data`: the folder of datasets, as --data; else PROREUS_DATA or what was fetched."""
        given: dict[str, Any] = {**settings}
        own = own_reward(given)
        known = [field.name for field in fields(InferenceSettings)]
        for name in given:
            if name not in known:
                raise unknown_name("setting", name, known)
        self.settings = InferenceSettings(**given)
        illegal = (self.settings.illegal, "nothing")
        super().__init__(seed=seed, render_mode=render_mode, illegal=illegal, reward=own)
        inference_scenario = (
            parse(scenario, None if data is None else Path(data)) if isinstance(scenario, str) else scenario
        )
        if self.settings.objectives is not None:
            control = replace(inference_scenario.control, objectives=_weights(self.settings.objectives))
            inference_scenario = replace(inference_scenario, control=control)
        self.scenario: InferenceScenario = inference_scenario.of_part(self.settings.part)
        # Pools and steps are those of the cluster, whatever comes to it: a second of work shows them.
        short = replace(
            self.scenario, source="generated", load_=replace(inference_scenario.load_, rate=1.0, seconds=30.0)
        )
        seen = short.start(short.load(0), 0).next_decision()
        assert seen is not None
        self.steps: ScaleSteps = seen.steps
        self._shapes = {"pools": (len(seen.pools), SIZES[0]), "context": (SIZES[1],)}
        self.action_space = spaces.Discrete(len(self.steps))
        self.observation_space = spaces.Dict(
            {name: spaces.Box(-MOST, MOST, shape, np.float32) for name, shape in self._shapes.items()}
        )
        self.run: InferenceRun | None = None
        self._illegal = False

    def action_masks(self) -> Bool:
        """bool[K]: the legal actions now, under the name that sb3-contrib looks for."""
        seen = self._seen()
        return np.ones(len(self.steps), dtype=np.bool_) if seen is None else seen.action_mask()

    def _begin(self, options: dict[str, Any]) -> None:
        for name in options:
            raise unknown_name("option of reset", str(name), ())
        drawn = int(self.np_random.integers(_SEEDS))
        self.run = self.scenario.start(self.scenario.load(drawn), drawn)
        self._illegal = False

    def _act(self, action: int) -> float:
        seen = self._seen()
        if self.run is None or seen is None:
            raise UsageError("reset the environment before its first step, and after an episode")
        legal = seen.action_mask()
        self._illegal = not (0 <= action < legal.size and legal[action])
        if self._illegal:
            self._refuse(f"action {action} is masked")
            return self.run.apply(NOTHING)
        return self.run.apply(action)

    def _now(self) -> tuple[Observed, bool, bool, dict[str, Any]]:
        seen, run = self._seen(), self.run
        assert run is not None
        info: dict[str, Any] = {"illegal": self._illegal, "now": run.cluster.now}
        if seen is None:
            info["measures"] = dict(run.outcome().measures)
            empty = {name: np.zeros(shape, dtype=np.float32) for name, shape in self._shapes.items()}
            return empty, True, False, info
        pools, context = encode(seen)
        return {"pools": pools, "context": context}, False, False, info

    def _lines(self) -> Sequence[str]:
        return [] if self.run is None else self.run.screen()

    def _seen(self) -> InferenceObservation | None:
        return None if self.run is None else self.run.next_decision()


def _weights(given: Objectives | Mapping[str, float]) -> Objectives:
    if isinstance(given, Objectives):
        return given
    known = [field.name for field in fields(Objectives)]
    for name in given:
        if name not in known:
            raise unknown_name("objective", name, known)
    return Objectives(**given)
