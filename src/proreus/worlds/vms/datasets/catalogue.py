"""The public datasets that are work for virtual machines' servers."""

from __future__ import annotations

from types import MappingProxyType

from proreus.data.catalogue import Dataset
from proreus.data.remotes import GITHUB, published

_HUAWEI = "https://github.com/huaweicloud/VM-placement-dataset"

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
            home=f"https://github.com/ChanTinPing/SPANE, from {_HUAWEI}",
            remotes=published(
                f"{GITHUB}/ChanTinPing/SPANE/f1d7df9e9f717780513bded3fefd1c1d9484200c/data",
                "vms/huawei_east_1",
                (
                    (
                        "Huawei-East-1-lt.csv",
                        "2094a0c8a793b45c0698451a91a28e6a608447e6aeb439064b645c580dda8cd3",
                        3_056_573,
                    ),
                    (
                        "test_random_time_1000.npy",
                        "ec02b4e8a812c2e66b8b9a69816e86a1c2db9eae4ef2ede881e4068d86d6ae0f",
                        8_128,
                    ),
                    (
                        "valid_random_time_150.npy",
                        "ab072954ac2125f881accfe7ceba5dd44121ff0d4a8e444fb0caeca3cf8437ce",
                        1_328,
                    ),
                ),
            ),
        ),
        "huawei-events": Dataset(
            what="Huawei-East-1 as published: creations and deletions, machines that never end included",
            licence="CC BY-NC 4.0 (Huawei): not for commercial use",
            files=("vms/huawei_east_1/Huawei-East-1.csv",),
            home=_HUAWEI,
        ),
    }
)
