"""The public snapshot of a cluster."""

from __future__ import annotations

from types import MappingProxyType

from proreus.data.catalogue import Dataset
from proreus.data.remotes import GITHUB, published

DATASETS: MappingProxyType[str, Dataset] = MappingProxyType(
    {
        "bytedance": Dataset(
            what="ByteDance's cluster, from VMR2L: servers of two NUMA nodes and their virtual machines",
            licence="Apache-2.0",
            files=("vms/vmr2l_bytedance/reset_vm_pm_id_clear2.json",),
            home="https://github.com/bytedance/DRL-based-VM-Rescheduling",
            remotes=published(
                f"{GITHUB}/bytedance/DRL-based-VM-Rescheduling/a1232df1bce7851c991229fd7a34871f0685f5f0/data",
                "vms/vmr2l_bytedance",
                (
                    (
                        "reset_vm_pm_id_clear2.json",
                        "60a4db31443d83f8d5d18ce95ade9adeb62b67d0f8ee19360a68ed0d9de1ee1f",
                        1_243_370,
                    ),
                ),
            ),
        ),
    }
)
