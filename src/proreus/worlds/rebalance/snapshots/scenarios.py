"""Snapshots of clusters as scenarios of the world `rebalance`, by name.

`snapshot`, `snapshot-small`, `snapshot-large`: generated, another one for every seed; `snapshot@100` has 100
machines. `bytedance`: the public snapshot, always the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from proreus.contract.heat import heat_map
from proreus.contract.replay import Levels, Move, Replay, Stage, Tell, levels_of, replay_of
from proreus.contract.world import Picture, Played, Recording, World
from proreus.kernels.arrays import F64
from proreus.model.errors import UsageError, unknown_name
from proreus.reading.catalogue import files_of
from proreus.worlds.rebalance.snapshots.model import CPU, Snapshot, Stop
from proreus.worlds.rebalance.snapshots.policies.catalogue import make_snapshot_policy
from proreus.worlds.rebalance.snapshots.policies.policy import SnapshotPolicy
from proreus.worlds.rebalance.snapshots.simulation.world import (
    SnapshotOptions,
    SnapshotOutcome,
    SnapshotWorld,
)
from proreus.worlds.rebalance.snapshots.state import fragment_shares
from proreus.worlds.rebalance.snapshots.traces.bytedance import read_snapshot
from proreus.worlds.rebalance.snapshots.traces.datasets import DATASETS
from proreus.worlds.rebalance.snapshots.traces.generate import PRESETS, generate_snapshot
from proreus.worlds.rebalance.world import REBALANCE

BYTEDANCE = "bytedance"
SNAPSHOT_SCENARIOS = (*PRESETS, BYTEDANCE)
_MOST_MACHINES = 10_000


def load_kernels() -> None:
    """Compile what the runs need, or load it from the cache."""
    for policy in ("greedy_fragment", "search"):
        warm_up(policy)


@lru_cache(maxsize=1)
def _tiny() -> Snapshot:
    return generate_snapshot("snapshot-small", 0, 2)


@lru_cache(maxsize=64)
def warm_up(policy: str) -> None:
    """Load the policy's machine code once in a process, so that times are those of deciding alone."""
    play_snapshot(_tiny(), make_snapshot_policy(policy), SnapshotOptions(budget=1))


def is_snapshot(text: str) -> bool:
    """Whether a scenario's name is one of a snapshot."""
    return text.partition("@")[0] in SNAPSHOT_SCENARIOS


@dataclass(frozen=True)
class SnapshotScenario:
    """A snapshot to reschedule; small, and loaded where it is needed."""

    name: str
    options: SnapshotOptions = field(default_factory=SnapshotOptions)
    machines: int | None = None
    """Of a generated one; None: as many as the preset has."""
    file: Path | None = None

    @property
    def world(self) -> World:
        """The world of rebalancing."""
        return REBALANCE

    @property
    def deciding(self) -> tuple[str, ...]:
        """What is left of the fragments."""
        return ("fragment_rate",)

    @property
    def telling(self) -> tuple[str, ...]:
        """Measures worth a column of a narrow table."""
        return ("fragment_rate", "fragment_reduction", "moves", "migrated_memory", "plan_seconds")

    @property
    def remarks(self) -> tuple[str, ...]:
        """How far it may go."""
        budget, size = self.options.budget, self.options.fragment_size
        return (f"at most {budget} migrations", f"pieces of {size} cores")

    def check_policy(self, policy: str, options: None) -> None:
        """Whether there is such a policy."""
        make_snapshot_policy(policy)

    def load(self, seed: int) -> Snapshot:
        """The snapshot of that seed; that of a file is always the same."""
        if self.file is not None:
            return _read_once(self.file)
        return generate_snapshot(self.name.partition("@")[0], seed, self.machines)

    def play(self, work: Snapshot, policy: tuple[str, Any], seed: int, *, with_picture: bool) -> Played:
        """All migrations of the policy of that name."""
        chosen = make_snapshot_policy(policy[0], seed)
        warm_up(policy[0])
        if not with_picture:
            return Played(play_snapshot(work, chosen, self.options).outcome.measures, None)
        states: list[Levels] = []
        moves: list[tuple[Move, ...]] = []

        def watch(world: SnapshotWorld, move: Move | None) -> None:
            states.append(_levels(world))
            moves.append(() if move is None else (move,))

        run = play_snapshot(work, chosen, self.options, watch)
        replay = replay_of(_stage(work, self.options), states, moves, _told(run.rates))
        return Played(run.outcome.measures, _picture(work, run, replay))


@dataclass(frozen=True, eq=False)
class SnapshotRun:
    """What a policy did to a snapshot."""

    outcome: SnapshotOutcome
    rates: F64
    """[moves + 1] fragment rate, in %, before the first and after each migration."""
    use: F64
    """[moves + 1, machines] share of the cores in use."""
    after: Snapshot
    """Where everything stands in the end."""


Watch = Callable[[SnapshotWorld, Move | None], None]
"""Sees the world before the first migration (None) and after each."""


def play_snapshot(
    snapshot: Snapshot, policy: SnapshotPolicy, options: SnapshotOptions, watch: Watch | None = None
) -> SnapshotRun:
    """Migrate until the policy stops or the budget is spent; the time is that of the decisions alone."""
    world = SnapshotWorld(snapshot, options)
    cores = snapshot.total[:, :, CPU].sum(axis=1)
    use, seconds = [_use(world, cores)], 0.0
    if watch is not None:
        watch(world, None)
    while True:
        begin = time.perf_counter()
        observation = world.next_decision()
        if observation is None:
            break
        decision = policy.decide(observation)
        seconds += time.perf_counter() - begin
        if isinstance(decision, Stop):
            world.apply(decision)
            break
        before = world.machines.machine.copy()
        world.apply(decision)
        use.append(_use(world, cores))
        if watch is not None:
            watch(world, Move(snapshot.vms[decision.unit], int(before[decision.unit]), decision.target))
    outcome = world.outcome()
    measures = {**outcome.measures, "plan_seconds": seconds}
    rates = [outcome.measures["fragment_rate_before"], *(100 * row[3] for row in outcome.log)]
    return SnapshotRun(
        SnapshotOutcome(measures, outcome.log), np.array(rates), np.array(use), world.snapshot_now()
    )


def _use(world: SnapshotWorld, cores: F64) -> F64:
    free = world.machines.free[:, :, CPU].sum(axis=1)
    share: F64 = 1.0 - free / np.maximum(cores, 1)
    return share


def _picture(snapshot: Snapshot, run: SnapshotRun, replay: Replay) -> Picture:
    moves = np.arange(len(run.rates), dtype=np.float64)
    recording = Recording(moves, {"fragments": run.rates, "moves": moves})
    facts = (f"{len(snapshot.machines):,} machines", f"{len(snapshot.vms):,} virtual machines")
    return Picture(recording, heat_map(run.use.astype(np.float32), moves), facts, replay)


def _stage(snapshot: Snapshot, options: SnapshotOptions) -> Stage:
    gauges = ("CPU", "memory", f"fragment, of {options.fragment_size} cores")
    return Stage("machine", snapshot.machines, gauges, "NUMA node", colour=len(gauges) - 1)


def _levels(world: SnapshotWorld) -> Levels:
    used = 1.0 - world.machines.free / np.maximum(world.snapshot.total, 1)
    return levels_of(np.concatenate([used, fragment_shares(world.machines)[:, :, None]], axis=2))


def _told(rates: F64) -> Tell:
    def tell(before: int, at: int) -> str:
        rate = f"fragment rate {rates[at]:.2f} %"
        if at == 0:
            return f"before the first migration, {rate}"
        which = f"migration {at}" if before == at - 1 else f"migrations {before + 1} to {at}"
        return f"{which}, {rate}"

    return tell


@lru_cache(maxsize=2)
def _read_once(file: Path) -> Snapshot:
    return read_snapshot(file)


def own_snapshot(file: Path, budget: int | None = None) -> SnapshotScenario:
    """The snapshot in a file of one's own, in the layout of the public one."""
    options = SnapshotOptions() if budget is None else SnapshotOptions(budget=budget)
    return SnapshotScenario(f"snapshot:{file.name}", options, file=file)


def parse_snapshot_scenario(text: str, data: Path | None, budget: int | None = None) -> SnapshotScenario:
    """The scenario of that name."""
    preset, at, size = text.partition("@")
    options = SnapshotOptions() if budget is None else SnapshotOptions(budget=budget)
    if preset == BYTEDANCE and not at:
        (file,) = files_of(DATASETS, BYTEDANCE, data)
        return SnapshotScenario(text, options, file=file)
    if preset not in PRESETS:
        raise unknown_name("scenario", text, SNAPSHOT_SCENARIOS)
    if at and not (size.isdecimal() and 1 <= int(size) <= _MOST_MACHINES):
        raise UsageError(f"scenario {text!r}: after @ comes a number of machines up to {_MOST_MACHINES:,}")
    return SnapshotScenario(text, options, int(size) if at else None)
