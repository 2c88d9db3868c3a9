"""The scenarios of the world `vms` by name.

`waiting@7`, `huawei/recovering@50`, `huawei/recovering@100x3`: an optional dataset (without one, generated
machines), a scenario, the number of servers, and how many times the real load arrives. One seed is a number
of runs, each from a start of its own; a measure is taken over them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from proreus.contract.scenario import Headings, Part, seed_of
from proreus.contract.variation import Variation, counts_without
from proreus.data.catalogue import data_dir, files_of, known
from proreus.kernels.arrays import I64
from proreus.model.errors import InputError, UsageError, unknown_name
from proreus.worlds.vms.datasets.catalogue import DATASETS
from proreus.worlds.vms.datasets.generator import generate_vms
from proreus.worlds.vms.datasets.huawei import Split, fifths, read_starts, read_trace, run_end, split_range
from proreus.worlds.vms.model import DoubleRule, ServerShape, VmTrace, part_of, superposed
from proreus.worlds.vms.simulation.columns import VmWork
from proreus.worlds.vms.simulation.runs import VmRuns, VmSimulation, planned_runs
from proreus.worlds.vms.simulation.world import SCENARIOS, VmsOptions, compile_trace, with_servers

_GENERATED_MACHINES = 40_000
_MOST_SERVERS = 10_000
_MOST_LOAD = 100
_SEEDS_APART = 1_000_000
"""Generated traces to train or validate on come from seeds this far away from those of the test."""
_NAME = r"(?:(?P<dataset>[\w-]+)/)?(?P<scenario>[\w-]+)(?:@(?P<servers>\d+))?(?:x(?P<load>\d+))?"


_CHANGES = ("starts", "limit", "only", "part", "apart")
"""What of a scenario its name does not say."""
_LEAST_MACHINES = 500
"""Of a trace that is cut in parts: fewer are no sample of anything."""

_DECIDING = {"wait": ("total_wait",), "end": ("placements",), "reject": ("rejected",)}
_TELLING = {
    "wait": ("total_wait", "total_wait_mean", "wait_mean", "waited", "cpu_allocation", "decisions_per_s"),
    "end": (
        "placements",
        "full",
        "cpu_end",
        "memory_end",
        "cpu_allocation",
        "memory_allocation",
        "servers",
        "decisions_per_s",
    ),
    "reject": ("rejected", "cpu_allocation", "memory_allocation", "servers", "decisions_per_s"),
}
_FULL_WORDS = {
    "wait": "a machine that fits nowhere waits, and all behind it",
    "end": "a run ends with the first machine that fits nowhere",
    "reject": "machines that fit nowhere are turned away",
}


@dataclass(frozen=True)
class VmScenario:
    """Runs of the world `vms`; small, and loaded where it is needed."""

    name: str
    options: VmsOptions = field(default_factory=VmsOptions)
    file: Path | None = None
    """The trace; None: generated machines."""
    lists: tuple[tuple[Split, Path], ...] = ()
    """Published lists of starts, by part of the trace."""
    load_factor: int = 1
    """How many times the trace's load arrives: parts of it are laid over each other."""
    part: Split = "test"
    """Where runs start. Those of train and valid end with their part too, but for runs of SPANE's length."""
    starts: int = 20
    """Runs per seed."""
    limit: int = 0
    """Machines of a run; 0: to the part's end, or SPANE's length where machines wait."""
    only: int | None = None
    """One run from this machine of the trace, in place of all others."""
    apart: bool = False
    """Each part of the file, in fifths of it, is a trace by itself that no run leaves."""

    def __post_init__(self) -> None:
        if self.starts < 1:
            raise UsageError(f"starts: {self.starts} is not at least 1")
        if self.limit < 0:
            raise UsageError(f"limit: {self.limit} is negative")
        if self.only is not None and self.starts != 1:
            raise UsageError(f"starts: {self.starts:,} runs cannot all be the one from a given start")

    world: ClassVar[str] = "vms"

    @property
    def headings(self) -> Headings:
        """How machines are treated says what decides."""
        full = self.options.full
        kept = () if self.options.release else ("deleted machines give nothing back",)
        rule = f"on both NUMA nodes: {self.options.double}"
        remarks = (_FULL_WORDS[full], *kept, rule, f"{self.starts:,} runs per seed")
        return Headings(_DECIDING[full], _TELLING[full], remarks)

    def load(self, seed: int) -> VmRuns:
        """The runs of that seed."""
        work, starts = self._work(seed)
        if self.only is not None:
            if not 0 <= self.only < work.flavour.size:
                raise UsageError(
                    f"start {self.only}: the trace has the machines 0 to {work.flavour.size - 1}"
                )
            starts = np.array([self.only])
        if self.file is None or self.load_factor > 1 or self.apart:
            # Generated machines are other ones in every part, laid over each other are those of one part, and
            # a part that is a trace by itself ends with it.
            return planned_runs(work, self.options, starts, self.limit)
        ends = np.array([run_end(self.part, start, work.flavour.size) for start in starts.tolist()])
        return planned_runs(work, self.options, starts, self.limit, ends)

    def start(self, work: VmRuns, seed: int) -> VmSimulation:
        """The runs of a seed, one after the other."""
        return VmSimulation(work)

    def varied(self, variation: Variation) -> VmScenario:
        """With more machines at a time, or without some servers."""
        shapes = self.options.servers
        left = counts_without([shape.count for shape in shapes], variation.without)
        servers = tuple(
            replace(shape, count=count) for shape, count in zip(shapes, left, strict=True) if count
        )
        options = replace(self.options, servers=servers)
        return replace(self, options=options, load_factor=self.load_factor * variation.load)

    def of_part(self, part: Part) -> VmScenario:
        """The same in another part of the trace."""
        return replace(self, part=part)

    def yardstick(self) -> tuple[str, tuple[str, ...]]:
        """The best of the rules: the published ones, and worst fit where machines are turned away."""
        return self.headings.deciding[0], ("first_fit", "best_fit", "balance_fit", "worst_fit")

    def to_json(self) -> dict[str, Any]:
        """The name, and what the flags changed; paths are absolute, for a run may go on elsewhere."""
        plain = VmScenario("plain")
        base = self.name.partition(":")[0]
        entry: dict[str, Any] = {"name": self.name}
        if self.options != named_options(base):
            entry["options"] = asdict(self.options)
        if base != self.name:
            entry["trace"] = str(self.file.resolve()) if self.file is not None else None
        for name in _CHANGES:
            if getattr(self, name) != getattr(plain, name):
                entry[name] = getattr(self, name)
        return entry

    def _work(self, seed: int) -> tuple[VmWork, I64]:
        if self.file is None:
            drawn = seed_of(self.part, seed, _SEEDS_APART)
            trace = generate_vms(_GENERATED_MACHINES, drawn, density=float(self.load_factor))
            return compile_trace(trace, self.options.double), self._drawn(seed, 0, len(trace) // 2)
        if self.load_factor > 1:
            return self._dense(seed)
        if self.apart:
            work = compiled_part(self.file, self.part, self.options.double)
            return work, self._drawn(seed, 0, last_start(work.flavour.size))
        machines = compiled_file(self.file, self.options.double).flavour.size
        return compiled_file(self.file, self.options.double), self.starts_of(seed, machines)

    def starts_of(self, seed: int, machines: int) -> I64:
        """Where the runs of a seed start: the seed's share of a published list, or drawn from the part."""
        listed = dict(self.lists).get(self.part)
        if listed is not None:
            published = read_starts(listed, machines)
            if self.starts > published.size:
                raise UsageError(
                    f"starts: {self.starts:,} are more than the {published.size:,} published ones of the part"
                    f" {self.part!r}"
                )
            places = (seed * self.starts + np.arange(self.starts)) % published.size
            return published[places]
        return self._drawn(seed, *split_range(self.part, machines))

    def caution(self, seeds: Sequence[int]) -> str:
        """What to tell where so many seeds play published starts more than once; "": they do not."""
        listed = dict(self.lists).get(self.part)
        if listed is None or self.only is not None:
            return ""
        published = read_starts(listed, np.iinfo(np.int64).max).size
        asked = len(seeds) * self.starts
        if asked <= published:
            return ""
        return (
            f"{self.name}: {len(seeds)} seeds of {self.starts:,} runs play the {published:,} published starts"
            f" {asked / published:.2g} times over: their intervals are too narrow"
        )

    def _drawn(self, seed: int, first: int, last: int) -> I64:
        return np.random.default_rng(seed).integers(first, last, self.starts)

    def _dense(self, seed: int) -> tuple[VmWork, I64]:
        """Pieces of the part, each half as long and from a random place on, laid over each other."""
        assert self.file is not None, "checked by the caller"
        whole = trace_of(self.file)
        first, last = split_range(self.part, len(whole))
        length = (last - first) // 2
        begins = np.random.default_rng(seed).integers(first, last - length, self.load_factor)
        pieces = [part_of(whole, int(begin), int(begin) + length) for begin in begins]
        trace = superposed(pieces, f"{whole.name}x{self.load_factor}")
        return compile_trace(trace, self.options.double), self._drawn(seed, 0, max(len(trace) // 4, 1))


@lru_cache(maxsize=2)
def trace_of(file: Path) -> VmTrace:
    """The trace in a file, read once."""
    return read_trace(file)


@lru_cache(maxsize=4)
def compiled_file(file: Path, double: DoubleRule) -> VmWork:
    """The trace in a file as columns, made once."""
    return compile_trace(trace_of(file), double)


@lru_cache(maxsize=4)
def trace_of_part(file: Path, part: Split) -> VmTrace:
    """The machines of one part of somebody's own trace, as a trace by itself."""
    whole = trace_of(file)
    if len(whole) < _LEAST_MACHINES:
        raise InputError(
            f"{len(whole)} machines are too few to learn from one part and judge by another: "
            f"{_LEAST_MACHINES}",
            file=file,
        )
    return part_of(whole, *fifths(part, len(whole)))


@lru_cache(maxsize=8)
def compiled_part(file: Path, part: Split, double: DoubleRule) -> VmWork:
    """The same as columns, made once."""
    return compile_trace(trace_of_part(file, part), double)


def last_start(machines: int) -> int:
    """Before which machine of a part runs start: those in its last quarter would be over soon."""
    return machines * 3 // 4


def named_options(text: str) -> VmsOptions | None:
    """The cluster that a scenario's name means, whatever machines come to it; None: it means none."""
    named = re.fullmatch(_NAME, text)
    known = SCENARIOS.get(named["scenario"]) if named else None
    if known is not None and named is not None and named["servers"]:
        return with_servers(known, int(named["servers"]))
    return known


def parse_vm_scenario(text: str, data: Path | None) -> VmScenario:
    """The scenario of that name: [dataset/]scenario[@servers[xload]]."""
    match = re.fullmatch(_NAME, text)
    dataset, name, servers, load = match.groups() if match else (None, text, None, None)
    datasets = known(DATASETS, data)
    if name not in SCENARIOS or (dataset is not None and dataset not in datasets):
        raise unknown_name("scenario", text, [*SCENARIOS, *(f"{each}/waiting" for each in datasets)])
    options = SCENARIOS[name]
    if servers is not None:
        if not 0 < int(servers) <= _MOST_SERVERS:
            raise UsageError(f"scenario {text!r}: after @ comes a number of servers up to {_MOST_SERVERS:,}")
        options = with_servers(options, int(servers))
    factor = int(load or 1)
    if not 0 < factor <= _MOST_LOAD:
        raise UsageError(f"scenario {text!r}: after x comes a factor of the load up to {_MOST_LOAD}")
    scenario = VmScenario(text, options, load_factor=factor)
    if dataset is None:
        return scenario
    files = files_of(DATASETS, dataset, data)
    # The published starts are those of SPANE's experiment, where machines wait.
    lists: tuple[tuple[Split, Path], ...] = ()
    if len(files) == 3 and options.full == "wait":
        lists = (("test", files[1]), ("valid", files[2]))
    return replace(scenario, file=files[0], lists=lists)


def scenario_from_json(entry: Mapping[str, Any], data: Path | None = None) -> VmScenario:
    """The scenario that `to_json` described; `data`: where the datasets lie now.

    Raises ValueError where the entry describes none.
    """
    try:
        name = str(entry["name"])
        base = name.partition(":")[0]
        scenario = parse_vm_scenario(base, data_dir(data) if "/" in base else None)
        changes: dict[str, Any] = {key: entry[key] for key in _CHANGES if key in entry}
        if entry.get("trace"):
            changes |= {"name": name, "file": Path(entry["trace"])}
        if entry.get("options") is not None:
            given = dict(entry["options"])
            given["servers"] = tuple(ServerShape(**shape) for shape in given["servers"])
            given["double"] = DoubleRule(**given["double"])
            changes["options"] = VmsOptions(**given)
        return replace(scenario, **changes)
    except (KeyError, TypeError, AttributeError, UsageError) as error:
        raise ValueError(f"not a scenario: {error}") from error
