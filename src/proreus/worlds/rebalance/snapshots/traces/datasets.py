"""The public snapshot of a cluster."""

from __future__ import annotations

from types import MappingProxyType

from proreus.reading.catalogue import Dataset

DATASETS: MappingProxyType[str, Dataset] = MappingProxyType(
    {
        "bytedance": Dataset(
            what="ByteDance's cluster, from VMR2L: servers of two NUMA nodes and their virtual machines",
            licence="Apache-2.0",
            files=("vms/vmr2l_bytedance/reset_vm_pm_id_clear2.json",),
        ),
    }
)
