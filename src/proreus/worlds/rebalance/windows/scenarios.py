"""The world of windows as comparisons see it, and its scenarios by name.

`windows/serial`, `windows/parallel`: generated pods and requests, another set for every seed.
`windows/huawei-serial`: machines of the Huawei trace as requests, dealt to pods in turn.
`windows/monitor`: pods of a small Kubernetes cluster as a monitor saw them every five minutes.
Every run covers the last quarter of the windows; training sees the first part only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from proreus.contract.world import Picture, Played, World
from proreus.kernels.arrays import F64
from proreus.model.errors import UsageError, unknown_name
from proreus.reading.catalogue import files_of
from proreus.reading.cleaning.clean import REQUESTS_FILE, WINDOWS_FILE
from proreus.worlds.rebalance.windows.model import RequestWindows, part_of_windows
from proreus.worlds.rebalance.windows.play import pictured, play_part, replayed
from proreus.worlds.rebalance.windows.policies.catalogue import make_move_policy
from proreus.worlds.rebalance.windows.simulation.outcome import measures_of
from proreus.worlds.rebalance.windows.simulation.world import DeployOptions, DeployWorld
from proreus.worlds.rebalance.windows.traces.datasets import DATASETS
from proreus.worlds.rebalance.windows.traces.generate import WindowsConfig, generate_windows
from proreus.worlds.rebalance.windows.traces.layout import read_layout
from proreus.worlds.rebalance.windows.traces.tables import (
    EvenSpread,
    read_huawei_stream,
    read_monitor,
    read_requests,
)
from proreus.worlds.rebalance.world import REBALANCE

CLEANED = (REQUESTS_FILE, WINDOWS_FILE)
"""What `proreus data clean` writes, the finer of them first."""
_TRAINING_SEEDS = 1_000_000
"""Generated windows to train or validate on come from seeds this far away from those of the test."""


def load_kernels() -> None:
    """Compile what the runs need, or load it from the cache."""
    scenario = WindowScenario("warm-up", config=WindowsConfig(nodes=2, pods=3, windows=8))
    scenario.play(scenario.load(0), ("hotspot", None), 0, with_picture=False)


@dataclass(frozen=True)
class WindowScenario:
    """A part of the windows of one deployment; small, and loaded where it is needed."""

    name: str
    options: DeployOptions = field(default_factory=DeployOptions)
    config: WindowsConfig = field(default_factory=WindowsConfig)
    """Of generated windows."""
    source: str = ""
    """"huawei", "monitor" or "requests": a kind of file; "": generated."""
    file: Path | None = None
    layout: Path | None = None
    """Nodes and pods of the requests, in the JSON layout of VMAgent's DeployEnv."""
    part: str = "test"
    """Of the windows, in order of time: train, valid or test."""

    @property
    def world(self) -> World:
        """The world of rebalancing."""
        return REBALANCE

    @property
    def deciding(self) -> tuple[str, ...]:
        """The requests above the threshold."""
        return ("violations",)

    @property
    def telling(self) -> tuple[str, ...]:
        """Measures worth a column of a narrow table."""
        return ("violations", "hit", "migrations", "over_steps", "reward", "decisions_per_s")

    @property
    def remarks(self) -> tuple[str, ...]:
        """How requests are served and pods may move."""
        how = "one after the other" if self.options.service == "serial" else "in groups that add up"
        return (
            f"requests of a pod are served {how}",
            f"threshold {self.options.threshold:.0%}, at most {self.options.budget} migrations a window",
            f"the {self.part} part of the windows",
        )

    def check_policy(self, policy: str, options: None) -> None:
        """Whether there is such a policy."""
        make_move_policy(policy)

    def windows(self, seed: int) -> RequestWindows:
        """The windows of that seed; those of a file are always the same."""
        if self.file is not None:
            together = self.options.group if self.options.service == "parallel" else 1
            where = self.layout or EvenSpread(self.config.nodes, together)
            return windows_in(self.source, self.file, where)
        far = 0 if self.part == "test" else _TRAINING_SEEDS * (1 + (self.part == "valid"))
        return generate_windows(replace(self.config, adds_up=self.options.service == "parallel"), far + seed)

    def load(self, seed: int) -> DeployWorld:
        """The world of that seed."""
        return DeployWorld(self.windows(seed), self.options)

    def played_part(self, world: DeployWorld, seed: int) -> tuple[int, int]:
        """[first, last) window of a run: the whole part, or for a file the seed's stretch of a day of it."""
        first, last = part_of_windows(self.part, world.windows.windows)
        if self.file is None:
            return first, last
        length = min(288, max((last - first) // 20, 36), last - first)
        begin = first + (seed * length) % (last - first - length + 1)
        return begin, begin + length

    def repeats(self, seeds: Sequence[int]) -> str:
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

    def play(self, work: DeployWorld, policy: tuple[str, Any], seed: int, *, with_picture: bool) -> Played:
        """The part of the windows with the policy of that name."""
        chosen, part = make_move_policy(policy[0], seed), self.played_part(work, seed)
        outcomes, use, seconds = play_part(work, chosen, part)
        found = self.measures(outcomes, seconds)
        if not with_picture:
            return Played(found, None)
        deployment = work.windows.deployment
        sizes = (f"{len(deployment.node_names):,} nodes", f"{len(deployment.pod_names):,} pods")
        facts = (*sizes, f"{len(outcomes):,} windows")
        return Played(found, Picture(*pictured(outcomes, use), facts, replayed(work, chosen, part)))

    def measures(self, outcomes: F64, seconds: float) -> dict[str, float]:
        """What a run came to, and how fast it was."""
        found = measures_of(outcomes, self.options.weights)
        return {**found, "decisions_per_s": len(outcomes) / max(seconds, 1e-9)}


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
    "windows/serial": ("", DeployOptions()),
    "windows/parallel": ("", DeployOptions(service="parallel")),
    "windows/huawei-serial": ("huawei", DeployOptions()),
    "windows/huawei-parallel": ("huawei", DeployOptions(service="parallel")),
    "windows/monitor": ("monitor", DeployOptions()),
}
WINDOW_SCENARIOS = tuple(_KINDS)


def parse_window_scenario(text: str, data: Path | None) -> WindowScenario:
    """The scenario of that name."""
    if text not in _KINDS:
        raise unknown_name("scenario", text, _KINDS)
    source, options = _KINDS[text]
    if not source:
        return WindowScenario(text, options)
    (file,) = files_of(DATASETS, f"windows/{source}", data)
    return WindowScenario(text, options, source=source, file=file)


def with_changes(scenario: WindowScenario, **changes: Any) -> WindowScenario:
    """The scenario with some of its options changed, those that are not None."""
    given = {name: value for name, value in changes.items() if value is not None}
    return replace(scenario, options=replace(scenario.options, **given))


def with_requests(scenario: WindowScenario, file: Path, layout: Path | None, nodes: int) -> WindowScenario:
    """The scenario with requests of one's own, on nodes of one's own or on so many equal ones."""
    if scenario.file is not None:
        raise UsageError(f"--requests is your own: choose a generated scenario, not {scenario.name!r}")
    if file.is_dir():  # as cleaning leaves it; whole windows where it was told to leave the requests out
        file = next((file / name for name in CLEANED if (file / name).is_file()), file / CLEANED[0])
    config = replace(scenario.config, nodes=nodes)
    name = f"{scenario.name}:{file.name}"
    return replace(scenario, name=name, source="requests", file=file, layout=layout, config=config)
