"""The public datasets that are work for virtual machines' servers."""

from __future__ import annotations

from types import MappingProxyType

from proreus.reading.catalogue import Dataset

DATASETS: MappingProxyType[str, Dataset] = MappingProxyType(
    {
        "huawei": Dataset(
            what="Huawei-East-1: 116,313 virtual machines of one month, their lifetimes, SPANE's starts",
            licence="CC BY-NC 4.0 (Huawei): not for commercial use; SPANE's starts MIT",
            files=(
                "vms/huawei_east_1/Huawei-East-1-lt.csv",
                "vms/huawei_east_1/test_random_time_1000.npy",
                "vms/huawei_east_1/valid_random_time_150.npy",
            ),
        ),
        "huawei-events": Dataset(
            what="Huawei-East-1 as published: creations and deletions, machines that never end included",
            licence="CC BY-NC 4.0 (Huawei): not for commercial use",
            files=("vms/huawei_east_1/Huawei-East-1.csv",),
        ),
    }
)
