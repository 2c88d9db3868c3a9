"""The public datasets that are work for pods, and the reader of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from proreus.data.catalogue import Dataset, dataset_of, files_of
from proreus.model.errors import InputError
from proreus.model.node import Node
from proreus.model.pod import Pod
from proreus.model.workload import Workload
from proreus.worlds.pods.datasets import (
    alibaba2025,
    gavel,
    k8ssim,
    k8ssim_variants,
    openb,
    openb_mixes,
    remotes,
)


@dataclass(frozen=True, kw_only=True)
class PodDataset(Dataset):
    """A dataset that becomes a workload of pods."""

    read: Callable[[tuple[Path, ...], int], Workload]
    """From its files and a seed to the workload."""


def load(name: str, folder: Path | None, seed: int) -> Workload:
    """The dataset of that name as a workload; the seed matters only to experiments that draw."""
    files = files_of(DATASETS, name, folder)
    try:
        return replace(dataset_of(DATASETS, name, folder).read(files, seed), name=name)
    except ValueError as error:  # each file is sound, together they are not a workload
        raise InputError(str(error), file=files[-1]) from error


@lru_cache(maxsize=2)
def _openb_lists(
    files: tuple[Path, ...], written: tuple[int, ...]
) -> tuple[tuple[Node, ...], tuple[Pod, ...]]:
    return openb.read_nodes(files[0]), openb.read_pods(files[1])


def _openb_files(files: tuple[Path, ...]) -> tuple[tuple[Node, ...], tuple[Pod, ...]]:
    """Nodes and pods; every seed draws from the same, so files that stay as they are are read once."""
    return _openb_lists(files, tuple(file.stat().st_mtime_ns for file in files))


def _openb_experiment(files: tuple[Path, ...], seed: int) -> Workload:
    return openb.openb_experiment(*_openb_files(files), seed)


def _openb_mix(mix: openb_mixes.Mix) -> Callable[[tuple[Path, ...], int], Workload]:
    """The experiment with another mix of pods, mixed the same way for every seed."""

    def read(files: tuple[Path, ...], seed: int) -> Workload:
        nodes, pods = _openb_files(files)
        return openb.openb_experiment(nodes, mix.pods(pods, nodes), seed)

    return read


def _openb_trace(files: tuple[Path, ...], seed: int) -> Workload:
    return Workload("openb-trace", openb.read_nodes(files[0]), openb.read_pods(files[1]))


def _k8ssim(files: tuple[Path, ...], seed: int) -> Workload:
    return k8ssim.read_workload(files[0], files[1])


def _k8ssim_variant(variant: k8ssim_variants.Variant) -> Callable[[tuple[Path, ...], int], Workload]:
    def read(files: tuple[Path, ...], seed: int) -> Workload:
        return k8ssim_variants.changed(_k8ssim(files, seed), variant, seed)

    return read


def _gavel(files: tuple[Path, ...], seed: int) -> Workload:
    throughputs = gavel.read_throughputs(files[0])
    pods = gavel.read_jobs(files[1], throughputs, gavel.Unmeasured.LEAVE_OUT)
    return Workload("gavel", gavel.nodes_for(pods), pods)


def _alibaba2025(files: tuple[Path, ...], seed: int) -> Workload:
    pods = alibaba2025.read_pods(files[0])
    return Workload("alibaba2025", alibaba2025.dlrm_nodes(pods), pods)


_OPENB_HOME = "https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2023"
_K8SSIM_HOME = (
    "https://github.com/LINC-BIT/k8sSimulator, in the fork https://github.com/realdacongjun/k8sSimulator"
)
_OPENB_LICENCE = "Alibaba: study and research; the same files are Apache-2.0 in hkust-adsl's repository"
_K8SSIM_LICENCE = "no licence file at its root; the simulator in it is Apache-2.0"

DATASETS: MappingProxyType[str, PodDataset] = MappingProxyType(
    {
        "openb/*": PodDataset(
            what="Alibaba GPU cluster 2023, the published experiment: arrivals only, up to 130 % GPU load",
            licence=_OPENB_LICENCE,
            files=("openb/openb_node_list_gpu_node.csv", "openb/openb_pod_list_*.csv"),
            read=_openb_experiment,
            home=_OPENB_HOME,
            remotes=remotes.OPENB,
        ),
        **{
            f"openb-mix/{mix.name}": PodDataset(
                what=f"the openb default experiment with {mix.what}, our own mix",
                licence=_OPENB_LICENCE,
                files=("openb/openb_node_list_gpu_node.csv", "openb/openb_pod_list_default.csv"),
                read=_openb_mix(mix),
                home=_OPENB_HOME,
                remotes=remotes.OPENB,
            )
            for mix in openb_mixes.MIXES
        },
        "openb-trace/*": PodDataset(
            what="Alibaba GPU cluster 2023 with its real arrivals and departures",
            licence=_OPENB_LICENCE,
            files=("openb/openb_node_list_gpu_node.csv", "openb/openb_pod_list_*.csv"),
            read=_openb_trace,
            home=_OPENB_HOME,
            remotes=remotes.OPENB,
        ),
        "k8ssim/large": PodDataset(
            what="the k8s simulator's large test: 350 tasks on 500 nodes",
            licence=_K8SSIM_LICENCE,
            files=("k8ssim/nodes_500.yaml", "k8ssim/wsl_large_test.yaml"),
            read=_k8ssim,
            home=_K8SSIM_HOME,
            remotes=remotes.K8SSIM,
        ),
        **{
            f"k8ssim-variant/{variant.name}": PodDataset(
                what=f"the k8s simulator's large test with {variant.what}, drawn by the seed",
                licence=_K8SSIM_LICENCE,
                files=("k8ssim/nodes_500.yaml", "k8ssim/wsl_large_test.yaml"),
                read=_k8ssim_variant(variant),
                home=_K8SSIM_HOME,
                remotes=remotes.K8SSIM,
            )
            for variant in k8ssim_variants.VARIANTS
        },
        "k8ssim/mrp": PodDataset(
            what="the k8s simulator's small test: 11 tasks on the edge and cloud nodes of one laboratory",
            licence=_K8SSIM_LICENCE,
            files=("k8ssim/nodes_7-0.yaml", "k8ssim/wsl_test_mrp-2.yaml"),
            read=_k8ssim,
            home=_K8SSIM_HOME,
            remotes=remotes.K8SSIM,
        ),
        "gavel/*": PodDataset(
            what="training jobs derived from Philly with measured V100 speeds; unmeasured jobs are left out",
            licence="MIT",
            files=("gavel/simulation_throughputs.json", "gavel/msr_seed0/*.trace"),
            read=_gavel,
            home="https://github.com/stanford-futuredata/gavel",
            remotes=remotes.GAVEL,
            alternatives=("gavel/physical_cluster/*.trace",),
        ),
        "alibaba2025": PodDataset(
            what="Alibaba disaggregated DLRM 2025: 23,871 instances with times, on nodes sized to them",
            licence="Alibaba: study and research",
            files=("alibaba_gpu_v2025/disaggregated_DLRM_trace.csv",),
            read=_alibaba2025,
            home="https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2025",
            remotes=remotes.DLRM,
        ),
    }
)
