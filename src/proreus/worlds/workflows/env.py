"""`proreus/Workflows-v0`: the world of workflows for Gymnasium, one placement (or pass) per step.

An observation has a row of features for each numbered action (`encoding.rows`): n places the task on offer on
machine n, the last one passes it over. `WholeWorkflow` answers another question: one action,
MultiDiscrete, places a whole workflow at once.

>>> import gymnasium, proreus.envs
>>> env = gymnasium.make("proreus/Workflows-v0", scenario="busy")
>>> observation, info = env.reset(seed=1)
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from proreus.base_env import OwnReward, Stepped, WorldEnv
from proreus.contract.scenario import PARTS, Part
from proreus.data.catalogue import data_dir
from proreus.kernels.arrays import F32, Bool
from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.workflows.encoding.rows import LARGEST_FEATURE, SIZES, encode, rows_for
from proreus.worlds.workflows.model import Assign
from proreus.worlds.workflows.scenarios import WorkflowsScenario, parse_scenario
from proreus.worlds.workflows.simulation.run import WorkflowsRun
from proreus.worlds.workflows.state.columns import NOW
from proreus.worlds.workflows.state.graph import GRAPH_FEATURES

Illegal = Literal["first", "raise"]
Observed: TypeAlias = dict[str, Any]
_HIGHEST = LARGEST_FEATURE
_SEEDS = 1_000_000


class WorkflowsKeywords(TypedDict, total=False):
    """What every environment takes besides its own."""

    illegal: Illegal
    reward: OwnReward


class WorkflowsEnv(WorldEnv):
    """Place one task per step; the sum of rewards is minus rent and penalties, or minus the makespan.

    `info` has `action_mask`, whether the action was `illegal`, and the time `now`; after the last step the
    `measures` of the episode.
    """

    def __init__(
        self,
        scenario: str = "busy",
        *,
        data: Path | str | None = None,
        part: Part = "train",
        seed: int | None = None,
        render_mode: str | None = None,
        **settings: Unpack[WorkflowsKeywords],
    ) -> None:
        """`illegal`: an illegal action counts as the first legal one, or raises; a `reward` is a function
        that takes the place of the world's."""
        illegal = (settings.get("illegal", "first"), "first")
        super().__init__(seed=seed, render_mode=render_mode, illegal=illegal, reward=settings.get("reward"))
        if part not in PARTS:
            raise unknown_name("part", str(part), PARTS)
        folder = data_dir(None if data is None else Path(data)) if "/" in scenario else None
        self.scenario: WorkflowsScenario = parse_scenario(scenario, folder).of_part(part)
        rows, machines = rows_for(self.scenario.terms.nodes), self.scenario.terms.nodes
        self.machines = machines
        self._rows = np.zeros((rows, SIZES[0]), dtype=np.float32)
        self._context = np.zeros(SIZES[1], dtype=np.float32)
        self._fits = np.zeros(rows, dtype=np.uint8)
        self.action_space = spaces.Discrete(rows)
        self.observation_space = spaces.Dict(
            {
                "rows": spaces.Box(-_HIGHEST, _HIGHEST, self._rows.shape, np.float32),
                "context": spaces.Box(-_HIGHEST, _HIGHEST, self._context.shape, np.float32),
                "action_mask": spaces.MultiBinary(rows),
            }
        )
        self.run: WorkflowsRun | None = None
        self._illegal = False

    def _begin(self, options: dict[str, Any]) -> None:
        drawn = int(self.np_random.integers(_SEEDS))
        self.run = self.scenario.start(self.scenario.load(drawn), drawn)
        self._illegal = False

    def _act(self, action: int) -> float:
        run, legal = self._going(), self.action_masks()
        self._illegal = not (0 <= action < legal.size and legal[action])
        if self._illegal:
            self._refuse(f"action {action} is masked")
            action = int(np.argmax(legal))
        return run.apply(action)

    def place(self, assigned: list[Assign]) -> Stepped:
        """Several placements as one step."""
        run, self._illegal = self._going(), False
        return self._stepped(sum(run.apply(assignment) for assignment in assigned))

    def action_masks(self) -> Bool:
        """bool[K]: the legal actions now, under the name that sb3-contrib looks for."""
        seen = None if self.run is None else self.run.next_decision()
        return np.ones(self._fits.size, dtype=np.bool_) if seen is None else seen.action_mask()

    def _now(self) -> tuple[Observed, bool, bool, dict[str, Any]]:
        assert self.run is not None
        over = self.run.next_decision() is None
        info: dict[str, Any] = {"illegal": self._illegal, "now": float(self.run.state.figure[NOW])}
        if over:
            info["measures"] = dict(self.run.outcome().measures)
        return self._observed(over=over), over, False, info

    def _lines(self) -> list[str]:
        """The machines."""
        return [] if self.run is None else list(self.run.screen())

    def _going(self) -> WorkflowsRun:
        if self.run is None or self.run.next_decision() is None:
            raise UsageError("reset the environment before its first step, and after an episode")
        return self.run

    def _observed(self, *, over: bool) -> Observed:
        if over or self.run is None:
            return {
                "rows": np.zeros_like(self._rows),
                "context": np.zeros_like(self._context),
                "action_mask": np.zeros_like(self._fits, dtype=np.int8),
            }
        encode(self.run.work, self.run.state, self._rows, self._context, self._fits)
        return {
            "rows": np.clip(self._rows, -_HIGHEST, _HIGHEST),
            "context": np.clip(self._context, -_HIGHEST, _HIGHEST),
            "action_mask": self._fits.astype(np.int8),
        }


class WholeWorkflow(gymnasium.Wrapper[Observed, Any, Observed, np.int64], RecordConstructorArgs):
    """One action places all tasks of the workflow that has come: MultiDiscrete, a machine for each task.

    Tasks are placed in the order of their ranks, each as early as its inputs allow. Workflows have different
    numbers of tasks: those beyond the last are padding, and what is chosen for them counts for nothing. The
    numbers are chosen independently of each other: a joint capacity cannot be masked, which is why the
    environment inside decides task by task.
    """

    def __init__(self, env: gymnasium.Env[Observed, np.int64], most_tasks: int = 64) -> None:
        RecordConstructorArgs.__init__(self, most_tasks=most_tasks)
        gymnasium.Wrapper.__init__(self, env)
        inner = env.unwrapped
        if not isinstance(inner, WorkflowsEnv):
            raise UsageError("WholeWorkflow wraps proreus/Workflows-v0")
        if most_tasks < 1:
            raise UsageError(f"most_tasks: {most_tasks} is not at least 1")
        # Whole workflows are planned when they come, before any of their tasks has run.
        inner.scenario = replace(inner.scenario, ahead=True, largest=most_tasks)
        self._inner, self._most, self._machines = inner, most_tasks, inner.machines
        self.action_space = spaces.MultiDiscrete([self._machines] * most_tasks)
        self.observation_space = spaces.Dict(
            {
                "tasks": spaces.Box(0.0, _HIGHEST, (most_tasks * (len(GRAPH_FEATURES) + 1),), np.float32),
                "machines": spaces.Box(0.0, 1.0, (self._machines * 4,), np.float32),
            }
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observed, dict[str, Any]]:
        _, info = self.env.reset(seed=seed, options=options)
        return self._seen(), {**info, "action_mask": self.action_masks()}

    def step(self, action: Any) -> tuple[Observed, float, bool, bool, dict[str, Any]]:
        """Place the workflow."""
        begin, end = self._at_hand()
        reward, ended = 0.0, False
        info: dict[str, Any] = {}
        chosen = np.asarray(action, dtype=np.int64)
        while not ended:
            seen = self._inner.run.next_decision() if self._inner.run is not None else None
            ready = [] if seen is None else [task for task in seen.ready.tolist() if begin <= task < end]
            if not ready:
                break
            placed = [Assign(ready[0], int(chosen[ready[0] - begin]))]
            _, worth, ended, _, info = self._inner.place(placed)
            reward += worth
        return self._seen(), reward, ended, False, {**info, "action_mask": self.action_masks()}

    def action_masks(self) -> Bool:
        """bool[most_tasks * machines]: for padding only machine 0, which counts for nothing."""
        begin, end = self._at_hand()
        mask = np.zeros((self._most, self._machines), dtype=np.bool_)
        mask[:, 0] = True
        mask[: end - begin] = True
        return mask.ravel()

    def _at_hand(self) -> tuple[int, int]:
        """The first task of the workflow at hand, and the first behind it."""
        run = self._inner.run
        seen = None if run is None else run.next_decision()
        if run is None or seen is None:
            return 0, 0
        number = int(run.work.workflow[int(seen.ready[0])])
        return int(run.work.first[number]), int(run.work.first[number + 1])

    def _seen(self) -> Observed:
        begin, end = self._at_hand()
        tasks = np.zeros((self._most, len(GRAPH_FEATURES) + 1), dtype=np.float32)
        machines = np.zeros((self._machines, 4), dtype=np.float32)
        run = self._inner.run
        if run is not None and end > begin:
            work, state = run.work, run.state
            tasks[: end - begin, 0] = 1.0
            tasks[: end - begin, 1:] = work.graph[begin:end]
            now = float(state.figure[NOW])
            machines[:, 0] = work.speed / work.speed.max()
            machines[:, 1] = work.price / max(float(work.price.max()), 1e-12)
            machines[:, 2] = state.until > now
            ahead = np.maximum(state.busy_until - now, 0.0)
            machines[:, 3] = ahead / (1.0 + ahead)
        flat: F32 = tasks.ravel()
        return {"tasks": flat, "machines": machines.ravel()}
