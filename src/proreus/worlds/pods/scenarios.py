"""What policies are compared on: where a workload comes from, and how the world treats its pods.

The command line turns its arguments into scenarios with `parse_scenario` or `FromFiles`; `trials` sends them
to worker processes, so every source is a small picklable value that loads its workload where it is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any, ClassVar, Literal, Protocol, assert_never

from proreus.contract.scenario import Headings, Part, seed_of
from proreus.contract.variation import Variation, check_some
from proreus.data.catalogue import data_dir, folder_for, known
from proreus.kube import manifests
from proreus.model.cluster_trace import ClusterTrace
from proreus.model.errors import InputError, UsageError, needs_extra, unknown_name
from proreus.model.workload import Workload
from proreus.worlds.pods.datasets import alibaba2025, gavel, k8ssim, openb
from proreus.worlds.pods.datasets.catalogue import DATASETS, load
from proreus.worlds.pods.datasets.engine_trace import TraceReplay, drawn_anew, replayed
from proreus.worlds.pods.datasets.generator import PRESETS, generate
from proreus.worlds.pods.datasets.resample import filling, part_of
from proreus.worlds.pods.simulation.world import PodsOptions, PodsWorld
from proreus.worlds.pods.state.compile import Compiled, compile_workload

_MOST_NODES = 100_000
FileFormat = Literal["openb", "k8ssim", "manifests", "alibaba2025", "gavel"]

# Nobody leaves in these, so a pod that finds no room is dropped, as in the published experiment.
_ARRIVALS_ONLY_PRESETS = frozenset({"gpu"})
_HARDLY_USED = 0.5
"""Share of the GPUs below which every policy finds room for everything."""
_ARRIVALS_ONLY_FAMILIES = ("openb/", "openb-mix/")
SEEDS_APART = 1_000

# Where nobody leaves, room is what counts; elsewhere time is.
_WITHOUT_QUEUE = Headings(
    deciding=("gpu_allocation_peak", "failures", "cpu_allocation"),
    telling=(
        "gpu_allocation_peak",
        "gpu_allocation",
        "fragmentation_end",
        "fragmentation",
        "cpu_allocation",
        "memory_allocation",
        "failures",
        "decisions_per_s",
    ),
    remarks=("pods that find no room are dropped",),
)
_WITH_QUEUE = Headings(
    deciding=("jct_mean", "wait_mean", "cpu_allocation"),
    telling=(
        "jct_mean",
        "wait_mean",
        "wait_p99",
        "makespan",
        "gpu_allocation",
        "cpu_allocation",
        "cost",
        "preemptions",
        "failures",
        "decisions_per_s",
    ),
    remarks=("pods wait until there is room",),
)


class WorkloadSource(Protocol):
    """Where a workload comes from."""

    @property
    def name(self) -> str:
        """The name in tables and reports."""
        ...

    def load(self, seed: int) -> Workload:
        """The workload for that seed; traces are the same for every seed."""
        ...


@dataclass(frozen=True)
class Generated:
    """A preset of the calibrated generator, in its own size or scaled to another."""

    preset: str
    nodes: int | None = None
    """How many nodes; None: the preset's own."""

    @property
    def name(self) -> str:
        """The preset's name, with the size where it is not its own."""
        return self.preset if self.nodes is None else f"{self.preset}@{self.nodes}"

    def load(self, seed: int) -> Workload:
        """The generated workload; the number of pods keeps pace with the number of nodes."""
        if self.nodes is None:
            return generate(self.preset, seed)
        own = PRESETS[self.preset]
        pods = None if own.pods is None else max(1, own.pods * self.nodes // own.nodes)
        return generate(self.preset, seed, nodes=self.nodes, pods=pods)


@dataclass(frozen=True)
class FromCatalogue:
    """A dataset of the catalogue."""

    dataset: str
    data: Path
    """The data folder."""
    nodes: int | None = None
    """Of an experiment that fills its nodes: how many of them; None: all."""

    @property
    def name(self) -> str:
        """The dataset's name, with the number of nodes where it is not its own."""
        return self.dataset if self.nodes is None else f"{self.dataset}@{self.nodes}"

    def load(self, seed: int) -> Workload:
        """The dataset as a workload."""
        workload = load(self.dataset, self.data, seed)
        return (
            workload
            if self.nodes is None
            else replace(openb.first_nodes(workload, self.nodes), name=self.name)
        )


@dataclass(frozen=True)
class FromFiles:
    """Files of the user's own in a format that a reader knows."""

    format: FileFormat
    pods: Path
    """The work: pods (openb, alibaba2025), jobs (k8ssim, gavel) or manifests."""
    nodes: Path | None = None
    """openb and k8ssim need it, manifests may have it; the others bring nodes that fit the work."""
    throughputs: Path | None = None
    """gavel only: the measured throughputs."""

    def __post_init__(self) -> None:
        if self.format in ("openb", "k8ssim") and self.nodes is None:
            raise UsageError(f"the format {self.format} needs a file of nodes")
        if self.format == "gavel" and self.throughputs is None:
            raise UsageError("the format gavel needs a file of throughputs")
        if self.nodes is not None and self.format in ("gavel", "alibaba2025"):
            raise UsageError(f"the format {self.format} takes no file of nodes")
        if self.throughputs is not None and self.format != "gavel":
            raise UsageError(f"the format {self.format} takes no file of throughputs")

    @property
    def name(self) -> str:
        """The format and the name of the file of pods."""
        return f"{self.format}:{self.pods.name}"

    def load(self, seed: int) -> Workload:
        """The files as a workload, the same for every seed."""
        try:
            return self._read()
        except ValueError as error:  # each file is sound, the two together are not a workload
            raise InputError(str(error), file=self.nodes or self.pods) from error

    def _read(self) -> Workload:
        match self.format:
            case "openb":
                return Workload(self.name, openb.read_nodes(self._nodes_file()), openb.read_pods(self.pods))
            case "k8ssim":
                return k8ssim.read_workload(self._nodes_file(), self.pods)
            case "manifests":
                paths = [self.pods] if self.nodes is None else [self.nodes, self.pods]
                return manifests.read_manifests(paths)
            case "alibaba2025":
                instances = alibaba2025.read_pods(self.pods)
                return Workload(self.name, alibaba2025.dlrm_nodes(instances), instances)
            case "gavel":
                return self._training_jobs()
            case _:
                assert_never(self.format)

    def _nodes_file(self) -> Path:
        assert self.nodes is not None, "checked when the source was made"
        return self.nodes

    def _training_jobs(self) -> Workload:
        assert self.throughputs is not None, "checked when the source was made"
        measured = gavel.read_throughputs(self.throughputs)
        jobs = gavel.read_jobs(self.pods, measured, gavel.Unmeasured.LEAVE_OUT)
        return Workload(self.name, gavel.nodes_for(jobs), jobs)


@dataclass(frozen=True)
class FromEngine:
    """What a cluster of the engine recorded of its pods and nodes.

    Seed 0 is as recorded; other seeds draw other pods from those that came. How long it is followed is fixed
    when it is named, so that all who load it see the same of a cluster that runs.
    """

    store: str
    """The address of the store, or the cluster's folder."""
    since: float
    """Seconds since 1970; 0: from the beginning."""
    until: float
    reader: str = "proreus.engine.trace.reader:read_trace"
    """Who reads stores is above the worlds, and is called by its name."""

    @property
    def name(self) -> str:
        """The format and the name of the store."""
        return f"engine:{PurePath(self.store).name}"

    def load(self, seed: int) -> Workload:
        """The recorded pods, or as many drawn from them."""
        replay = self.replay()
        return replay.workload if seed == 0 else drawn_anew(replay, seed)

    def replay(self) -> TraceReplay:
        """The recorded stretch."""
        return _replay(self)


@lru_cache(maxsize=8)
def _replay(source: FromEngine) -> TraceReplay:
    module, _, name = source.reader.partition(":")
    try:
        read: Callable[[str], ClusterTrace] = getattr(import_module(module), name)
    except ImportError as error:
        raise UsageError(f"--format engine {needs_extra('engine')} ({error})") from error
    try:
        return replayed(source.name, read(source.store), source.since, source.until)
    except InputError as error:
        message = str(error)
        raise InputError(message if source.store in message else f"{source.store}: {message}") from error


@dataclass(frozen=True)
class Resampled:
    """Work like that of files, drawn anew for every seed from a part of it, until the nodes are full."""

    files: FromFiles | FromEngine
    part: Part = "test"

    @property
    def name(self) -> str:
        """That of the files."""
        return self.files.name

    def load(self, seed: int) -> Workload:
        """Pods of the part, drawn with that seed."""
        workload = self.files.load(0)
        try:
            return filling(workload.nodes, part_of(workload.pods, self.part), seed)
        except InputError as error:
            where = Path(self.files.store) if isinstance(self.files, FromEngine) else self.files.pods
            raise InputError(str(error), file=where) from error


@dataclass(frozen=True)
class VariedSource:
    """The workload of a source with more pods or fewer nodes."""

    source: WorkloadSource
    variation: Variation

    @property
    def name(self) -> str:
        """That of the source."""
        return self.source.name

    def load(self, seed: int) -> Workload:
        """The workload for that seed; who was on a node that is not there comes without one."""
        workload = self.source.load(seed)
        nodes = tuple(node for at, node in enumerate(workload.nodes) if at not in self.variation.without)
        check_some([len(nodes)])
        there = {node.name for node in nodes}
        pods = tuple(
            replace(
                pod,
                name=f"{pod.name}-{copy + 1}" if copy else pod.name,
                node=pod.node if pod.node in there else "",
            )
            for pod in workload.pods
            for copy in range(self.variation.load)
        )
        return replace(workload, nodes=nodes, pods=pods)


@dataclass(frozen=True)
class PodScenario:
    """A source of workloads and the rules they run under."""

    source: WorkloadSource
    options: PodsOptions = field(default_factory=PodsOptions)
    part: Part = "test"
    """Which seeds workloads are drawn with: those of train, valid and test are a thousand apart."""

    world: ClassVar[str] = "pods"

    @property
    def name(self) -> str:
        """The source's name."""
        return self.source.name

    @property
    def headings(self) -> Headings:
        """Where nobody leaves, room is what counts; elsewhere time is."""
        return _WITHOUT_QUEUE if self.options.drop_failures else _WITH_QUEUE

    def load(self, seed: int) -> Compiled:
        """The workload of that seed, compiled."""
        return compile_workload(self.source.load(seed_of(self.part, seed, SEEDS_APART)))

    def start(self, work: Compiled, seed: int) -> PodsWorld:
        """A run over the workload."""
        return PodsWorld(work, self.options)

    def varied(self, variation: Variation) -> PodScenario:
        """With copies of the pods, or without some nodes."""
        return replace(self, source=VariedSource(self.source, variation))

    def of_part(self, part: Part) -> PodScenario:
        """The same with the seeds of another part, and with its pods where they are of one."""
        source = replace(self.source, part=part) if isinstance(self.source, Resampled) else self.source
        return replace(self, source=source, part=part)

    def caution(self, seeds: Sequence[int]) -> str:
        """Generated workloads, and experiments that draw the order of arrivals, are another for each seed;
        files are the same. Those of openb, as recorded, are not the experiment that was published on them.
        Of a cluster's own trace it is told what is replayed, and what of it could not be known."""
        if isinstance(self.source, FromEngine):
            drawn = "; seed 0 is as recorded, other seeds draw from its pods" if len(seeds) > 1 else ""
            return f"{self.name}: {self.source.replay().told}{drawn}"
        if not isinstance(self.source, FromFiles):
            return ""
        message = f"{self.name}: the same pods for every seed"
        peak = openb.recorded_peak(self.source.load(0)) if self.source.format == "openb" else 1.0
        if peak > _HARDLY_USED:
            return message if len(seeds) > 1 else ""
        return (
            f"{message}, as recorded: they ask for {100 * peak:.1f} % of the GPUs at most. The published "
            "experiment, which fills the cluster, is --scenario openb/NAME --data DIR, with the files "
            "openb_pod_list_NAME.csv and openb_node_list_gpu_node.csv in DIR/openb"
        )

    def yardstick(self) -> tuple[str, tuple[str, ...]]:
        """Room for GPUs against FGD, time against best fit; where no pod ends, who gets no node, or when."""
        valid = self.of_part("valid").load(0)
        if self.options.drop_failures and valid.cluster.nodes.gpu_count.any():
            return "gpu_allocation_peak", ("fgd",)
        if any(math.isfinite(pod.duration) for pod in valid.workload.pods):
            return "jct_mean", ("best_fit",)
        return "failures" if self.options.drop_failures else "wait_mean", ("best_fit",)

    def to_json(self) -> dict[str, Any]:
        """The scenario with its options; paths are absolute, for a run may go on in another folder."""
        if not isinstance(self.source, Generated | FromCatalogue | FromFiles | FromEngine):
            raise UsageError(f"the scenario {self.name} cannot be written down: {type(self.source).__name__}")
        kind = next(name for name, known in _KINDS.items() if isinstance(self.source, known))
        values = {
            name: str(value.resolve()) if isinstance(value, Path) else value
            for name, value in asdict(self.source).items()
        }
        entry = {"name": self.name, "kind": kind, "source": values, "options": asdict(self.options)}
        return entry if self.part == "test" else {**entry, "part": self.part}


_KINDS = {"generated": Generated, "catalogue": FromCatalogue, "files": FromFiles, "engine": FromEngine}
_PATHS: Mapping[str, frozenset[str]] = {
    "generated": frozenset(),
    "catalogue": frozenset({"data"}),
    "files": frozenset({"pods", "nodes", "throughputs"}),
    "engine": frozenset(),
}


def scenario_from_json(entry: Mapping[str, Any], data: Path | None = None) -> PodScenario:
    """The scenario that `to_json` described; `data` says that the datasets lie elsewhere now.

    Raises ValueError where the entry describes none.
    """
    try:
        kind = entry["kind"]
        values = {
            name: Path(value) if name in _PATHS[kind] and value is not None else value
            for name, value in entry["source"].items()
        }
        source = _KINDS[kind](**values)
        options = PodsOptions(**entry["options"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a scenario: {error}") from error
    if isinstance(source, FromCatalogue) and data is not None:
        source = replace(source, data=data)
    return PodScenario(source, options, entry.get("part", "test"))


def parse_scenario(text: str, data_dir: Path | None) -> PodScenario:
    """The scenario of that name: a preset of the generator (gpu, gpu@1000), or a dataset under `data_dir`
    (openb/default; openb/default@100: on so many of its nodes)."""
    plain, at, size = text.partition("@")
    filled = plain.startswith(_ARRIVALS_ONLY_FAMILIES)
    if plain in PRESETS or filled:
        if at and not (size.isdecimal() and 0 < int(size) <= _MOST_NODES):
            raise UsageError(f"scenario {text!r}: after @ comes a number of nodes up to {_MOST_NODES:,}")
    nodes = int(size) if at and size.isdecimal() else None
    if plain in PRESETS:
        options = PodsOptions(drop_failures=plain in _ARRIVALS_ONLY_PRESETS)
        return PodScenario(Generated(plain, nodes), options)
    dataset, nodes = (plain, nodes) if filled else (text, None)
    datasets = known(DATASETS, data_dir)
    # A family whose files are not here is listed as a pattern; which members it has shows when it is loaded.
    if "*" in dataset or not any(fnmatchcase(dataset, name) for name in datasets):
        raise unknown_name("scenario", text, [*PRESETS, *datasets])
    source = FromCatalogue(dataset, folder_for(dataset, data_dir), nodes)
    return PodScenario(source, PodsOptions(drop_failures=filled))


def named_scenario(text: str, data: Path | None) -> PodScenario:
    """The scenario of that name; `data` is what the user said of the data folder."""
    # Generated work needs no data folder: a stale PROREUS_DATA is no reason to refuse it.
    needed = data is not None or text.partition("@")[0] not in PRESETS
    return parse_scenario(text, data_dir(data) if needed else None)
