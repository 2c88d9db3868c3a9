"""`proreus/VirtualMachines-v0`: the world of virtual machines for Gymnasium, one placement per step.

`SchedEnv` has VMAgent's names: `obs` is what is free on every NUMA node, `req` (also `feat`) what the
request takes, `avail` where it may go; an action is server * 2 + NUMA node, -1 is first fit and -2 (true)
best fit. For many at once use `worlds.vms.training.lanes.BatchedVms`, which learners step without
Gymnasium.

>>> import gymnasium, proreus
>>> env = gymnasium.make("proreus/VirtualMachines-v0", scenario="recovering", servers=20)
>>> observation, info = env.reset(seed=1, options={"start": 500})
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

import numpy as np
from gymnasium import spaces

from proreus.base_env import OwnReward, WorldEnv, own_reward
from proreus.data.catalogue import data_dir
from proreus.kernels.arrays import F32, Bool
from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.vms.datasets.generator import generate_vms
from proreus.worlds.vms.datasets.huawei import Split, read_trace, run_end, split_range
from proreus.worlds.vms.encoding.rows import CONTEXT_FEATURES, ROW_FEATURES, encode_servers, numa_size
from proreus.worlds.vms.model import DoubleRule, Full, ServerShape, VmTrace
from proreus.worlds.vms.scenarios import VmScenario, parse_vm_scenario
from proreus.worlds.vms.simulation.columns import MACHINE
from proreus.worlds.vms.simulation.screen import server_lines
from proreus.worlds.vms.simulation.world import (
    BEST_FIT_ACTION,
    FIRST_FIT_ACTION,
    Reward,
    VmsOptions,
    VmsWorld,
    compile_trace,
    spane_length,
    with_servers,
)
from proreus.worlds.vms.state.observation import VmObservation
from proreus.worlds.vms.state.servers import UNITS, first_place, tightest_place

Illegal = Literal["first_fit", "raise"]
Rows = Literal["machines", "events"]
Encoding = Literal["arrays", "rows"]
Observed: TypeAlias = dict[str, Any]
_GENERATED_MACHINES = 20_000
_ATTRIBUTES = ("avail", "req", "feat", "obs", "t", "start")
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "illegal": ("raise", "first_fit"),
    "rows": ("machines", "events"),
    "part": ("train", "valid", "test"),
    "encoding": ("arrays", "rows"),
}


@dataclass(frozen=True)
class SchedSettings:
    """What differs from the scenario, and where episodes start."""

    servers: int | None = None
    """How many servers; None: as the scenario has it."""
    shapes: str = ""
    """Mixed servers in place of equal ones, as 3x40/90+2x64/256 (count x cores/GB of a NUMA node)."""
    double: str = ""
    """Which machines take both NUMA nodes, as mem>10, cpu>10 or cpu>=10; "": the scenario's rule."""
    allow_release: bool | None = None
    """Whether deleted machines give back what they took; None: as the scenario has it."""
    full: Full | None = None
    """A machine that fits nowhere ends the episode, is rejected or waits; None: as the scenario has it."""
    reward: Reward | None = None
    """What a placement is worth: 1, its cores as a share, or -log(1 + wait); None: as the scenario has it.
    The environment takes a function of your own as well: reward(env, worth, info)."""
    illegal: Illegal = "first_fit"
    """What an illegal action does: count as first fit, or raise IllegalDecision."""
    rows: Rows = "machines"
    """What a start counts: machines, or rows of the event table as in VMAgent."""
    part: Split = "train"
    """The part of the trace from which starts are drawn where none is given. Episodes of train and valid end
    with their part; a `start` beyond it ends with the part in which it lies. SPANE's length is kept as it is:
    it may lead some hundred machines past the border."""
    limit: int = 0
    """Machines of an episode; 0: to the part's end, or SPANE's length where machines wait."""
    encoding: Encoding = "arrays"
    """What is observed: VMAgent's `obs`, `feat` and `avail`; or what the package's own networks see, `rows`
    (one for each action), `context` and `action_mask`."""

    def __post_init__(self) -> None:
        if self.servers is not None:
            _whole("servers", self.servers, least=1)
        _whole("limit", self.limit, least=0)
        if self.allow_release not in (None, True, False):
            raise UsageError(f"allow_release: {self.allow_release!r} is neither True nor False")
        for name in ("shapes", "double"):
            if not isinstance(getattr(self, name), str):
                raise UsageError(f"{name}: {getattr(self, name)!r} is no text")
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise unknown_name(name, str(getattr(self, name)), known)

    def options(self, options: VmsOptions) -> VmsOptions:
        """The world's options: the scenario's with these changes."""
        if self.servers is not None:
            options = with_servers(options, self.servers)
        changes: dict[str, Any] = {
            "servers": ServerShape.parse(self.shapes) if self.shapes else None,
            "double": DoubleRule.parse(self.double) if self.double else None,
            "release": self.allow_release,
            "full": self.full,
            "reward": self.reward,
        }
        return replace(options, **{key: value for key, value in changes.items() if value is not None})


class SchedKeywords(TypedDict, total=False):
    """The fields of `SchedSettings` as keyword arguments, so that `gymnasium.make` can pass them."""

    servers: int | None
    shapes: str
    double: str
    allow_release: bool | None
    full: Full | None
    reward: Reward | OwnReward | None
    illegal: Illegal
    rows: Rows
    part: Split
    limit: int
    encoding: Encoding


class SchedEnv(WorldEnv):
    """Place one virtual machine per step; observations are dicts of `obs`, `feat` and `avail`, or of `rows`.

    `info` has `action_mask` (the same as `avail`), the time `now`, how long the machine has `waited`, the
    `action` that was carried out and whether the one asked for was `illegal`; after the last step what the
    episode came to.
    """

    def __init__(
        self,
        scenario: str | VmScenario = "recovering",
        *,
        trace: VmTrace | Path | str | None = None,
        seed: int | None = None,
        render_mode: str | None = None,
        data: Path | str | None = None,
        **settings: Unpack[SchedKeywords],
    ) -> None:
        """`trace`: machines, or the file that holds them; None: generated ones, the same in every episode.

        `data`: the folder of datasets, as --data; else PROREUS_DATA or what was fetched.
        """
        given: dict[str, Any] = {**settings}
        own = own_reward(given)
        known = [field.name for field in fields(SchedSettings)]
        for name in given:
            if name not in known:
                raise unknown_name("setting", name, known)
        self.settings = SchedSettings(**given)
        illegal = (self.settings.illegal, "first_fit")
        super().__init__(seed=seed, render_mode=render_mode, illegal=illegal, reward=own)
        vm_scenario = _checked(_named(scenario, data) if isinstance(scenario, str) else scenario)
        self.options = self.settings.options(vm_scenario.options)
        self.trace = _trace_of(vm_scenario.file if trace is None else trace)
        self.world = VmsWorld(compile_trace(self.trace, self.options.double), self.options)
        self._last = -1
        self._illegal = False
        count = self.options.server_count
        self.N = count
        self.action_space = spaces.Discrete(2 * count)
        self._size = numa_size(self.options.servers) if self.settings.encoding == "rows" else None
        self.observation_space = self._space()
        self._observation: VmObservation | None = None

    def reset(
        self,
        start: int | None = None,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observed, dict[str, Any]]:
        """Start an episode at a row of the trace: `start`, options={"start": row}, or drawn by the seed."""
        reset_options = {**(options or {}), **({} if start is None else {"start": start})}
        return super().reset(seed=seed, options=reset_options)

    def _begin(self, options: dict[str, Any]) -> None:
        for name in options:
            if name != "start":
                raise unknown_name("option of reset", str(name), ("start",))
        start = options.get("start")
        machine = self._drawn_start() if start is None else self._machine_at(_whole("start", start, least=0))
        self.world.begin(machine, self._limit(machine))
        self._last, self._illegal = -1, False
        self._observation = self.world.next_decision()
        if self._observation is None:
            raise UsageError(f"start {machine}: the machine there fits on no server, even an empty one")

    def _act(self, action: int) -> float:
        """Place the machine at hand; -1 leaves the choice to first fit, -2 to best fit."""
        self._last = self._place(action, self._at_hand())
        reward = self.world.apply(self._last)
        self._observation = self.world.next_decision()
        return reward

    def _now(self) -> tuple[Observed, bool, bool, dict[str, Any]]:
        return self._observed(), self._observation is None, False, self._info()

    @property
    def avail(self) -> Bool:
        """[2N] where the request may go; `avail.reshape(N, 2)` is by server."""
        if self._observation is None:
            return np.zeros(2 * self.N, dtype=np.bool_)
        return self._observation.avail.copy()

    @property
    def obs(self) -> F32:
        """[N, 2, 2] cores and GB free on every NUMA node."""
        free: F32 = self.world.lanes.servers.shown[0].copy()
        return free

    @property
    def req(self) -> F32:
        """[2, 2, 2] what the request takes of each NUMA node, by the NUMA node that is chosen."""
        if self._observation is None:
            return np.zeros((2, 2, 2), dtype=np.float32)
        return self._observation.feat

    feat = req

    @property
    def start(self) -> int:
        """The row at which the episode began: of events the first creation from there on."""
        return self._row_of(self.world.figures().start)

    @property
    def t(self) -> int:
        """The row of the request at hand; after the last one, that of the last."""
        return self._row_of(int(self.world.lanes.tally[0, MACHINE]))

    def _row_of(self, machine: int) -> int:
        machine = min(machine, len(self.trace) - 1)
        if self.settings.rows == "machines":
            return machine
        return int(np.argmax(self.trace.events == machine))

    def get_attr(self, name: str) -> Any:
        """`avail`, `req`, `feat`, `obs`, `t` or `start` by name, as VMAgent's learners ask for them."""
        if name not in _ATTRIBUTES:
            raise unknown_name("attribute", name, _ATTRIBUTES)
        return getattr(self, name)

    def action_masks(self) -> Bool:
        """bool[2N]: the legal actions now, under the name that sb3-contrib looks for."""
        mask = self.avail
        return mask if mask.any() else np.ones_like(mask)

    def _lines(self) -> list[str]:
        """The servers as bars."""
        servers = self.world.lanes.servers
        lines = server_lines(servers.capacity, servers.free[0], self.world.figures().servers, self._last)
        return [self._headline(), *lines]

    def _headline(self) -> str:
        figures = self.world.figures()
        done = f"{figures.placed:,} placed, {100 * figures.cpu_end:.0f} % of the cores in use"
        if self._observation is None:
            return f"the episode is over: {done}"
        need = self._observation.feat[0]
        both = " on both NUMA nodes" if need[1].any() else ""
        asks = f"next asks for {need[0, 0]:g} cores, {need[0, 1]:g} GB{both}"
        return f"t={self._observation.now:,.0f} s: {done}; {asks}"

    def _at_hand(self) -> VmObservation:
        if self._observation is None:
            raise UsageError("reset the environment before its first step, and after an episode")
        return self._observation

    def _place(self, action: int, observation: VmObservation) -> int:
        self._illegal = False
        if action == BEST_FIT_ACTION:
            return int(tightest_place(observation.servers, observation.flavours, 0, observation.flavour))
        legal = 0 <= action < 2 * self.N and bool(observation.avail[action])
        if legal:
            return action
        if action != FIRST_FIT_ACTION:
            self._refuse(f"action {action}: the machine does not fit there")
            self._illegal = True
        return int(first_place(observation.servers, 0, observation.flavour))

    def _space(self) -> spaces.Dict:
        asked = np.array([self.trace.cpu.max(), self.trace.mem.max()], dtype=np.float32)
        places = spaces.MultiBinary(2 * self.N)
        if self._size is not None:
            # A place is told as it would be afterwards too: below nothing where the machine does not fit.
            most = 1.0 + float((asked / self._size).max())
            return spaces.Dict(
                {
                    "rows": spaces.Box(-most, most, (2 * self.N, len(ROW_FEATURES)), np.float32),
                    "context": spaces.Box(0.0, most, (len(CONTEXT_FEATURES),), np.float32),
                    "action_mask": places,
                }
            )
        room = (self.world.lanes.servers.capacity / UNITS).astype(np.float32)
        return spaces.Dict(
            {
                "obs": spaces.Box(np.zeros_like(room), room, dtype=np.float32),
                "feat": spaces.Box(0.0, np.broadcast_to(asked, (2, 2, 2)), (2, 2, 2), np.float32),
                "avail": places,
            }
        )

    def _observed(self) -> Observed:
        avail = self.avail.astype(np.int8)
        if self._size is None:
            return {"obs": self.obs, "feat": self.req, "avail": avail}
        choice = encode_servers(self.obs[None], self.req[None], avail[None], self._size)
        return {"rows": choice.rows[0], "context": choice.context[0], "action_mask": avail}

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"action": self._last, "illegal": self._illegal}
        figures = self.world.figures()
        info["now"] = float(self.trace.arrival[figures.start]) + figures.duration
        if self._observation is None:
            info["placed"], info["rejected"] = figures.placed, figures.rejected
            info["total_wait"], info["full"] = figures.wait, figures.full
        else:
            info["waited"] = self._observation.waited
        return info

    def _drawn_start(self) -> int:
        first, last = split_range(self.settings.part, len(self.trace))
        for _ in range(1000):
            machine = int(self.np_random.integers(first, last))
            self.world.begin(machine, 1)
            if self.world.next_decision() is not None:
                return machine
        raise UsageError("no start of the trace fits on an empty cluster")

    def _machine_at(self, row: int) -> int:
        """The machine that a start names; of events the first creation from there on, as in VMAgent."""
        if self.settings.rows == "machines":
            return row
        if not 0 <= row < self.trace.events.size:
            raise UsageError(f"start {row}: the trace has the event rows 0 to {self.trace.events.size - 1}")
        later = self.trace.events[row:]
        if not (later >= 0).any():
            raise UsageError(f"start {row}: no machine is created from there on")
        return int(later[np.argmax(later >= 0)])

    def _limit(self, machine: int) -> int:
        limit = self.settings.limit
        if not limit and self.options.full == "wait":
            return spane_length(self.world, machine)
        end = run_end(self.settings.part, machine, len(self.trace))
        if end == len(self.trace):
            return limit  # a run to the trace's end sees the deletions after the last creation too
        return min(limit or end, end - machine)


def _whole(name: str, value: object, least: int) -> int:
    """The whole number that a setting must be."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise UsageError(f"{name}: {value!r} is not a whole number of at least {least}")
    return int(value)


def _named(name: str, data: Path | str | None) -> VmScenario:
    """The scenario of that name, as the command line has it; a dataset lies in the data folder."""
    folder = Path(data) if data is not None else None
    return parse_vm_scenario(name, data_dir(folder) if "/" in name else None)


def _checked(scenario: VmScenario) -> VmScenario:
    if scenario.load_factor > 1:
        raise UsageError(
            f"scenario {scenario.name!r}: an episode has the load of the trace itself, without x"
        )
    return scenario


def _trace_of(trace: VmTrace | Path | str | None) -> VmTrace:
    if trace is None:
        return generate_vms(_GENERATED_MACHINES, 0)
    return trace if isinstance(trace, VmTrace) else read_trace(Path(trace))
