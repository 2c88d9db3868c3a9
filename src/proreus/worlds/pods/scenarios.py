"""What policies are compared on: where a workload comes from, and how the world treats its pods.

The command line turns its arguments into scenarios with `parse_scenario` or `FromFiles`; `trials` sends them
to worker processes, so every source is a small picklable value that loads its workload where it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, Protocol, assert_never

from proreus.contract.world import Played, World
from proreus.kube import manifests
from proreus.model.errors import InputError, UsageError, unknown_name
from proreus.model.workload import Workload
from proreus.reading.catalogue import folder_for, known
from proreus.worlds.pods import world as pods
from proreus.worlds.pods.policies.catalogue import PolicyOptions, make_policy
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.state.compile import Compiled, compile_workload
from proreus.worlds.pods.traces import alibaba2025, gavel, k8ssim, openb
from proreus.worlds.pods.traces.datasets import DATASETS, load
from proreus.worlds.pods.traces.generate import PRESETS, generate

_MOST_NODES = 100_000
FileFormat = Literal["openb", "k8ssim", "manifests", "alibaba2025", "gavel"]

# Nobody leaves in these, so a pod that finds no room is dropped, as in the published experiment.
_ARRIVALS_ONLY_PRESETS = frozenset({"gpu"})
_ARRIVALS_ONLY_FAMILIES = ("openb/", "openb-mix/")


class Source(Protocol):
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

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.dataset

    def load(self, seed: int) -> Workload:
        """The dataset as a workload."""
        return load(self.dataset, self.data, seed)


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
class Scenario:
    """A source of workloads and the rules they run under."""

    source: Source
    options: PodsOptions = field(default_factory=PodsOptions)

    @property
    def name(self) -> str:
        """The source's name."""
        return self.source.name

    @property
    def world(self) -> World:
        """The world of pods."""
        return pods.PODS

    @property
    def deciding(self) -> tuple[str, ...]:
        """Room where nobody leaves, time elsewhere."""
        return pods.DECIDES_WITHOUT_QUEUE if self.options.drop_failures else pods.DECIDES_WITH_QUEUE

    @property
    def telling(self) -> tuple[str, ...]:
        """Measures worth a column of a narrow table."""
        return pods.TELLING_WITHOUT_QUEUE if self.options.drop_failures else pods.TELLING_WITH_QUEUE

    @property
    def remarks(self) -> tuple[str, ...]:
        """What happens to pods that find no room."""
        dropped = self.options.drop_failures
        return ("pods that find no room are dropped" if dropped else "pods wait until there is room",)

    def check_policy(self, policy: str, options: PolicyOptions | None) -> None:
        """Whether there is such a policy."""
        make_policy(policy, options)

    def load(self, seed: int) -> Compiled:
        """The workload of that seed, compiled."""
        return compile_workload(self.source.load(seed))

    def play(
        self, work: Compiled, policy: tuple[str, PolicyOptions | None], seed: int, *, with_picture: bool
    ) -> Played:
        """A run of the policy of that name and options."""
        made = make_policy(*policy, seed=seed)
        return pods.play(work, made, self.options, with_picture=with_picture)


def parse_scenario(text: str, data_dir: Path | None) -> Scenario:
    """The scenario of that name: a preset of the generator (gpu, gpu@1000), or a dataset under `data_dir`."""
    preset, at, size = text.partition("@")
    if preset in PRESETS:
        if at and not (size.isdecimal() and 0 < int(size) <= _MOST_NODES):
            raise UsageError(f"scenario {text!r}: after @ comes a number of nodes up to {_MOST_NODES:,}")
        source = Generated(preset, int(size) if at else None)
        return Scenario(source, PodsOptions(drop_failures=preset in _ARRIVALS_ONLY_PRESETS))
    datasets = known(DATASETS, data_dir)
    # A family whose files are not here is listed as a pattern; which members it has shows when it is loaded.
    if "*" in text or not any(fnmatchcase(text, name) for name in datasets):
        raise unknown_name("scenario", text, [*PRESETS, *datasets])
    options = PodsOptions(drop_failures=text.startswith(_ARRIVALS_ONLY_FAMILIES))
    return Scenario(FromCatalogue(text, folder_for(text, data_dir)), options)
