"""Windows of requests as scenarios of the world `rebalance`, by name.

`windows/serial`, `windows/parallel`: generated pods and requests, another set for every seed;
`windows/serial@20` has 20 nodes.
`windows/huawei-serial`: machines of the Huawei trace as requests, dealt to pods in turn.
`windows/monitor`: pods of a small Kubernetes cluster as a monitor saw them every five minutes.
Every run covers the last quarter of the windows; training sees the first part only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from proreus.contract.scenario import Headings, Part, seed_of
from proreus.contract.variation import Variation
from proreus.data.catalogue import data_dir, files_of
from proreus.model.errors import InputError, UsageError, unknown_name
from proreus.worlds.rebalance.windows.datasets.catalogue import DATASETS
from proreus.worlds.rebalance.windows.datasets.generator import WindowsConfig, generate_windows
from proreus.worlds.rebalance.windows.datasets.layout import read_layout
from proreus.worlds.rebalance.windows.datasets.tables import (
    EvenSpread,
    cleaned_file,
    read_huawei_stream,
    read_monitor,
    read_requests,
)
from proreus.worlds.rebalance.windows.model import PARTS, RequestWindows, part_of_windows
from proreus.worlds.rebalance.windows.simulation.run import WindowSimulation
from proreus.worlds.rebalance.windows.simulation.world import RewardWeights, WindowsOptions, WindowsWorld

_SHORTEST = 36
"""Windows of a run over a file, where there are so many."""
SEEDS_APART = 1_000_000
"""Generated windows to train or validate on come from seeds this far away from those of the test."""


@dataclass(frozen=True)
class WindowScenario:
    """A part of the windows of one deployment; small, and loaded where it is needed."""

    name: str
    options: WindowsOptions = field(default_factory=WindowsOptions)
    config: WindowsConfig = field(default_factory=WindowsConfig)
    """Of generated windows."""
    source: str = ""
    """"huawei", "monitor" or "requests": a kind of file; "": generated."""
    file: Path | None = None
    layout: Path | None = None
    """Nodes and pods of the requests, in the JSON layout of VMAgent's DeployEnv."""
    part: Part = "test"
    """Of the windows, in order of time: train, valid or test."""

    world: ClassVar[str] = "rebalance"

    @property
    def headings(self) -> Headings:
        """The requests above the threshold decide."""
        how = "one after the other" if self.options.service == "serial" else "in groups that add up"
        return Headings(
            deciding=("violations",),
            telling=("violations", "hit", "migrations", "over_steps", "reward", "windows_per_s"),
            remarks=(
                f"requests of a pod are served {how}",
                f"threshold {self.options.threshold:.0%}, at most {self.options.budget} migrations a window",
                f"the {self.part} part of the windows",
            ),
        )

    def windows(self, seed: int) -> RequestWindows:
        """The windows of that seed; those of a file are always the same."""
        if self.file is not None:
            together = self.options.group if self.options.service == "parallel" else 1
            where = self.layout or EvenSpread(self.config.nodes, together)
            return windows_in(self.source, self.file, where)
        config = replace(self.config, adds_up=self.options.service == "parallel")
        return generate_windows(config, seed_of(self.part, seed, SEEDS_APART))

    def load(self, seed: int) -> WindowsWorld:
        """The world of that seed."""
        return WindowsWorld(self.windows(seed), self.options)

    def played_part(self, world: WindowsWorld, seed: int) -> tuple[int, int]:
        """[first, last) window of a run: the whole part, or for a file the seed's stretch of a day of it."""
        first, last = part_of_windows(self.part, world.windows.windows)
        if self.file is None:
            return first, last
        length = min(288, max((last - first) // 20, _SHORTEST), last - first)
        begin = first + (seed * length) % (last - first - length + 1)
        return begin, begin + length

    def caution(self, seeds: Sequence[int]) -> str:
        """What to tell where several seeds play the same recorded windows, so that they are no sample."""
        if self.file is None:
            return ""
        world = self.load(0)
        stretches = len({self.played_part(world, seed) for seed in seeds})
        if stretches == len(seeds):
            return ""
        return (
            f"{self.name}: the {self.part} part of the recorded windows has {stretches} stretches for "
            f"{len(seeds)} seeds; intervals over seeds that repeat them are too narrow"
        )

    def start(self, work: WindowsWorld, seed: int) -> WindowSimulation:
        """A run over the seed's part of the windows."""
        return WindowSimulation(work, self.played_part(work, seed))

    def varied(self, variation: Variation) -> WindowScenario:
        """With more asked of the nodes; pods have their places, no node can be taken away."""
        if variation.without or self.file is not None:
            raise UsageError(f"{self.name}: its pods have their places, and its nodes stay")
        return replace(self, config=replace(self.config, load=self.config.load * variation.load))

    def of_part(self, part: Part) -> WindowScenario:
        """The same in another part of the windows."""
        return replace(self, part=part)

    def yardstick(self) -> tuple[str, tuple[str, ...]]:
        """The hotspot rule."""
        return "violations", ("hotspot",)

    def to_json(self) -> dict[str, Any]:
        """The name, and what the flags changed; paths are absolute, for a run may go on elsewhere."""
        base = _base_of(self.name)
        entry: dict[str, Any] = {"name": self.name}
        if base not in _KINDS or self.options != _KINDS[base][1]:
            entry["options"] = asdict(self.options)
        if self.source == "requests" and self.file is not None:
            layout = None if self.layout is None else str(self.layout.resolve())
            entry |= {"requests": str(self.file.resolve()), "layout": layout, "nodes": self.config.nodes}
        elif self.config != WindowsConfig():
            entry["config"] = asdict(self.config)
        return entry if self.part == "test" else {**entry, "part": self.part}


def check_stretches(scenario: WindowScenario, least: int) -> None:
    """Refuse recorded windows of which the part to play has fewer stretches beside each other."""
    if scenario.file is None:
        return
    windows = scenario.windows(0).windows
    first, last = part_of_windows(scenario.part, windows)
    if last - first < least * _SHORTEST:
        begin, end = PARTS[scenario.part]
        raise InputError(
            f"{windows} windows of five minutes are too few to learn from one part and judge by another: "
            f"{round(least * _SHORTEST / (end - begin))}",
            file=scenario.file,
        )


@lru_cache(maxsize=2)
def windows_in(source: str, file: Path, where: Path | EvenSpread) -> RequestWindows:
    """The windows in a file, read once."""
    match source:
        case "huawei":
            return read_huawei_stream(file)
        case "monitor":
            return read_monitor(file)
        case _:
            return read_requests(file, read_layout(where) if isinstance(where, Path) else where)


_KINDS = {
    "windows/serial": ("", WindowsOptions()),
    "windows/parallel": ("", WindowsOptions(service="parallel")),
    "windows/huawei-serial": ("huawei", WindowsOptions()),
    "windows/huawei-parallel": ("huawei", WindowsOptions(service="parallel")),
    "windows/monitor": ("monitor", WindowsOptions()),
}


def parse_window_scenario(text: str, data: Path | None) -> WindowScenario:
    """The scenario of that name; `windows/serial@20`: with 20 nodes and as many pods on each."""
    base, at, size = text.partition("@")
    if base not in _KINDS:
        raise unknown_name("scenario", text, _KINDS)
    source, options = _KINDS[base]
    if at:
        if source or not size.isdecimal():
            raise UsageError(
                f"scenario {text!r}: generated windows may have a number of nodes, windows/serial@20"
            )
        usual = WindowsConfig()
        return WindowScenario(
            text, options, replace(usual, nodes=int(size), pods=int(size) * usual.pods // usual.nodes)
        )
    if not source:
        return WindowScenario(text, options)
    (file,) = files_of(DATASETS, f"windows/{source}", data)
    return WindowScenario(text, options, source=source, file=file)


def _base_of(name: str) -> str:
    return name.partition(":")[0].partition("@")[0]


def needs_data(name: str) -> bool:
    """Whether a scenario of that name reads a dataset."""
    base = _base_of(name)
    return base in _KINDS and bool(_KINDS[base][0])


def with_changes(scenario: WindowScenario, **changes: Any) -> WindowScenario:
    """The scenario with some of its options changed, those that are not None."""
    given = {name: value for name, value in changes.items() if value is not None}
    return replace(scenario, options=replace(scenario.options, **given))


def with_requests(scenario: WindowScenario, file: Path, layout: Path | None, nodes: int) -> WindowScenario:
    """The scenario with requests of one's own, on nodes of one's own or on so many equal ones."""
    if scenario.file is not None:
        raise UsageError(f"--requests is your own: choose a generated scenario, not {scenario.name!r}")
    file = cleaned_file(file)
    config = replace(scenario.config, nodes=nodes)
    name = f"{scenario.name}:{file.name}"
    return replace(scenario, name=name, source="requests", file=file, layout=layout, config=config)


def window_scenario_from_json(entry: Mapping[str, Any], data: Path | None = None) -> WindowScenario:
    """The scenario that `to_json` described; a KeyError, TypeError or UsageError where it is none."""
    name = str(entry["name"])
    needed = data is not None or needs_data(name)
    scenario = parse_window_scenario(name.partition(":")[0], data_dir(data) if needed else None)
    if entry.get("requests"):
        layout = Path(entry["layout"]) if entry.get("layout") else None
        scenario = with_requests(scenario, Path(entry["requests"]), layout, int(entry["nodes"]))
    if entry.get("config"):
        scenario = replace(scenario, config=WindowsConfig(**entry["config"]))
    scenario = replace(scenario, part=entry.get("part", "test"))
    if entry.get("options") is None:
        return scenario
    given = {**entry["options"], "weights": RewardWeights(**entry["options"]["weights"])}
    return replace(scenario, options=WindowsOptions(**given))
