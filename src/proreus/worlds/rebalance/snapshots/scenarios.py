"""Snapshots of clusters as scenarios of the world `rebalance`, by name.

`snapshot`, `snapshot-small`, `snapshot-large`: generated, another one for every seed; `snapshot@100` has 100
machines. `bytedance`: the public snapshot, always the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from proreus.contract.scenario import Headings, Part, seed_of
from proreus.data.catalogue import data_dir, files_of
from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.rebalance.snapshots.datasets.bytedance import read_snapshot
from proreus.worlds.rebalance.snapshots.datasets.catalogue import DATASETS
from proreus.worlds.rebalance.snapshots.datasets.generator import PRESETS, generate_snapshot
from proreus.worlds.rebalance.snapshots.model import Snapshot
from proreus.worlds.rebalance.snapshots.simulation.world import SnapshotOptions, SnapshotWorld

BYTEDANCE = "bytedance"
SNAPSHOT_SCENARIOS = (*PRESETS, BYTEDANCE)
_MOST_MACHINES = 10_000
_SEEDS_APART = 1_000_000


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
    part: Part = "test"
    """Which seeds snapshots are drawn with."""
    strict: bool = False
    """Refuse a file in which a NUMA node lists more free and in use than it has."""

    world: ClassVar[str] = "rebalance"

    @property
    def headings(self) -> Headings:
        """What is left of the fragments decides."""
        return Headings(
            deciding=("fragment_rate",),
            telling=("fragment_rate", "fragment_reduction", "moves", "migrated_memory", "plan_seconds"),
            remarks=(
                f"at most {self.options.budget} migrations",
                f"pieces of {self.options.fragment_size} cores",
            ),
        )

    def load(self, seed: int) -> Snapshot:
        """The snapshot of that seed; that of a file is always the same."""
        if self.file is not None:
            return _read_once(self.file, self.strict)
        drawn = seed_of(self.part, seed, _SEEDS_APART)
        return generate_snapshot(self.name.partition("@")[0], drawn, self.machines)

    def start(self, work: Snapshot, seed: int) -> SnapshotWorld:
        """The snapshot before its first migration."""
        return SnapshotWorld(work, self.options)

    def of_part(self, part: Part) -> SnapshotScenario:
        """The same with the seeds of another part; a snapshot in a file is always the same."""
        return replace(self, part=part)

    def caution(self, seeds: Sequence[int]) -> str:
        """A file is one snapshot, whatever the seed, and may contradict itself."""
        if self.file is None:
            return ""
        cautions = [self.load(0).mended]
        if len(seeds) > 1:
            cautions.append(f"one snapshot, the same for all {len(seeds)} seeds; only chance differs")
        return "; ".join(f"{self.name}: {text}" for text in cautions if text)

    def yardstick(self) -> tuple[str, tuple[str, ...]]:
        """The strongest rule that looks one migration ahead."""
        return "fragment_rate", ("greedy_fragment", "hotspot")

    def to_json(self) -> dict[str, Any]:
        """The name, the options and the file of one's own."""
        own = self.file is not None and ":" in self.name
        entry: dict[str, Any] = {"name": self.name, "options": asdict(self.options)}
        if self.part != "test":
            entry["part"] = self.part
        if self.strict:
            entry["strict"] = True
        return {**entry, "snapshot": str(self.file.resolve())} if own and self.file is not None else entry


@lru_cache(maxsize=2)
def _read_once(file: Path, strict: bool) -> Snapshot:
    return read_snapshot(file, strict=strict)


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


def snapshot_scenario_from_json(entry: Mapping[str, Any], data: Path | None = None) -> SnapshotScenario:
    """The scenario that `to_json` described; a KeyError, TypeError or UsageError where it is none."""
    name = str(entry["name"])
    if entry.get("snapshot"):
        scenario = own_snapshot(Path(entry["snapshot"]))
    else:
        needed = data is not None or name == BYTEDANCE
        scenario = parse_snapshot_scenario(name, data_dir(data) if needed else None)
    options, strict = SnapshotOptions(**entry["options"]), bool(entry.get("strict"))
    return replace(scenario, options=options, part=entry.get("part", "test"), strict=strict)
