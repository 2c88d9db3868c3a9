"""The datasets Proreus knows: which files they need, under which licence, and how to load them.

The command line calls `data_dir` once, `known` for its listings and `load` with a name. Data is never part
of the project: the folder is the user's, given with --data or in PROREUS_DATA.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from proreus.model.errors import InputError, UsageError, unknown_name
from proreus.model.workload import Workload
from proreus.worlds.pods.traces import alibaba2025, gavel, k8ssim, openb

VARIABLE = "PROREUS_DATA"
_HOW = f"point --data or {VARIABLE} at the folder that holds the datasets"


@dataclass(frozen=True)
class Dataset:
    """One dataset, or a family of them whose file names contain the last part of the dataset's name."""

    what: str
    licence: str
    files: tuple[str, ...]
    """Relative to the data folder; `*` stands for the member of the family."""
    read: Callable[[tuple[Path, ...], int], Workload] | None = None
    """From those files and a seed to a workload of pods; other worlds read the files themselves."""
    alternatives: tuple[str, ...] = ()
    """Further places for the file with the `*`."""
    world: str = "pods"
    """The world that it is work for."""


def _openb_experiment(files: tuple[Path, ...], seed: int) -> Workload:
    return openb.openb_experiment(openb.read_nodes(files[0]), openb.read_pods(files[1]), seed)


def _openb_mix(factor: float) -> Callable[[tuple[Path, ...], int], Workload]:
    """The experiment with more CPU-only pods, mixed the same way for every seed."""

    def read(files: tuple[Path, ...], seed: int) -> Workload:
        pods = openb.with_cpu_pods(openb.read_pods(files[1]), factor, seed=0)
        return openb.openb_experiment(openb.read_nodes(files[0]), pods, seed)

    return read


def _openb_trace(files: tuple[Path, ...], seed: int) -> Workload:
    return Workload("openb-trace", openb.read_nodes(files[0]), openb.read_pods(files[1]))


def _k8ssim(files: tuple[Path, ...], seed: int) -> Workload:
    return k8ssim.read_workload(files[0], files[1])


def _gavel(files: tuple[Path, ...], seed: int) -> Workload:
    throughputs = gavel.read_throughputs(files[0])
    pods = gavel.read_jobs(files[1], throughputs, gavel.Unmeasured.LEAVE_OUT)
    return Workload("gavel", gavel.nodes_for(pods), pods)


def _alibaba2025(files: tuple[Path, ...], seed: int) -> Workload:
    pods = alibaba2025.read_pods(files[0])
    return Workload("alibaba2025", alibaba2025.dlrm_nodes(pods), pods)


_OPENB_LICENCE = "Alibaba: study and research; the same files are Apache-2.0 in hkust-adsl's repository"
_K8SSIM_LICENCE = "no licence file at its root; the simulator in it is Apache-2.0"

DATASETS: MappingProxyType[str, Dataset] = MappingProxyType(
    {
        "openb/*": Dataset(
            what="Alibaba GPU cluster 2023, the published experiment: arrivals only, up to 130 % GPU load",
            licence=_OPENB_LICENCE,
            files=("openb/openb_node_list_gpu_node.csv", "openb/openb_pod_list_*.csv"),
            read=_openb_experiment,
        ),
        **{
            f"openb-mix/cpu{round(100 * factor)}": Dataset(
                what=f"the openb default experiment with {factor:g} times the CPU-only pods, our own mix",
                licence=_OPENB_LICENCE,
                files=("openb/openb_node_list_gpu_node.csv", "openb/openb_pod_list_default.csv"),
                read=_openb_mix(factor),
            )
            for factor in (2.0, 2.5, 3.0)
        },
        "openb-trace/*": Dataset(
            what="Alibaba GPU cluster 2023 with its real arrivals and departures",
            licence=_OPENB_LICENCE,
            files=("openb/openb_node_list_gpu_node.csv", "openb/openb_pod_list_*.csv"),
            read=_openb_trace,
        ),
        "k8ssim/large": Dataset(
            what="the k8s simulator's large test: 350 tasks on 500 nodes",
            licence=_K8SSIM_LICENCE,
            files=("k8ssim/nodes_500.yaml", "k8ssim/wsl_large_test.yaml"),
            read=_k8ssim,
        ),
        "k8ssim/mrp": Dataset(
            what="the k8s simulator's small test: 11 tasks on the edge and cloud nodes of one laboratory",
            licence=_K8SSIM_LICENCE,
            files=("k8ssim/nodes_7-0.yaml", "k8ssim/wsl_test_mrp-2.yaml"),
            read=_k8ssim,
        ),
        "gavel/*": Dataset(
            what="training jobs derived from Philly with measured V100 speeds; unmeasured jobs are left out",
            licence="MIT",
            files=("gavel/simulation_throughputs.json", "gavel/msr_seed0/*.trace"),
            read=_gavel,
            alternatives=("gavel/physical_cluster/*.trace",),
        ),
        "huawei": Dataset(
            what="Huawei-East-1: 116,313 virtual machines of one month, their lifetimes, SPANE's starts",
            licence="CC BY-NC 4.0 (Huawei): not for commercial use; the derived files MIT",
            files=(
                "vms/huawei_east_1/Huawei-East-1-lt.csv",
                "vms/huawei_east_1/test_random_time_1000.npy",
                "vms/huawei_east_1/valid_random_time_150.npy",
            ),
            world="vms",
        ),
        "huawei-events": Dataset(
            what="Huawei-East-1 as published: creations and deletions, machines that never end included",
            licence="CC BY-NC 4.0 (Huawei): not for commercial use",
            files=("vms/huawei_east_1/Huawei-East-1.csv",),
            world="vms",
        ),
        "alibaba2025": Dataset(
            what="Alibaba disaggregated DLRM 2025: 23,871 instances with times, on nodes sized to them",
            licence="Alibaba: study and research",
            files=("alibaba_gpu_v2025/disaggregated_DLRM_trace.csv",),
            read=_alibaba2025,
        ),
    }
)


def data_dir(explicit: Path | None) -> Path | None:
    """The data folder: `explicit` (from --data), else PROREUS_DATA, else None."""
    variable = os.environ.get(VARIABLE)
    named = explicit or (Path(variable) if variable else None)
    if named is not None and not _is_folder(named):
        raise InputError(f"no such folder; {_HOW}", file=named)
    return named


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name that no file system takes
        return False


def holds(name: str, folder: Path | None) -> bool:
    """Whether the folder has every file of the dataset of that name."""
    if folder is None or "*" in name:
        return False
    pattern, member = _find(name, folder)
    try:
        for file in DATASETS[pattern].files:
            _locate(DATASETS[pattern], file, folder, member)
    except InputError:
        return False
    return True


def known(folder: Path | None, world: str | None = None) -> dict[str, Dataset]:
    """Datasets by name, of one world or of all; families become their members where the folder holds some."""
    names: dict[str, Dataset] = {}
    for name, dataset in DATASETS.items():
        if world is not None and dataset.world != world:
            continue
        members = _members(dataset, folder) if folder is not None else ()
        names.update({name.replace("*", member): dataset for member in members} or {name: dataset})
    return names


def load(name: str, folder: Path | None, seed: int) -> Workload:
    """The dataset of that name as a workload; the seed matters only to experiments that draw."""
    files = files_of(name, folder)
    read = DATASETS[_find(name, folder)[0]].read
    if read is None:
        raise UsageError(f"the dataset {name!r} is not work for the world of pods")
    try:
        return replace(read(files, seed), name=name)
    except ValueError as error:  # each file is sound, together they are not a workload
        raise InputError(str(error), file=files[-1]) from error


def files_of(name: str, folder: Path | None) -> tuple[Path, ...]:
    """The files of the dataset of that name; an InputError where one is missing."""
    pattern, member = _find(name, folder)
    if folder is None:
        raise InputError(f"the dataset {name!r} needs data files; {_HOW}")
    dataset = DATASETS[pattern]
    return tuple(_locate(dataset, file, folder, member) for file in dataset.files)


def _find(name: str, folder: Path | None) -> tuple[str, str]:
    """The key in the catalogue and the member of the family that a name stands for."""
    if name in DATASETS and "*" not in name:
        return name, ""
    family, slash, member = name.partition("/")
    pattern = f"{family}/*"
    # A member becomes part of a file name, so it must not lead out of the folder.
    if not slash or pattern not in DATASETS or not member or not _is_plain(member):
        raise unknown_name("dataset", name, known(folder))
    return pattern, member


def _is_plain(member: str) -> bool:
    return all(character.isalnum() or character in "-_" for character in member)


def _members(dataset: Dataset, folder: Path) -> tuple[str, ...]:
    found = set()
    for pattern in (*dataset.files, *dataset.alternatives):
        if "*" in pattern:
            prefix, suffix = Path(pattern).name.split("*")
            found |= {p.name.removeprefix(prefix).removesuffix(suffix) for p in folder.glob(pattern)}
    return tuple(sorted(found))


def _locate(dataset: Dataset, file: str, folder: Path, member: str) -> Path:
    places = (file, *dataset.alternatives) if "*" in file else (file,)
    paths = [folder / place.replace("*", member) for place in places]
    for path in paths:
        if path.is_file():
            return path
    here = _members(dataset, folder)
    members = f" (there are: {', '.join(here)})" if member and here else ""
    raise InputError(f"no such file{members}; {_HOW}", file=paths[0])
